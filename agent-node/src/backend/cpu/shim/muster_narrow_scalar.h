// Functions of one NARROW; see muster_narrow_types.h.

#define NARROW_BINARY(NAME, EXPRESSION)                                                                              \
  static inline NARROW NAME(const NARROW a, const NARROW b) { return EXPRESSION; }
NARROW_BINARY(__hadd, muster::narrow_sum(a, b))
NARROW_BINARY(__hadd_rn, muster::narrow_sum(a, b))
NARROW_BINARY(__hmul, muster::narrow_product(a, b))
NARROW_BINARY(__hmul_rn, muster::narrow_product(a, b))
NARROW_BINARY(__hdiv, muster::narrow_quotient(a, b))
NARROW_BINARY(__hadd_sat, muster::narrow_saturated(muster::narrow_sum(a, b)))
NARROW_BINARY(__hmul_sat, muster::narrow_saturated(muster::narrow_product(a, b)))
NARROW_BINARY(__hmax, muster::narrow_max(a, b))
NARROW_BINARY(__hmin, muster::narrow_min(a, b))
NARROW_BINARY(__hmax_nan, muster::any_nan(a, b) ? muster::Narrow<NARROW>::of_pattern(0x7fff) : muster::narrow_max(a, b))
NARROW_BINARY(__hmin_nan, muster::any_nan(a, b) ? muster::Narrow<NARROW>::of_pattern(0x7fff) : muster::narrow_min(a, b))
#undef NARROW_BINARY

static inline NARROW __hneg(const NARROW a) {
  return muster::is_nan(a) ? muster::Narrow<NARROW>::of_pattern(0x7fff)
                           : muster::Narrow<NARROW>::of_pattern((unsigned short)(muster::pattern_of(a) ^ 0x8000u));
}
static inline NARROW __habs(const NARROW a) {
  return muster::Narrow<NARROW>::of_pattern((unsigned short)(muster::pattern_of(a) & 0x7fffu));
}
static inline NARROW __hsub(const NARROW a, const NARROW b) { return muster::narrow_sum(a, __hneg(b)); }
static inline NARROW __hsub_rn(const NARROW a, const NARROW b) { return __hsub(a, b); }
static inline NARROW __hsub_sat(const NARROW a, const NARROW b) { return muster::narrow_saturated(__hsub(a, b)); }
static inline NARROW __hfma(const NARROW a, const NARROW b, const NARROW c) { return muster::narrow_fma(a, b, c); }
static inline NARROW __hfma_sat(const NARROW a, const NARROW b, const NARROW c) {
  return muster::narrow_saturated(muster::narrow_fma(a, b, c));
}
static inline NARROW __hfma_relu(const NARROW a, const NARROW b, const NARROW c) {
  return muster::narrow_relu(muster::narrow_fma(a, b, c));
}

// Ordered comparisons are false with a NaN, the ones that end in u are true.
#define NARROW_COMPARE(NAME, OP)                                                                                     \
  static inline bool __h##NAME(const NARROW a, const NARROW b) {                                                     \
    return !muster::any_nan(a, b) && muster::value_of(a) OP muster::value_of(b);                                     \
  }                                                                                                                  \
  static inline bool __h##NAME##u(const NARROW a, const NARROW b) {                                                  \
    return muster::any_nan(a, b) || muster::value_of(a) OP muster::value_of(b);                                      \
  }
NARROW_COMPARE(eq, ==)
NARROW_COMPARE(ne, !=)
NARROW_COMPARE(lt, <)
NARROW_COMPARE(le, <=)
NARROW_COMPARE(gt, >)
NARROW_COMPARE(ge, >=)
#undef NARROW_COMPARE
static inline bool __hisnan(const NARROW a) { return muster::is_nan(a); }
static inline int __hisinf(const NARROW a) {
  float value = muster::value_of(a);
  return ::isinf(value) ? (value < 0 ? -1 : 1) : 0;
}

// Computed in double and rounded once; correct to the last place but for the rarest of ties.
#define NARROW_FUNCTION(NAME, EXPRESSION)                                                                            \
  static inline NARROW NAME(const NARROW a) {                                                                        \
    double v = double(muster::value_of(a));                                                                          \
    return muster::Narrow<NARROW>::of(EXPRESSION, muster::Round::nearest);                                           \
  }
NARROW_FUNCTION(hsqrt, ::sqrt(v))
NARROW_FUNCTION(hrsqrt, 1.0 / ::sqrt(v))
NARROW_FUNCTION(hrcp, 1.0 / v)
NARROW_FUNCTION(hexp, ::exp(v))
NARROW_FUNCTION(hexp2, ::exp2(v))
NARROW_FUNCTION(hexp10, ::exp10(v))
NARROW_FUNCTION(hlog, ::log(v))
NARROW_FUNCTION(hlog2, ::log2(v))
NARROW_FUNCTION(hlog10, ::log10(v))
NARROW_FUNCTION(hsin, ::sin(v))
NARROW_FUNCTION(hcos, ::cos(v))
NARROW_FUNCTION(htanh, ::tanh(v))
NARROW_FUNCTION(htanh_approx, ::tanh(v))
NARROW_FUNCTION(hceil, ::ceil(v))
NARROW_FUNCTION(hfloor, ::floor(v))
NARROW_FUNCTION(htrunc, ::trunc(v))
NARROW_FUNCTION(hrint, ::nearbyint(v))
#undef NARROW_FUNCTION

#ifndef NARROW_NO_OPERATORS
static inline NARROW operator+(const NARROW& a, const NARROW& b) { return __hadd(a, b); }
static inline NARROW operator-(const NARROW& a, const NARROW& b) { return __hsub(a, b); }
static inline NARROW operator*(const NARROW& a, const NARROW& b) { return __hmul(a, b); }
static inline NARROW operator/(const NARROW& a, const NARROW& b) { return __hdiv(a, b); }
static inline NARROW& operator+=(NARROW& a, const NARROW& b) { return a = __hadd(a, b); }
static inline NARROW& operator-=(NARROW& a, const NARROW& b) { return a = __hsub(a, b); }
static inline NARROW& operator*=(NARROW& a, const NARROW& b) { return a = __hmul(a, b); }
static inline NARROW& operator/=(NARROW& a, const NARROW& b) { return a = __hdiv(a, b); }
static inline NARROW& operator++(NARROW& a) { return a = __hadd(a, muster::Narrow<NARROW>::of(1.0f)); }
static inline NARROW& operator--(NARROW& a) { return a = __hsub(a, muster::Narrow<NARROW>::of(1.0f)); }
static inline NARROW operator++(NARROW& a, int) { NARROW old = a; ++a; return old; }
static inline NARROW operator--(NARROW& a, int) { NARROW old = a; --a; return old; }
static inline NARROW operator+(const NARROW& a) { return a; }
static inline NARROW operator-(const NARROW& a) { return __hneg(a); }
static inline bool operator==(const NARROW& a, const NARROW& b) { return __heq(a, b); }
static inline bool operator!=(const NARROW& a, const NARROW& b) { return __hneu(a, b); }
static inline bool operator<(const NARROW& a, const NARROW& b) { return __hlt(a, b); }
static inline bool operator<=(const NARROW& a, const NARROW& b) { return __hle(a, b); }
static inline bool operator>(const NARROW& a, const NARROW& b) { return __hgt(a, b); }
static inline bool operator>=(const NARROW& a, const NARROW& b) { return __hge(a, b); }
#endif

MUSTER_SHUFFLE(NARROW)
static inline NARROW atomicAdd(NARROW* address, NARROW value) {
  unsigned short* place = reinterpret_cast<unsigned short*>(address);
  unsigned short old = __atomic_load_n(place, __ATOMIC_RELAXED), next;
  do {
    next = muster::pattern_of(__hadd(muster::Narrow<NARROW>::of_pattern(old), value));
  } while (!__atomic_compare_exchange_n(place, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return muster::Narrow<NARROW>::of_pattern(old);
}
