#!/usr/bin/env python3
"""Checks an export of DSSE envelopes with other people's code.

    muster export --format intoto --out all.intoto.jsonl
    muster ledger signers > signers.txt
    python3 tests/python/check_envelopes.py all.intoto.jsonl signers.txt [ROOT]

Each line is verified by securesystemslib where it is installed (`pip install securesystemslib[crypto]`), else by
`ed25519.py` beside this file. With ROOT (hex) the lines must also be the whole log of that root (RFC 6962).
Prints one line and ends with 0 if all holds, 1 if not, 2 if it was called wrongly.
"""
import base64
import hashlib
import json
import sys

import ed25519


def keys_of(path):
    with open(path, encoding="utf-8") as lines:
        pairs = [line.split() for line in lines if line.strip()]
    return {key_id: bytes.fromhex(key) for key_id, key in pairs}


def pae(kind, body):
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


def verify_alone(envelope, keys):
    body = base64.b64decode(envelope["payload"], validate=True)
    message = pae(envelope["payloadType"].encode(), body)
    (signature,) = envelope["signatures"]
    key = keys[signature["keyid"]]
    assert hashlib.sha256(key).hexdigest() == signature["keyid"], "the key id is not the SHA-256 of the key"
    assert ed25519.verify(key, message, base64.b64decode(signature["sig"], validate=True)), "bad signature"
    return body


def stock_verifier():
    try:
        from securesystemslib.dsse import Envelope
        from securesystemslib.signer import SSlibKey
    except ImportError:
        return None

    def verify(envelope, keys):
        named = envelope["signatures"][0]["keyid"]
        read = Envelope.from_dict(envelope)
        known = [
            SSlibKey(key_id, "ed25519", "ed25519", {"public": key.hex()}) for key_id, key in keys.items()
        ]
        accepted = read.verify(known, 1)
        assert list(accepted) == [named], "not the signer that the envelope names"
        return read.payload

    return verify


def head(leaves):
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + head(leaves[:split]) + head(leaves[split:])).digest()


def main(arguments):
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    keys = keys_of(arguments[1])
    stock = stock_verifier()
    verify, who = (stock, "securesystemslib") if stock else (verify_alone, "ed25519.py")
    leaves = []
    with open(arguments[0], "rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip(b"\n")
            try:
                statement = json.loads(verify(json.loads(line), keys))
                assert statement["_type"] == "https://in-toto.io/Statement/v1", "no in-toto Statement"
                assert len(statement["subject"]) == 1, "not exactly one subject"
            except Exception as error:  # every failure is a verdict here, whatever library it came from
                print(f"line {number}: {type(error).__name__}: {error}")
                return 1
            leaves.append(hashlib.sha256(b"\x00" + line).digest())
    if len(arguments) == 3 and head(leaves).hex() != arguments[2]:
        print(f"the lines have the root {head(leaves).hex()}, not {arguments[2]}")
        return 1
    print(f"{len(leaves)} envelopes hold, checked by {who}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
