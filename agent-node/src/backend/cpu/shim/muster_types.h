// Vector types with the sizes and alignments of the CUDA C++ Programming Guide, section "Built-in Vector Types".
#pragma once

#define MUSTER_VECTOR(T, N, ALIGN2, ALIGN4)                                                                \
  struct N##1 { T x; };                                                                                    \
  struct __attribute__((aligned(ALIGN2))) N##2 { T x, y; };                                                \
  struct N##3 { T x, y, z; };                                                                              \
  struct __attribute__((aligned(ALIGN4))) N##4 { T x, y, z, w; };                                          \
  static inline constexpr N##1 make_##N##1(T x) { return N##1{x}; }                                        \
  static inline constexpr N##2 make_##N##2(T x, T y) { return N##2{x, y}; }                                \
  static inline constexpr N##3 make_##N##3(T x, T y, T z) { return N##3{x, y, z}; }                        \
  static inline constexpr N##4 make_##N##4(T x, T y, T z, T w) { return N##4{x, y, z, w}; }

MUSTER_VECTOR(signed char, char, 2, 4)
MUSTER_VECTOR(unsigned char, uchar, 2, 4)
MUSTER_VECTOR(short, short, 4, 8)
MUSTER_VECTOR(unsigned short, ushort, 4, 8)
MUSTER_VECTOR(int, int, 8, 16)
MUSTER_VECTOR(unsigned int, uint, 8, 16)
MUSTER_VECTOR(long, long, 16, 16)
MUSTER_VECTOR(unsigned long, ulong, 16, 16)
MUSTER_VECTOR(long long, longlong, 16, 16)
MUSTER_VECTOR(unsigned long long, ulonglong, 16, 16)
MUSTER_VECTOR(float, float, 8, 16)
MUSTER_VECTOR(double, double, 16, 16)

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
