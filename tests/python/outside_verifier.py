#!/usr/bin/env python3
"""Verifies a log folder from the C2SP documents alone (tlog-tiles, tlog-checkpoint, signed-note; RFC 6962), with Python's
standard library: nothing of Muster is used.

    python3 tests/python/outside_verifier.py FOLDER VKEY

Every tile and every entry bundle of the signed tree is read and compared; `.state/`, blobs and what entries say are not
looked at. Prints one line; ends with 0 if all holds, 1 if not.
"""
import base64
import hashlib
import os
import sys

import ed25519

WIDTH = 256


class Refused(Exception):
    """What is wrong, for people."""


def sha256(data):
    return hashlib.sha256(data).digest()


def read(folder, path):
    try:
        with open(os.path.join(folder, path), "rb") as file:
            return file.read()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def checkpoint(folder, vkey):
    name, key_id, key = vkey.split("+", 2)
    typed = base64.b64decode(key, validate=True)
    if sha256(name.encode() + b"\n" + typed)[:4].hex() != key_id or typed[0] != 1 or len(typed) != 33:
        raise Refused("the verifier key is malformed")
    note = read(folder, "checkpoint")
    text, _, lines = note.rpartition(b"\n\n")
    text += b"\n"
    if not lines.endswith(b"\n"):
        raise Refused("the checkpoint does not end with a line")
    signed = False
    # Not splitlines(), to which a vertical tab is the end of a line too.
    for line in lines[:-1].decode().split("\n"):
        dash, signer, encoded = line.split(" ")
        raw = base64.b64decode(encoded, validate=True)
        if dash != "\u2014" or base64.b64encode(raw).decode() != encoded:
            raise Refused("a signature line is malformed")
        if signer == name and raw[:4].hex() == key_id:
            if not ed25519.verify(typed[1:], text, raw[4:]):
                raise Refused("the checkpoint's signature does not hold")
            signed = True
    if not signed:
        raise Refused("the checkpoint is not signed by this key")
    origin, size, root = text.decode().split("\n")[:3]
    if origin != name or str(int(size)) != size:
        raise Refused("the checkpoint's text is malformed")
    digest = base64.b64decode(root, validate=True)
    if len(digest) != 32 or base64.b64encode(digest).decode() != root:
        raise Refused("the checkpoint's root is malformed")
    return int(size), digest


def place(number):
    groups = [f"{number % 1000:03}"]
    while number >= 1000:
        number //= 1000
        groups.insert(0, f"x{number % 1000:03}")
    return "/".join(groups)


def tile(folder, level, number, width):
    """A tile of at least this width: the partial one, else the full one that took its place."""
    path = f"tile/{level}/{place(number)}"
    if width < WIDTH:
        try:
            return read(folder, f"{path}.p/{width}"), width
        except Refused:
            pass
    return read(folder, path), WIDTH


def bundle_leaves(folder, number, width):
    data, stored = tile(folder, "entries", number, width)
    leaves, at = [], 0
    for _ in range(stored):
        length = int.from_bytes(data[at : at + 2], "big")
        entry = data[at + 2 : at + 2 + length]
        if len(entry) != length or at + 2 > len(data):
            raise Refused(f"bundle {number} is cut off")
        leaves.append(sha256(b"\x00" + entry))
        at += 2 + length
    if at != len(data):
        raise Refused(f"bundle {number} has bytes behind its last entry")
    return leaves[:width]


def head(hashes):
    if not hashes:
        return sha256(b"")
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return sha256(b"\x01" + head(hashes[:split]) + head(hashes[split:]))


def verify(folder, vkey):
    size, root = checkpoint(folder, vkey)
    hashes = []
    for number in range((size + WIDTH - 1) // WIDTH):
        hashes += bundle_leaves(folder, number, min(WIDTH, size - number * WIDTH))
    if head(hashes) != root:
        raise Refused("the entries do not lead to the signed root")
    level, files = 0, 0
    while hashes:
        for number in range((len(hashes) + WIDTH - 1) // WIDTH):
            wanted = hashes[number * WIDTH : (number + 1) * WIDTH]
            data, stored = tile(folder, level, number, len(wanted))
            if len(data) != 32 * stored or data[: 32 * len(wanted)] != b"".join(wanted):
                raise Refused(f"tile {level}/{number} is not that of the entries")
            files += 1
        full = len(hashes) // WIDTH
        hashes = [head(hashes[n * WIDTH : (n + 1) * WIDTH]) for n in range(full)]
        level += 1
    return f"{size} entries and {files} tiles hold, root {root.hex()}"


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(verify(*arguments))
    except (Refused, ValueError) as error:
        print(f"refused: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
