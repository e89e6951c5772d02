// Device functions that the host's mathematical library lacks or names otherwise. Approximate intrinsics use the
// exact function: a result better than the GPU's is still within the tolerance that a task states.
#pragma once

// Macros, because the C library declares functions with some of these names.
#define __expf(...) ::expf(__VA_ARGS__)
#define __exp10f(...) ::exp10f(__VA_ARGS__)
#define __logf(...) ::logf(__VA_ARGS__)
#define __log2f(...) ::log2f(__VA_ARGS__)
#define __log10f(...) ::log10f(__VA_ARGS__)
#define __sinf(...) ::sinf(__VA_ARGS__)
#define __cosf(...) ::cosf(__VA_ARGS__)
#define __tanf(...) ::tanf(__VA_ARGS__)
#define __tanhf(...) ::tanhf(__VA_ARGS__)
#define __powf(...) ::powf(__VA_ARGS__)
#define __sincosf(...) ::sincosf(__VA_ARGS__)

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
}

static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float a) { return a >= 0.0f ? (a > 1.0f ? 1.0f : a) : 0.0f; }
static inline float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
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
static inline double __dsqrt_rn(double a) { return ::sqrt(a); }
static inline float rsqrtf(float a) { return 1.0f / ::sqrtf(a); }
static inline double rsqrt(double a) { return 1.0 / ::sqrt(a); }
static inline float rsqrt(float a) { return 1.0f / ::sqrtf(a); }
static inline float fdividef(float a, float b) { return a / b; }
static inline float rcbrtf(float a) { return 1.0f / ::cbrtf(a); }
static inline float normcdff(float a) { return 0.5f * ::erfcf(-a * 0.70710678118654752440f); }
static inline float sinpif(float a) { return float(::sin(double(::fmodf(a, 2.0f)) * 3.14159265358979323846)); }
static inline float cospif(float a) { return float(::cos(double(::fmodf(a, 2.0f)) * 3.14159265358979323846)); }

static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
static inline int __clz(int a) { return a == 0 ? 32 : __builtin_clz(unsigned(a)); }
static inline int __clzll(long long a) { return a == 0 ? 64 : __builtin_clzll((unsigned long long)a); }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline int __ffsll(long long a) { return __builtin_ffsll(a); }
static inline unsigned __brev(unsigned a) {
  a = (a >> 16) | (a << 16);
  a = ((a & 0xff00ff00u) >> 8) | ((a & 0x00ff00ffu) << 8);
  a = ((a & 0xf0f0f0f0u) >> 4) | ((a & 0x0f0f0f0fu) << 4);
  a = ((a & 0xccccccccu) >> 2) | ((a & 0x33333333u) << 2);
  return ((a & 0xaaaaaaaau) >> 1) | ((a & 0x55555555u) << 1);
}
static inline unsigned long long __brevll(unsigned long long a) {
  return ((unsigned long long)__brev(unsigned(a)) << 32) | __brev(unsigned(a >> 32));
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = ((unsigned long long)b << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned((both >> (((s >> (4 * i)) & 7u) * 8)) & 0xffu) << (8 * i);
  return result;
}
static inline int __mul24(int a, int b) { return int((unsigned(a << 8) >> 8) * (unsigned(b << 8) >> 8)); }
static inline int __mulhi(int a, int b) { return int(((long long)a * b) >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(((unsigned long long)a * b) >> 32); }
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return unsigned(((((unsigned long long)hi << 32) | lo) << (s & 31u)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  return unsigned((((unsigned long long)hi << 32) | lo) >> (s & 31u));
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int((signed char)(a >> (8 * i))) * int((signed char)(b >> (8 * i)));
  return c;
}

template <class T> static inline T __ldg(const T* a) { return *a; }
template <class T> static inline T __ldcg(const T* a) { return *a; }
template <class T> static inline T __ldca(const T* a) { return *a; }
template <class T> static inline T __ldcs(const T* a) { return *a; }
template <class T> static inline T __ldcv(const T* a) { return *a; }
template <class T> static inline T __ldlu(const T* a) { return *a; }
template <class T> static inline void __stcg(T* a, T v) { *a = v; }
template <class T> static inline void __stcs(T* a, T v) { *a = v; }
template <class T> static inline void __stwb(T* a, T v) { *a = v; }
template <class T> static inline void __stwt(T* a, T v) { *a = v; }

#define MUSTER_BITS(NAME, TO, FROM)                                                                        \
  static inline TO NAME(FROM a) { TO b; memcpy(&b, &a, sizeof b); return b; }
MUSTER_BITS(__float_as_int, int, float)
MUSTER_BITS(__float_as_uint, unsigned, float)
MUSTER_BITS(__int_as_float, float, int)
MUSTER_BITS(__uint_as_float, float, unsigned)
MUSTER_BITS(__double_as_longlong, long long, double)
MUSTER_BITS(__longlong_as_double, double, long long)
static inline int __float2int_rn(float a) { return int(::nearbyintf(a)); }
static inline int __float2int_rz(float a) { return int(a); }
static inline int __float2int_rd(float a) { return int(::floorf(a)); }
static inline int __float2int_ru(float a) { return int(::ceilf(a)); }
static inline unsigned __float2uint_rn(float a) { return unsigned(::nearbyintf(a)); }
static inline unsigned __float2uint_rz(float a) { return unsigned(a); }
static inline float __int2float_rn(int a) { return float(a); }
static inline float __uint2float_rn(unsigned a) { return float(a); }
static inline float __double2float_rn(double a) { return float(a); }
static inline int __double2int_rn(double a) { return int(::nearbyint(a)); }
static inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }

#define MUSTER_MINMAX(R, A, B)                                                                             \
  static inline R min(A a, B b) { R x = (R)a, y = (R)b; return x < y ? x : y; }                                    \
  static inline R max(A a, B b) { R x = (R)a, y = (R)b; return x > y ? x : y; }
MUSTER_MINMAX(int, int, int)
MUSTER_MINMAX(unsigned, unsigned, unsigned)
MUSTER_MINMAX(unsigned, int, unsigned)
MUSTER_MINMAX(unsigned, unsigned, int)
MUSTER_MINMAX(long, long, long)
MUSTER_MINMAX(unsigned long, unsigned long, unsigned long)
MUSTER_MINMAX(long long, long long, long long)
MUSTER_MINMAX(unsigned long long, unsigned long long, unsigned long long)
// As fminf and fmaxf: a NaN loses against a number.
static inline float min(float a, float b) { return ::fminf(a, b); }
static inline float max(float a, float b) { return ::fmaxf(a, b); }
static inline double min(double a, double b) { return ::fmin(a, b); }
static inline double max(double a, double b) { return ::fmax(a, b); }
static inline double min(float a, double b) { return ::fmin(a, b); }
static inline double max(float a, double b) { return ::fmax(a, b); }
static inline double min(double a, float b) { return ::fmin(a, b); }
static inline double max(double a, float b) { return ::fmax(a, b); }
