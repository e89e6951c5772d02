// Integer intrinsics: bits, wide products, averages, dot products of packed numbers, and loads and stores with a hint.
#pragma once

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
// Bit 3 of a selector replicates the sign of the byte (PTX ISA, prmt).
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = ((unsigned long long)b << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned selector = s >> (4 * i), byte = unsigned(both >> ((selector & 7u) * 8)) & 0xffu;
    if (selector & 8u) byte = byte & 0x80u ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}
// The lane of the n-th set bit from `base` on, upwards for positive n.
static inline unsigned __fns(unsigned mask, unsigned base, int n) {
  if (n == 0) return mask >> base & 1u ? base : 0xffffffffu;
  int step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
  for (int at = int(base); at >= 0 && at < 32; at += step)
    if (mask >> at & 1u && --left == 0) return unsigned(at);
  return 0xffffffffu;
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return unsigned(((((unsigned long long)hi << 32) | lo) << (s & 31u)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  return unsigned((((unsigned long long)hi << 32) | lo) >> (s & 31u));
}
static inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned s) {
  return s >= 32u ? lo : __funnelshift_l(lo, hi, s);
}
static inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned s) {
  return s >= 32u ? hi : __funnelshift_r(lo, hi, s);
}

static inline int __mul24(int a, int b) {
  return int(unsigned(int(unsigned(a) << 8) >> 8) * unsigned(int(unsigned(b) << 8) >> 8));
}
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
static inline int mul24(int a, int b) { return __mul24(a, b); }
static inline unsigned umul24(unsigned a, unsigned b) { return __umul24(a, b); }
static inline int __mulhi(int a, int b) { return int(((long long)a * b) >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(((unsigned long long)a * b) >> 32); }
static inline int mulhi(int a, int b) { return __mulhi(a, b); }
static inline unsigned mulhi(unsigned a, unsigned b) { return __umulhi(a, b); }
__extension__ typedef __int128 muster_wide;
__extension__ typedef unsigned __int128 muster_unsigned_wide;
static inline long long __mul64hi(long long a, long long b) { return (long long)((muster_wide(a) * b) >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((muster_unsigned_wide(a) * b) >> 64);
}
static inline int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
static inline int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b) >> 1); }
static inline unsigned __urhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b + 1) >> 1); }
static inline unsigned __sad(int a, int b, unsigned c) {
  return unsigned(a > b ? (long long)a - b : (long long)b - a) + c;
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }

namespace muster {
// Sum of products of the first `COUNT` lanes, each of its own width and sign; wraps around as the GPU's registers.
template <class A, class B, int COUNT> static inline unsigned dot(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < COUNT; ++i)
    sum += unsigned(int(A(a >> (8 * int(sizeof(A)) * i))) * int(B(b >> (8 * int(sizeof(B)) * i))));
  return sum;
}
template <class TO, class FROM> static inline TO bits_as(const FROM& from) {
  static_assert(sizeof(TO) == sizeof(FROM), "as many bits");
  TO to;
  memcpy(&to, &from, sizeof(TO));
  return to;
}
}
static inline int __dp4a(int a, int b, int c) {
  return int(muster::dot<signed char, signed char, 4>(unsigned(a), unsigned(b), unsigned(c)));
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return muster::dot<unsigned char, unsigned char, 4>(a, b, c);
}
static inline int __dp4a(char4 a, char4 b, int c) { return __dp4a(muster::bits_as<int>(a), muster::bits_as<int>(b), c); }
static inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return __dp4a(muster::bits_as<unsigned>(a), muster::bits_as<unsigned>(b), c);
}
#define MUSTER_DP2A(HALF, SHIFT)                                                                                     \
  static inline int __dp2a_##HALF(int a, int b, int c) {                                                             \
    return int(muster::dot<short, signed char, 2>(unsigned(a), unsigned(b) >> SHIFT, unsigned(c)));                  \
  }                                                                                                                  \
  static inline unsigned __dp2a_##HALF(unsigned a, unsigned b, unsigned c) {                                         \
    return muster::dot<unsigned short, unsigned char, 2>(a, b >> SHIFT, c);                                          \
  }                                                                                                                  \
  static inline int __dp2a_##HALF(short2 a, char4 b, int c) {                                                        \
    return __dp2a_##HALF(muster::bits_as<int>(a), muster::bits_as<int>(b), c);                                       \
  }                                                                                                                  \
  static inline unsigned __dp2a_##HALF(ushort2 a, uchar4 b, unsigned c) {                                            \
    return __dp2a_##HALF(muster::bits_as<unsigned>(a), muster::bits_as<unsigned>(b), c);                             \
  }
MUSTER_DP2A(lo, 0)
MUSTER_DP2A(hi, 16)

// A cache hint changes no value.
template <class T> static inline T __ldg(const T* a) { return *a; }
template <class T> static inline T __ldcg(const T* a) { return *a; }
template <class T> static inline T __ldca(const T* a) { return *a; }
template <class T> static inline T __ldcs(const T* a) { return *a; }
template <class T> static inline T __ldcv(const T* a) { return *const_cast<const volatile T*>(a); }
template <class T> static inline T __ldlu(const T* a) { return *a; }
template <class T, class V> static inline void __stcg(T* a, const V& v) { *a = v; }
template <class T, class V> static inline void __stcs(T* a, const V& v) { *a = v; }
template <class T, class V> static inline void __stwb(T* a, const V& v) { *a = v; }
template <class T, class V> static inline void __stwt(T* a, const V& v) { *a = v; }
#if !defined(__clang__)
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif
#define __assume(condition) __builtin_assume(condition)
