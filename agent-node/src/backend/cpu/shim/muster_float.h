// Arithmetic with a stated rounding, and conversions between numbers. A float's operation is done in double, rounded to
// odd, and rounded once more in its direction; a double's is corrected by the sign of its exact error.
#pragma once
#include "muster_rounding.h"

namespace muster {
// Keeps the compiler from fusing a rounded product with a later addition.
template <class T> static inline T rounded(T value) {
#if defined(__x86_64__)
  __asm__("" : "+x"(value));
#elif defined(__aarch64__)
  __asm__("" : "+w"(value));
#endif
  return value;
}

// `value` is the nearest double of a result and `lost` has the sign of what is missing.
static inline double directed(double value, double lost, Round round) {
  if (::isinf(value) && lost == lost && lost != 0) lost = value > 0 ? -1.0 : 1.0;
  if (lost == 0 || lost != lost || round == Round::nearest) return value;
  bool up = round == Round::up || (round == Round::zero && value < 0);
  if (up == (lost > 0)) return ::nextafter(value, up ? HUGE_VAL : -HUGE_VAL);
  return value;
}
static inline double directed_sum(double a, double b, Round round) {
  double sum = rounded(a + b), part = sum - a;
  double lost = ::isinf(sum) && !::isinf(a) && !::isinf(b) ? 1.0 : (a - (sum - part)) + (b - part);
  // An exact zero of two opposite numbers is negative when rounding down.
  if (sum == 0 && round == Round::down && (a != 0 || ::signbit(a) || ::signbit(b))) return -0.0;
  return directed(sum, lost, round);
}
static inline double directed_product(double a, double b, Round round) {
  double product = rounded(a * b);
  bool overflow = ::isinf(product) && !::isinf(a) && !::isinf(b);
  return directed(product, overflow ? 1.0 : ::fma(a, b, -product), round);
}
static inline double directed_quotient(double a, double b, Round round) {
  double quotient = a / b;
  if (::isinf(quotient)) return b == 0 || ::isinf(a) ? quotient : directed(quotient, 1.0, round);
  double rest = ::fma(-quotient, b, a);
  return directed(quotient, b < 0 ? -rest : rest, round);
}
static inline double directed_root(double a, Round round) {
  double root = ::sqrt(a);
  return ::isinf(root) ? root : directed(root, ::fma(-root, root, a), round);
}
static inline float float_sum(float a, float b, Round round) {
  double sum = sum_to_odd(double(a), double(b));
  if (sum == 0 && round == Round::down && (a != 0 || ::signbit(a) || ::signbit(b))) return -0.0f;
  return narrow_float(sum, round);
}
static inline float float_fma(float a, float b, float c, Round round) {
  return narrow_float(sum_to_odd(double(a) * double(b), double(c)), round);
}

// A rounded value as an integer: out of range is the nearest one, NaN is 0, as the GPU converts.
template <class T> static inline T saturated(double value) {
  if (value != value) return sizeof(T) == 8 ? T(uint64_t(1) << 63) : T(0);
  if (value <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return T(value);
}
static inline double rounded_integer(double value, Round round) {
  switch (round) {
    case Round::nearest: return ::nearbyint(value);
    case Round::zero: return ::trunc(value);
    case Round::up: return ::ceil(value);
    case Round::down: return ::floor(value);
  }
  return value;
}
// An integer of 64 bits as a double in the direction asked for, or rounded to odd for a later rounding.
template <class T> static inline double lost_of(T value, double near) {
  __extension__ typedef __int128 Wide;
  return double(Wide(value) - Wide(near));
}
template <class T> static inline double wide_to_odd(T value) {
  double near = double(value);
  return to_odd(near, lost_of(value, near));
}
template <class T> static inline double wide_directed(T value, Round round) {
  double near = double(value);
  return directed(near, lost_of(value, near), round);
}
}

#define MUSTER_ROUNDED(MODE, ROUND)                                                                                  \
  static inline float __fadd_##MODE(float a, float b) { return muster::float_sum(a, b, muster::Round::ROUND); }      \
  static inline float __fsub_##MODE(float a, float b) { return muster::float_sum(a, -b, muster::Round::ROUND); }     \
  static inline float __fmul_##MODE(float a, float b) {                                                              \
    return muster::narrow_float(double(a) * double(b), muster::Round::ROUND);                                        \
  }                                                                                                                  \
  static inline float __fdiv_##MODE(float a, float b) {                                                              \
    return muster::narrow_float(muster::quotient_to_odd(double(a), double(b)), muster::Round::ROUND);                \
  }                                                                                                                  \
  static inline float __frcp_##MODE(float a) {                                                                       \
    return muster::narrow_float(muster::quotient_to_odd(1.0, double(a)), muster::Round::ROUND);                      \
  }                                                                                                                  \
  static inline float __fsqrt_##MODE(float a) {                                                                      \
    return muster::narrow_float(muster::root_to_odd(double(a)), muster::Round::ROUND);                               \
  }                                                                                                                  \
  static inline float __fmaf_##MODE(float a, float b, float c) {                                                     \
    return muster::float_fma(a, b, c, muster::Round::ROUND);                                                         \
  }                                                                                                                  \
  static inline float __fmaf_ieee_##MODE(float a, float b, float c) { return __fmaf_##MODE(a, b, c); }
MUSTER_ROUNDED(rz, zero)
MUSTER_ROUNDED(ru, up)
MUSTER_ROUNDED(rd, down)
#define MUSTER_ROUNDED_DOUBLE(MODE, ROUND)                                                                           \
  static inline double __dadd_##MODE(double a, double b) { return muster::directed_sum(a, b, muster::Round::ROUND); }\
  static inline double __dsub_##MODE(double a, double b) { return muster::directed_sum(a, -b, muster::Round::ROUND); }\
  static inline double __dmul_##MODE(double a, double b) {                                                           \
    return muster::directed_product(a, b, muster::Round::ROUND);                                                     \
  }                                                                                                                  \
  static inline double __ddiv_##MODE(double a, double b) {                                                           \
    return muster::directed_quotient(a, b, muster::Round::ROUND);                                                    \
  }                                                                                                                  \
  static inline double __drcp_##MODE(double a) { return muster::directed_quotient(1.0, a, muster::Round::ROUND); }   \
  static inline double __dsqrt_##MODE(double a) { return muster::directed_root(a, muster::Round::ROUND); }
MUSTER_ROUNDED_DOUBLE(rz, zero)
MUSTER_ROUNDED_DOUBLE(ru, up)
MUSTER_ROUNDED_DOUBLE(rd, down)

// To nearest is what the processor does.
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float a) { return a >= 0.0f ? (a > 1.0f ? 1.0f : a) : 0.0f; }
static inline float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
static inline float __fmaf_ieee_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return ::fma(a, b, c); }
static inline float __fadd_rn(float a, float b) { return muster::rounded(a + b); }
static inline float __fsub_rn(float a, float b) { return muster::rounded(a - b); }
static inline float __fmul_rn(float a, float b) { return muster::rounded(a * b); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return ::sqrtf(a); }
static inline float __frsqrt_rn(float a) { return float(1.0 / ::sqrt(double(a))); }
static inline double __dadd_rn(double a, double b) { return muster::rounded(a + b); }
static inline double __dsub_rn(double a, double b) { return muster::rounded(a - b); }
static inline double __dmul_rn(double a, double b) { return muster::rounded(a * b); }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __drcp_rn(double a) { return 1.0 / a; }
static inline double __dsqrt_rn(double a) { return ::sqrt(a); }

#define MUSTER_TO_INTEGER(T, WORD, MODE, ROUND)                                                                      \
  static inline T __float2##WORD##_##MODE(float a) {                                                                 \
    return muster::saturated<T>(muster::rounded_integer(double(a), muster::Round::ROUND));                           \
  }                                                                                                                  \
  static inline T __double2##WORD##_##MODE(double a) {                                                               \
    return muster::saturated<T>(muster::rounded_integer(a, muster::Round::ROUND));                                   \
  }                                                                                                                  \
  static inline float __##WORD##2float_##MODE(T a) {                                                                 \
    return muster::narrow_float(muster::wide_to_odd(a), muster::Round::ROUND);                                       \
  }
#define MUSTER_CONVERSIONS(MODE, ROUND)                                                                              \
  MUSTER_TO_INTEGER(int, int, MODE, ROUND)                                                                           \
  MUSTER_TO_INTEGER(unsigned int, uint, MODE, ROUND)                                                                 \
  MUSTER_TO_INTEGER(long long, ll, MODE, ROUND)                                                                      \
  MUSTER_TO_INTEGER(unsigned long long, ull, MODE, ROUND)                                                            \
  static inline double __ll2double_##MODE(long long a) { return muster::wide_directed(a, muster::Round::ROUND); }    \
  static inline double __ull2double_##MODE(unsigned long long a) {                                                   \
    return muster::wide_directed(a, muster::Round::ROUND);                                                           \
  }                                                                                                                  \
  static inline float __double2float_##MODE(double a) { return muster::narrow_float(a, muster::Round::ROUND); }
MUSTER_CONVERSIONS(rn, nearest)
MUSTER_CONVERSIONS(rz, zero)
MUSTER_CONVERSIONS(ru, up)
MUSTER_CONVERSIONS(rd, down)
static inline double __int2double_rn(int a) { return double(a); }
static inline double __uint2double_rn(unsigned a) { return double(a); }

static inline int __float_as_int(float a) { return int(muster::bits_of_float(a)); }
static inline unsigned __float_as_uint(float a) { return muster::bits_of_float(a); }
static inline float __int_as_float(int a) { return muster::float_of_bits(unsigned(a)); }
static inline float __uint_as_float(unsigned a) { return muster::float_of_bits(a); }
static inline long long __double_as_longlong(double a) { return (long long)muster::bits_of_double(a); }
static inline double __longlong_as_double(long long a) { return muster::double_of_bits((uint64_t)a); }
static inline int __double2hiint(double a) { return int(muster::bits_of_double(a) >> 32); }
static inline int __double2loint(double a) { return int(muster::bits_of_double(a)); }
static inline double __hiloint2double(int high, int low) {
  return muster::double_of_bits((uint64_t(unsigned(high)) << 32) | unsigned(low));
}
