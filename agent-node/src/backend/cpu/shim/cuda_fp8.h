// The formats of eight bits of the Open Compute Project: E4M3 (no infinity, 448 is the largest) and E5M2.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace muster {
static inline unsigned char byte_of(double value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  bool wide = kind == __NV_E5M2;
  if (value != value) return 0x7f;
  unsigned char sign = bits_of_double(value) >> 63 ? 0x80 : 0;
  unsigned char largest = wide ? 0x7b : 0x7e, beyond = wide ? 0x7c : 0x7f;
  bool finite = value - value == 0;
  uint64_t found = !finite ? 0x100 : wide ? magnitude<5, 2>(value, Round::nearest) : magnitude<4, 3>(value, Round::nearest);
  if (found > largest) found = saturation == __NV_SATFINITE ? largest : beyond;
  return (unsigned char)(sign | found);
}
static inline float float_of_byte(unsigned char bits, __nv_fp8_interpretation_t kind) {
  int rest = bits & 0x7f, fraction = kind == __NV_E5M2 ? 2 : 3, bias = kind == __NV_E5M2 ? 15 : 7;
  int exponent = rest >> fraction, digits = rest & ((1 << fraction) - 1);
  if (kind == __NV_E5M2 ? rest > 0x7c : rest == 0x7f) return float_of_bits(0x7fffffffu);
  float value = kind == __NV_E5M2 && rest == 0x7c ? HUGE_VALF
                : exponent == 0 ? ::ldexpf(float(digits), 1 - bias - fraction)
                                : ::ldexpf(float(digits + (1 << fraction)), exponent - bias - fraction);
  return bits & 0x80 ? -value : value;
}
}

static inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return muster::byte_of(x, s, k);
}
static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return muster::byte_of(double(x), s, k);
}
static inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return muster::byte_of(double(muster::HalfFormat::to_float(x.x)), s, k);
}
static inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t s,
                                                             __nv_fp8_interpretation_t k) {
  return muster::byte_of(double(muster::Bfloat16Format::to_float(x.x)), s, k);
}
static inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return __nv_fp8x2_storage_t(__nv_cvt_float_to_fp8(x.x, s, k) | __nv_cvt_float_to_fp8(x.y, s, k) << 8);
}
static inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return __nv_fp8x2_storage_t(__nv_cvt_double_to_fp8(x.x, s, k) | __nv_cvt_double_to_fp8(x.y, s, k) << 8);
}
static inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t s,
                                                              __nv_fp8_interpretation_t k) {
  return __nv_fp8x2_storage_t(__nv_cvt_halfraw_to_fp8(__half_raw{x.x}, s, k) |
                              __nv_cvt_halfraw_to_fp8(__half_raw{x.y}, s, k) << 8);
}
static inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t s,
                                                                  __nv_fp8_interpretation_t k) {
  return __nv_fp8x2_storage_t(__nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw{x.x}, s, k) |
                              __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw{x.y}, s, k) << 8);
}
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t k) {
  return __half_raw{muster::HalfFormat::from_float(muster::float_of_byte(x, k))};
}
static inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t k) {
  return __half2_raw{__nv_cvt_fp8_to_halfraw((unsigned char)x, k).x, __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), k).x};
}

// Constructors saturate to the largest finite value, as CUDA's do.
#define MUSTER_FP8(T, KIND)                                                                                          \
  struct T {                                                                                                         \
    __nv_fp8_storage_t __x;                                                                                          \
    T() = default;                                                                                                   \
    explicit T(double x) : __x(muster::byte_of(x, __NV_SATFINITE, KIND)) {}                                          \
    explicit T(float x) : T(double(x)) {}                                                                            \
    explicit T(__half x) : T(double(muster::value_of(x))) {}                                                         \
    explicit T(__nv_bfloat16 x) : T(double(muster::value_of(x))) {}                                                  \
    explicit T(int x) : T(double(x)) {}                                                                              \
    explicit T(unsigned x) : T(double(x)) {}                                                                         \
    explicit operator float() const { return muster::float_of_byte(__x, KIND); }                                     \
    explicit operator double() const { return double(float(*this)); }                                                \
    explicit operator __half() const { return __float2half(float(*this)); }                                          \
    explicit operator __nv_bfloat16() const { return __float2bfloat16(float(*this)); }                               \
    explicit operator bool() const { return (__x & 0x7f) != 0; }                                                     \
    explicit operator int() const { return __float2int_rz(float(*this)); }                                           \
  };
#define MUSTER_FP8_PAIR(T, ONE, KIND)                                                                                \
  struct __attribute__((aligned(2))) T##x2_##ONE {                                                                   \
    __nv_fp8x2_storage_t __x;                                                                                        \
    T##x2_##ONE() = default;                                                                                         \
    explicit T##x2_##ONE(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}                       \
    explicit T##x2_##ONE(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}                     \
    explicit T##x2_##ONE(__half2 x) : __x(__nv_cvt_halfraw2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}                    \
    explicit T##x2_##ONE(__nv_bfloat162 x) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}         \
    explicit operator float2() const {                                                                               \
      return make_float2(muster::float_of_byte((unsigned char)__x, KIND),                                            \
                         muster::float_of_byte((unsigned char)(__x >> 8), KIND));                                    \
    }                                                                                                                \
    explicit operator __half2() const { return __float22half2_rn(float2(*this)); }                                   \
  };                                                                                                                 \
  struct __attribute__((aligned(4))) T##x4_##ONE {                                                                   \
    __nv_fp8x4_storage_t __x;                                                                                        \
    T##x4_##ONE() = default;                                                                                         \
    explicit T##x4_##ONE(float4 x)                                                                                   \
        : __x(__nv_cvt_float2_to_fp8x2(make_float2(x.x, x.y), __NV_SATFINITE, KIND) |                                \
              unsigned(__nv_cvt_float2_to_fp8x2(make_float2(x.z, x.w), __NV_SATFINITE, KIND)) << 16) {}              \
    explicit operator float4() const {                                                                               \
      return make_float4(                                                                                            \
          muster::float_of_byte((unsigned char)__x, KIND), muster::float_of_byte((unsigned char)(__x >> 8), KIND),   \
          muster::float_of_byte((unsigned char)(__x >> 16), KIND), muster::float_of_byte((unsigned char)(__x >> 24), KIND)); \
    }                                                                                                                \
  };
MUSTER_FP8(__nv_fp8_e4m3, __NV_E4M3)
MUSTER_FP8(__nv_fp8_e5m2, __NV_E5M2)
MUSTER_FP8_PAIR(__nv_fp8, e4m3, __NV_E4M3)
MUSTER_FP8_PAIR(__nv_fp8, e5m2, __NV_E5M2)
