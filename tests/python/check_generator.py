"""Computes the golden vectors of the input generator independently and compares them with tests/vectors/generator.json.

Written from the description at the head of fleet-config/src/generator/mod.rs, in plain Python: floats here are
IEEE 754 doubles whose + - * / and square root are rounded one by one, and the rounding to narrower types is done
with exact rationals. Needs nothing but the standard library. Exits 1 on any difference.
"""

import json
import math
import struct
import sys
from fractions import Fraction
from pathlib import Path

MASK = 0xFFFFFFFF


# --- BLAKE3, from its specification (sections 2.1 to 2.6), hash mode only ---

IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
LANES = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def rotate(word, by):
    return ((word >> by) | (word << (32 - by))) & MASK


def compress(chaining, block, counter, length, flags):
    v = chaining + IV[:4] + [counter & MASK, counter >> 32, length, flags]
    m = list(block)
    for _ in range(7):
        for lane, (a, b, c, d) in enumerate(LANES):
            for word, (by_d, by_b) in ((m[2 * lane], (16, 12)), (m[2 * lane + 1], (8, 7))):
                v[a] = (v[a] + v[b] + word) & MASK
                v[d] = rotate(v[d] ^ v[a], by_d)
                v[c] = (v[c] + v[d]) & MASK
                v[b] = rotate(v[b] ^ v[c], by_b)
        m = [m[i] for i in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def words(block):
    return list(struct.unpack("<16I", block.ljust(64, b"\0")))


def hash_chunk(data, counter, last_flag):
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    chaining = IV
    for i, block in enumerate(blocks):
        end = i == len(blocks) - 1
        flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END | last_flag if end else 0)
        chaining = compress(chaining, words(block), counter, len(block), flags)
    return chaining


def hash_tree(chunks, first, root_flag):
    if len(chunks) == 1:
        return hash_chunk(chunks[0], first, root_flag)
    left = 1 << ((len(chunks) - 1).bit_length() - 1)
    block = hash_tree(chunks[:left], first, 0) + hash_tree(chunks[left:], first + left, 0)
    return compress(IV, block, 0, 64, PARENT | root_flag)


def blake3(data):
    chunks = [data[i:i + 1024] for i in range(0, len(data), 1024)] or [b""]
    return struct.pack("<8I", *hash_tree(chunks, 0, ROOT))


# --- Philox4x32-10 (Salmon et al., SC 2011) ---

def philox(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def stream_key(vector):
    text = (b"muster.input/1\0" + struct.pack("<Q", vector["seed"]) + vector["case"].encode() + b"\0"
            + vector["parameter"].encode() + b"\0" + struct.pack("<I", vector["draw"]))
    return struct.unpack("<2I", blake3(text)[:8])


def random_bits(key, index):
    low, high, _, _ = philox((index & MASK, index >> 32, 0, 0), key)
    return low | (high << 32)


# --- the normal quantile: AS 241 with a logarithm by series ---

CENTRE = ([3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
           4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3],
          [1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
           2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3])
TAIL = ([1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
         1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4],
        [1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
         1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9])
FAR = ([6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
        2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7],
       [1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
        7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15])
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


def polynomial(coefficients, x):
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def logarithm(x):
    mantissa, exponent = math.frexp(x)  # mantissa in [1/2, 1)
    mantissa, exponent = mantissa * 2.0, exponent - 1
    if mantissa >= 1.4142135623730951:
        mantissa, exponent = mantissa * 0.5, exponent + 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    series = polynomial([1.0 / (2 * term + 1) for term in range(13)], s * s)
    return exponent * LN2_HIGH + (exponent * LN2_LOW + 2.0 * s * series)


def quantile(p):
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * (polynomial(CENTRE[0], r) / polynomial(CENTRE[1], r))
    r = math.sqrt(-logarithm(p if q < 0.0 else 1.0 - p))
    table, r = (TAIL, r - 1.6) if r <= 5.0 else (FAR, r - 5.0)
    x = polynomial(table[0], r) / polynomial(table[1], r)
    return -x if q < 0.0 else x


# --- elements ---

FLOATS = {"f64": (11, 52), "f32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}
INTEGERS = {"i64": (64, True), "i32": (32, True), "i16": (16, True), "i8": (8, True),
            "u64": (64, False), "u32": (32, False), "u16": (16, False), "u8": (8, False), "bool": (8, False)}


def width(element):
    return (1 + sum(FLOATS[element])) // 8 if element in FLOATS else INTEGERS[element][0] // 8


def float_value(bits, element):
    exponent_bits, fraction_bits = FLOATS[element]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = -1 if bits >> (exponent_bits + fraction_bits) else 1
    exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    if exponent == 0:
        return sign * Fraction(fraction) * Fraction(2) ** (1 - bias - fraction_bits)
    return sign * Fraction((1 << fraction_bits) + fraction) * Fraction(2) ** (exponent - bias - fraction_bits)


def nearest_bits(value, element):
    """Bits of the nearest finite float, ties to the even pattern, found on the exact value."""
    exponent_bits, fraction_bits = FLOATS[element]
    negative = math.copysign(1.0, value) < 0
    target = abs(Fraction(value))
    low, high = 0, (((1 << exponent_bits) - 1) << fraction_bits) - 1
    largest = high
    while low < high:  # the largest pattern whose value does not exceed the target
        middle = (low + high + 1) // 2
        if float_value(middle, element) <= target:
            low = middle
        else:
            high = middle - 1
    if low < largest:
        below, above = target - float_value(low, element), float_value(low + 1, element) - target
        if above < below or (above == below and low % 2 == 1):
            low += 1
    return low | (negative << (exponent_bits + fraction_bits))


def real_bytes(value, element):
    size = width(element)
    if element in FLOATS:
        return nearest_bits(value, element).to_bytes(size, "little")
    if element == "bool":
        return bytes([value >= 0.5])
    bits, signed = INTEGERS[element]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return max(low, min(high, math.floor(value))).to_bytes(size, "little", signed=signed)


def integer_bytes(value, element):
    if element in FLOATS:
        return real_bytes(float(value), element)
    return value.to_bytes(width(element), "little", signed=INTEGERS[element][1])


def uniform_bytes(element, bits, low, high):
    unit = (bits >> 11) / 2.0**53 if element == "f64" else ((bits & MASK) >> 8) / 2.0**24
    encoded = real_bytes(low + (high - low) * unit, element)
    if element in FLOATS:
        pattern = int.from_bytes(encoded, "little")
        if float_value(pattern, element) >= Fraction(high):
            sign = 1 << (8 * width(element) - 1)
            pattern = (sign | 1) if pattern == 0 else pattern + 1 if pattern & sign else pattern - 1
            encoded = pattern.to_bytes(width(element), "little")
    return encoded


def special_bytes(value, element):
    exponent_bits, fraction_bits = FLOATS[element]
    pattern = ((1 << exponent_bits) - 1) << fraction_bits
    if value == "nan":
        pattern |= 1 << (fraction_bits - 1)
    if value == "-inf":
        pattern |= 1 << (exponent_bits + fraction_bits)
    return pattern.to_bytes(width(element), "little")


def cast_bytes(value, element):
    """What a C cast makes of an exact number: integers wrap, floats round to nearest through a double or overflow."""
    size = width(element)
    if element in FLOATS:
        double = float(value)
        exponent_bits, fraction_bits = FLOATS[element]
        infinity = ((1 << exponent_bits) - 1) << fraction_bits
        largest = float_value(infinity - 1, element)
        half_step = (largest - float_value(infinity - 2, element)) / 2
        if abs(Fraction(double)) >= largest + half_step:
            return special_bytes("-inf" if double < 0 else "inf", element)
        return nearest_bits(double, element).to_bytes(size, "little")
    if element == "bool":
        return bytes([value != 0])
    return (math.trunc(value) % (1 << (8 * size))).to_bytes(size, "little")


def cast_elements(vector):
    (kind, fields), = vector["input"].items()
    key, result = stream_key(vector), []
    for index in range(vector["count"]):
        if kind == "integers":
            value = fields["low"] + ((random_bits(key, index) * (fields["high"] - fields["low"])) >> 64)
        elif kind == "arange":
            value = fields["start"] + index * fields["step"]
        elif kind == "constant":
            value = Fraction(float(fields["value"]))
        else:
            raise ValueError(f"{kind} cannot be cast")
        result.append(cast_bytes(value, vector["element"]))
    return result


def elements(vector):
    if vector["input"] == "poison":
        byte = 0x7B if random_bits(stream_key(vector), 0) & 1 else 0xFF
        return [bytes([byte] * width(vector["element"]))] * vector["count"]
    (kind, fields), = vector["input"].items()
    if kind == "adapted":
        result = (cast_elements if fields["fit"] == "cast" else elements)(dict(vector, input=fields["draw"]))
        for special in fields["specials"]:
            result[special["index"]] = special_bytes(special["value"], vector["element"])
        return result
    element, count, key = vector["element"], vector["count"], stream_key(vector)
    result = []
    for index in range(count):
        bits = random_bits(key, index)
        if kind == "normal":
            point = quantile(((bits >> 12) + 0.5) / 2.0**52)
            result.append(real_bytes(float(fields["mean"]) + float(fields["std"]) * point, element))
        elif kind == "uniform":
            result.append(uniform_bytes(element, bits, float(fields["low"]), float(fields["high"])))
        elif kind == "integers":
            offset = (bits * (fields["high"] - fields["low"])) >> 64
            result.append(integer_bytes(fields["low"] + offset, element))
        elif kind == "arange":
            result.append(integer_bytes(fields["start"] + index * fields["step"], element))
        elif kind == "constant":
            result.append(real_bytes(float(fields["value"]), element))
        else:
            raise ValueError(f"unknown input {kind}")
    for special in fields.get("specials", []):
        result[special["index"]] = special_bytes(special["value"], element)
    return result


def self_check():
    assert blake3(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    answer = (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    counter = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox(counter, (0xA4093822, 0x299F31D0)) == answer


def main():
    self_check()
    default = Path(__file__).resolve().parent.parent / "vectors" / "generator.json"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    vectors = json.loads(path.read_text(encoding="utf-8"))
    wrong = 0
    for position, vector in enumerate(vectors):
        computed = elements(vector)
        first = [element.hex() for element in computed[:4]]
        digest = blake3(b"".join(computed)).hex()
        if (first, digest) != (vector["first"], vector["blake3"]):
            wrong += 1
            print(f"vector {position} ({vector['element']}, {vector['input']}): computed {first} {digest}")
    print(f"{len(vectors) - wrong} of {len(vectors)} vectors agree")
    return 1 if wrong or not vectors else 0


if __name__ == "__main__":
    sys.exit(main())
