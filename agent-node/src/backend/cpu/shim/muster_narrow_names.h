// Conversions whose names spell the type: NAME is `half` or `bfloat16`, NAME2 the pair's. See cuda_fp16.h.
#pragma once

#define MUSTER_NARROW_INTEGER(T, NAME, INTEGER, WORD, MODE, ROUND)                                                   \
  static inline T __##WORD##2##NAME##_##MODE(INTEGER a) {                                                            \
    return muster::Narrow<T>::of(muster::wide_to_odd(a), muster::Round::ROUND);                                      \
  }                                                                                                                  \
  static inline INTEGER __##NAME##2##WORD##_##MODE(const T a) {                                                      \
    return muster::saturated<INTEGER>(muster::rounded_integer(muster::value_of(a), muster::Round::ROUND));           \
  }
#define MUSTER_NARROW_INTEGERS(T, NAME, MODE, ROUND)                                                                 \
  MUSTER_NARROW_INTEGER(T, NAME, short, short, MODE, ROUND)                                                          \
  MUSTER_NARROW_INTEGER(T, NAME, unsigned short, ushort, MODE, ROUND)                                                \
  MUSTER_NARROW_INTEGER(T, NAME, int, int, MODE, ROUND)                                                              \
  MUSTER_NARROW_INTEGER(T, NAME, unsigned int, uint, MODE, ROUND)                                                    \
  MUSTER_NARROW_INTEGER(T, NAME, long long, ll, MODE, ROUND)                                                         \
  MUSTER_NARROW_INTEGER(T, NAME, unsigned long long, ull, MODE, ROUND)                                               \
  static inline T __float2##NAME##_##MODE(float a) { return muster::Narrow<T>::of(double(a), muster::Round::ROUND); }

#define MUSTER_NARROW_NAMES(T, T2, NAME, NAME2)                                                                      \
  MUSTER_NARROW_INTEGERS(T, NAME, rn, nearest)                                                                       \
  MUSTER_NARROW_INTEGERS(T, NAME, rz, zero)                                                                          \
  MUSTER_NARROW_INTEGERS(T, NAME, ru, up)                                                                            \
  MUSTER_NARROW_INTEGERS(T, NAME, rd, down)                                                                          \
  static inline signed char __##NAME##2char_rz(const T a) {                                                          \
    return muster::saturated<signed char>(::truncf(muster::value_of(a)));                                            \
  }                                                                                                                  \
  static inline unsigned char __##NAME##2uchar_rz(const T a) {                                                       \
    return muster::saturated<unsigned char>(::truncf(muster::value_of(a)));                                          \
  }                                                                                                                  \
  static inline T __float2##NAME(float a) { return muster::Narrow<T>::of(a); }                                       \
  static inline T __double2##NAME(double a) { return muster::Narrow<T>::of(a, muster::Round::nearest); }             \
  static inline float __##NAME##2float(const T a) { return muster::value_of(a); }                                    \
  static inline short __##NAME##_as_short(const T a) { return short(muster::pattern_of(a)); }                        \
  static inline unsigned short __##NAME##_as_ushort(const T a) { return muster::pattern_of(a); }                     \
  static inline T __short_as_##NAME(short a) { return muster::Narrow<T>::of_pattern((unsigned short)a); }            \
  static inline T __ushort_as_##NAME(unsigned short a) { return muster::Narrow<T>::of_pattern(a); }                  \
  static inline T2 __##NAME##2##NAME2(const T a) { return T2(a, a); }                                                \
  static inline T2 __float2##NAME2##_rn(float a) { return T2(__float2##NAME(a), __float2##NAME(a)); }                \
  static inline T2 __floats2##NAME2##_rn(float a, float b) { return T2(__float2##NAME(a), __float2##NAME(b)); }      \
  static inline T2 __float22##NAME2##_rn(const float2 a) { return __floats2##NAME2##_rn(a.x, a.y); }                 \
  static inline float2 __##NAME2##2float2(const T2 a) { return make_float2(__low2float(a), __high2float(a)); }       \
  static inline T2 __halves2##NAME2(const T a, const T b) { return T2(a, b); }                                       \
  static inline T2 make_##NAME2(const T a, const T b) { return T2(a, b); }                                           \
  static inline T __low2##NAME(const T2 a) { return a.x; }                                                           \
  static inline T __high2##NAME(const T2 a) { return a.y; }                                                          \
  static inline T2 __low2##NAME2(const T2 a) { return T2(a.x, a.x); }                                                \
  static inline T2 __high2##NAME2(const T2 a) { return T2(a.y, a.y); }                                               \
  static inline T2 __lows2##NAME2(const T2 a, const T2 b) { return T2(a.x, b.x); }                                   \
  static inline T2 __highs2##NAME2(const T2 a, const T2 b) { return T2(a.y, b.y); }
