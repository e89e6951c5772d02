// Conversions between binary64 and formats of 16 bits and fewer, rounded once in any direction (IEEE 754-2019, 4.3).
#pragma once

namespace muster {
enum class Round { nearest, zero, up, down };

static inline uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return bits;
}
static inline double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
static inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

// The magnitude of a finite `value` in a format of so many exponent and mantissa bits. Beyond the largest exponent
// the pattern goes on counting, so that the caller sees an overflow whatever the format makes of it.
template <int EXPONENT, int MANTISSA> static inline uint64_t magnitude(double value, Round round) {
  constexpr int bias = (1 << (EXPONENT - 1)) - 1;
  uint64_t bits = bits_of_double(value) & ~(uint64_t(1) << 63);
  int exponent = int(bits >> 52) - 1023;
  uint64_t significand = bits & ((uint64_t(1) << 52) - 1);
  if (exponent == -1023) exponent = -1022;
  else significand |= uint64_t(1) << 52;
  int shift = 52 - MANTISSA + (exponent < 1 - bias ? 1 - bias - exponent : 0);
  if (shift > 55) shift = 55;
  uint64_t kept = significand >> shift, rest = significand & ((uint64_t(1) << shift) - 1);
  uint64_t half = uint64_t(1) << (shift - 1);
  bool negative = bits_of_double(value) >> 63;
  bool up = round == Round::nearest ? rest > half || (rest == half && (kept & 1))
            : round == Round::up    ? rest && !negative
            : round == Round::down  ? rest && negative
                                    : false;
  kept += up;
  return exponent < 1 - bias ? kept : (uint64_t(exponent + bias - 1) << MANTISSA) + kept;
}

// The pattern of an interchange format with infinities; a NaN becomes `nan`.
template <int EXPONENT, int MANTISSA> static inline uint32_t narrow(double value, Round round, uint32_t nan) {
  constexpr uint64_t infinity = ((uint64_t(1) << EXPONENT) - 1) << MANTISSA;
  if (value != value) return nan;
  bool negative = bits_of_double(value) >> 63;
  uint32_t sign = negative ? 1u << (EXPONENT + MANTISSA) : 0u;
  if (value - value != 0) return sign | uint32_t(infinity);
  uint64_t found = magnitude<EXPONENT, MANTISSA>(value, round);
  if (found >= infinity) {
    bool away = round == Round::nearest || (round == Round::up && !negative) || (round == Round::down && negative);
    found = away ? infinity : infinity - 1;
  }
  return sign | uint32_t(found);
}
static inline float narrow_float(double value, Round round) {
  return float_of_bits(narrow<8, 23>(value, round, 0x7fffffffu));
}

// `value` carries the sign of what its rounding to double lost: rounding it to odd keeps every later rounding right
// (Boldo and Melquiond 2008).
static inline double to_odd(double value, double lost) {
  uint64_t bits = bits_of_double(value);
  if (lost == 0 || lost != lost || value - value != 0 || (bits & 1)) return value;
  if (value == 0) return lost > 0 ? double_of_bits(1) : -double_of_bits(1);
  return double_of_bits((lost > 0) == (value > 0) ? bits + 1 : bits - 1);
}
// The sum of two doubles, rounded to odd; the error is that of Knuth's TwoSum.
static inline double sum_to_odd(double a, double b) {
  double sum = a + b, part = sum - a;
  return to_odd(sum, (a - (sum - part)) + (b - part));
}
static inline double quotient_to_odd(double a, double b) {
  double quotient = a / b, rest = ::fma(-quotient, b, a);
  return to_odd(quotient, b < 0 ? -rest : rest);
}
static inline double root_to_odd(double a) {
  double root = ::sqrt(a);
  return to_odd(root, ::fma(-root, root, a));
}

// Binary16: one sign, five exponent and ten mantissa bits.
struct HalfFormat {
  static inline unsigned short from_double(double value, Round round) {
    return (unsigned short)narrow<5, 10>(value, round, 0x7fffu);
  }
  static inline unsigned short from_float(float value) {
    uint32_t bits = bits_of_float(value), sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return 0x7fff;
    if (bits >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    if (bits < 0x38800000u) {
      // Adding a half makes the float's own rounding happen at the last place of a subnormal.
      return (unsigned short)(sign | (bits_of_float(float_of_bits(bits) + 0.5f) - 0x3f000000u));
    }
    return (unsigned short)(sign | ((bits + 0xfffu + ((bits >> 13) & 1u) - 0x38000000u) >> 13));
  }
  static inline float to_float(unsigned short half) {
    uint32_t sign = uint32_t(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    if (rest < 0x400u) {
      float magnitude = float(rest) * 0x1p-24f;
      return sign ? -magnitude : magnitude;
    }
    return float_of_bits(sign | ((rest << 13) + 0x38000000u));
  }
  // A float has room for twice its digits and two more: rounding twice is rounding once (Figueroa 1995).
  static inline bool needs_double(float) { return false; }
};

// Bfloat16: the upper half of a float.
struct Bfloat16Format {
  static inline unsigned short from_double(double value, Round round) {
    return (unsigned short)narrow<8, 7>(value, round, 0x7fffu);
  }
  static inline unsigned short from_float(float value) {
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
  static inline float to_float(unsigned short bits) { return float_of_bits(uint32_t(bits) << 16); }
  // Near its smallest values a float has no digits to spare.
  static inline bool needs_double(float result) { return ::fabsf(result) < 0x1p-125f; }
};
}
