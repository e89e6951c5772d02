// Functions of a pair of NARROW, element by element; see muster_narrow_types.h.

#define NARROW_BINARY(NAME, SCALAR)                                                                                  \
  static inline NARROW2 NAME(const NARROW2 a, const NARROW2 b) {                                                     \
    return NARROW2(SCALAR(a.x, b.x), SCALAR(a.y, b.y));                                                              \
  }
NARROW_BINARY(__hadd2, __hadd)
NARROW_BINARY(__hadd2_rn, __hadd)
NARROW_BINARY(__hadd2_sat, __hadd_sat)
NARROW_BINARY(__hsub2, __hsub)
NARROW_BINARY(__hsub2_rn, __hsub)
NARROW_BINARY(__hsub2_sat, __hsub_sat)
NARROW_BINARY(__hmul2, __hmul)
NARROW_BINARY(__hmul2_rn, __hmul)
NARROW_BINARY(__hmul2_sat, __hmul_sat)
NARROW_BINARY(__h2div, __hdiv)
NARROW_BINARY(__hmax2, __hmax)
NARROW_BINARY(__hmin2, __hmin)
NARROW_BINARY(__hmax2_nan, __hmax_nan)
NARROW_BINARY(__hmin2_nan, __hmin_nan)
#undef NARROW_BINARY
static inline NARROW2 __hfma2(const NARROW2 a, const NARROW2 b, const NARROW2 c) {
  return NARROW2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
static inline NARROW2 __hfma2_sat(const NARROW2 a, const NARROW2 b, const NARROW2 c) {
  return NARROW2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}
static inline NARROW2 __hfma2_relu(const NARROW2 a, const NARROW2 b, const NARROW2 c) {
  return NARROW2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}
// (a.x + i a.y) (b.x + i b.y) + (c.x + i c.y), in the order of operations that the reference states.
static inline NARROW2 __hcmadd(const NARROW2 a, const NARROW2 b, const NARROW2 c) {
  NARROW real = __hfma(a.x, b.x, c.x), imaginary = __hfma(a.x, b.y, c.y);
  return NARROW2(__hfma(__hneg(a.y), b.y, real), __hfma(a.y, b.x, imaginary));
}

#define NARROW_UNARY(NAME, SCALAR)                                                                                   \
  static inline NARROW2 NAME(const NARROW2 a) { return NARROW2(SCALAR(a.x), SCALAR(a.y)); }
NARROW_UNARY(__hneg2, __hneg)
NARROW_UNARY(__habs2, __habs)
NARROW_UNARY(h2sqrt, hsqrt)
NARROW_UNARY(h2rsqrt, hrsqrt)
NARROW_UNARY(h2rcp, hrcp)
NARROW_UNARY(h2exp, hexp)
NARROW_UNARY(h2exp2, hexp2)
NARROW_UNARY(h2exp10, hexp10)
NARROW_UNARY(h2log, hlog)
NARROW_UNARY(h2log2, hlog2)
NARROW_UNARY(h2log10, hlog10)
NARROW_UNARY(h2sin, hsin)
NARROW_UNARY(h2cos, hcos)
NARROW_UNARY(h2tanh, htanh)
NARROW_UNARY(h2tanh_approx, htanh)
NARROW_UNARY(h2ceil, hceil)
NARROW_UNARY(h2floor, hfloor)
NARROW_UNARY(h2trunc, htrunc)
NARROW_UNARY(h2rint, hrint)
#undef NARROW_UNARY

// Three answers of each comparison: 1.0 or 0.0 for each element, one bool for both, a mask of 16 bits for each.
#define NARROW_COMPARE(NAME)                                                                                         \
  static inline NARROW2 __h##NAME##2(const NARROW2 a, const NARROW2 b) {                                             \
    return NARROW2(muster::Narrow<NARROW>::of(float(__h##NAME(a.x, b.x))),                                           \
                   muster::Narrow<NARROW>::of(float(__h##NAME(a.y, b.y))));                                          \
  }                                                                                                                  \
  static inline bool __hb##NAME##2(const NARROW2 a, const NARROW2 b) {                                               \
    return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y);                                                               \
  }                                                                                                                  \
  static inline unsigned __h##NAME##2_mask(const NARROW2 a, const NARROW2 b) {                                       \
    return (__h##NAME(a.x, b.x) ? 0xffffu : 0u) | (__h##NAME(a.y, b.y) ? 0xffff0000u : 0u);                          \
  }
NARROW_COMPARE(eq)
NARROW_COMPARE(ne)
NARROW_COMPARE(lt)
NARROW_COMPARE(le)
NARROW_COMPARE(gt)
NARROW_COMPARE(ge)
#undef NARROW_COMPARE
#define NARROW_COMPARE(NAME)                                                                                         \
  static inline NARROW2 __h##NAME##u2(const NARROW2 a, const NARROW2 b) {                                            \
    return NARROW2(muster::Narrow<NARROW>::of(float(__h##NAME##u(a.x, b.x))),                                        \
                   muster::Narrow<NARROW>::of(float(__h##NAME##u(a.y, b.y))));                                       \
  }                                                                                                                  \
  static inline bool __hb##NAME##u2(const NARROW2 a, const NARROW2 b) {                                              \
    return __h##NAME##u(a.x, b.x) && __h##NAME##u(a.y, b.y);                                                         \
  }                                                                                                                  \
  static inline unsigned __h##NAME##u2_mask(const NARROW2 a, const NARROW2 b) {                                      \
    return (__h##NAME##u(a.x, b.x) ? 0xffffu : 0u) | (__h##NAME##u(a.y, b.y) ? 0xffff0000u : 0u);                    \
  }
NARROW_COMPARE(eq)
NARROW_COMPARE(ne)
NARROW_COMPARE(lt)
NARROW_COMPARE(le)
NARROW_COMPARE(gt)
NARROW_COMPARE(ge)
#undef NARROW_COMPARE
static inline NARROW2 __hisnan2(const NARROW2 a) {
  return NARROW2(muster::Narrow<NARROW>::of(float(__hisnan(a.x))), muster::Narrow<NARROW>::of(float(__hisnan(a.y))));
}
static inline float __low2float(const NARROW2 a) { return muster::value_of(a.x); }
static inline float __high2float(const NARROW2 a) { return muster::value_of(a.y); }
static inline NARROW2 __lowhigh2highlow(const NARROW2 a) { return NARROW2(a.y, a.x); }

#ifndef NARROW_NO_OPERATORS
static inline NARROW2 operator+(const NARROW2& a, const NARROW2& b) { return __hadd2(a, b); }
static inline NARROW2 operator-(const NARROW2& a, const NARROW2& b) { return __hsub2(a, b); }
static inline NARROW2 operator*(const NARROW2& a, const NARROW2& b) { return __hmul2(a, b); }
static inline NARROW2 operator/(const NARROW2& a, const NARROW2& b) { return __h2div(a, b); }
static inline NARROW2& operator+=(NARROW2& a, const NARROW2& b) { return a = __hadd2(a, b); }
static inline NARROW2& operator-=(NARROW2& a, const NARROW2& b) { return a = __hsub2(a, b); }
static inline NARROW2& operator*=(NARROW2& a, const NARROW2& b) { return a = __hmul2(a, b); }
static inline NARROW2& operator/=(NARROW2& a, const NARROW2& b) { return a = __h2div(a, b); }
static inline NARROW2 operator+(const NARROW2& a) { return a; }
static inline NARROW2 operator-(const NARROW2& a) { return __hneg2(a); }
static inline bool operator==(const NARROW2& a, const NARROW2& b) { return __hbeq2(a, b); }
static inline bool operator!=(const NARROW2& a, const NARROW2& b) { return __hbneu2(a, b); }
static inline bool operator<(const NARROW2& a, const NARROW2& b) { return __hblt2(a, b); }
static inline bool operator<=(const NARROW2& a, const NARROW2& b) { return __hble2(a, b); }
static inline bool operator>(const NARROW2& a, const NARROW2& b) { return __hbgt2(a, b); }
static inline bool operator>=(const NARROW2& a, const NARROW2& b) { return __hbge2(a, b); }
#endif

MUSTER_SHUFFLE(NARROW2)
// Each half is added in one piece; the pair as a whole is not, as in CUDA.
static inline NARROW2 atomicAdd(NARROW2* address, NARROW2 value) {
  NARROW low = atomicAdd(&address->x, value.x);
  return NARROW2(low, atomicAdd(&address->y, value.y));
}
