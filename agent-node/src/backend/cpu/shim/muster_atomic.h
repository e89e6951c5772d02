// Atomic functions on global and shared memory: relaxed, as in CUDA.
#pragma once

// With a fence in the source, a sanitizer is to take its atomics as what orders the memory around the fence.
#ifdef MUSTER_FENCES
#define MUSTER_UPDATE __ATOMIC_ACQ_REL
#define MUSTER_LOAD __ATOMIC_ACQUIRE
#else
#define MUSTER_UPDATE __ATOMIC_RELAXED
#define MUSTER_LOAD __ATOMIC_RELAXED
#endif

namespace muster {
// Replaces *address by step(old) in one piece and answers old. Works on the bits, so that floats need no type
// that the processor has no instruction for.
template <class T, class Step> static inline T replace(T* address, Step step) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  Bits* place = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(place, MUSTER_LOAD), bits;
  T value;
  do {
    memcpy(&value, &old, sizeof(T));
    T next = step(value);
    memcpy(&bits, &next, sizeof(T));
  } while (!__atomic_compare_exchange_n(place, &old, bits, true, MUSTER_UPDATE, MUSTER_LOAD));
  return value;
}
}

#define MUSTER_ATOMIC_INTEGER(T)                                                                           \
  static inline T atomicAdd(T* a, T v) { return __atomic_fetch_add(a, v, MUSTER_UPDATE); }              \
  static inline T atomicSub(T* a, T v) { return __atomic_fetch_sub(a, v, MUSTER_UPDATE); }              \
  static inline T atomicAnd(T* a, T v) { return __atomic_fetch_and(a, v, MUSTER_UPDATE); }              \
  static inline T atomicOr(T* a, T v) { return __atomic_fetch_or(a, v, MUSTER_UPDATE); }                \
  static inline T atomicXor(T* a, T v) { return __atomic_fetch_xor(a, v, MUSTER_UPDATE); }              \
  static inline T atomicExch(T* a, T v) { return __atomic_exchange_n(a, v, MUSTER_UPDATE); }            \
  static inline T atomicMin(T* a, T v) { return muster::replace(a, [v](T o) { return v < o ? v : o; }); }  \
  static inline T atomicMax(T* a, T v) { return muster::replace(a, [v](T o) { return v > o ? v : o; }); }  \
  static inline T atomicCAS(T* a, T expected, T v) {                                                       \
    __atomic_compare_exchange_n(a, &expected, v, false, MUSTER_UPDATE, MUSTER_LOAD);               \
    return expected;                                                                                       \
  }
MUSTER_ATOMIC_INTEGER(int)
MUSTER_ATOMIC_INTEGER(unsigned int)
MUSTER_ATOMIC_INTEGER(long long)
MUSTER_ATOMIC_INTEGER(unsigned long long)

#define MUSTER_ATOMIC_FLOAT(T)                                                                             \
  static inline T atomicAdd(T* a, T v) { return muster::replace(a, [v](T o) { return o + v; }); }          \
  static inline T atomicExch(T* a, T v) { return muster::replace(a, [v](T) { return v; }); }
MUSTER_ATOMIC_FLOAT(float)
MUSTER_ATOMIC_FLOAT(double)

// ((old >= v) ? 0 : old + 1) and (((old == 0) || (old > v)) ? v : old - 1), from the programming guide.
static inline unsigned atomicInc(unsigned* a, unsigned v) {
  return muster::replace(a, [v](unsigned o) { return o >= v ? 0u : o + 1u; });
}
static inline unsigned atomicDec(unsigned* a, unsigned v) {
  return muster::replace(a, [v](unsigned o) { return o == 0u || o > v ? v : o - 1u; });
}

// A smaller scope may always be served by a larger one.
#define MUSTER_SCOPES(NAME)                                                                                \
  template <class T, class... A> static inline T NAME##_block(T* a, A... v) { return NAME(a, T(v)...); }   \
  template <class T, class... A> static inline T NAME##_system(T* a, A... v) { return NAME(a, T(v)...); }
MUSTER_SCOPES(atomicAdd)
MUSTER_SCOPES(atomicSub)
MUSTER_SCOPES(atomicExch)
MUSTER_SCOPES(atomicCAS)
MUSTER_SCOPES(atomicMin)
MUSTER_SCOPES(atomicMax)
MUSTER_SCOPES(atomicAnd)
MUSTER_SCOPES(atomicOr)
MUSTER_SCOPES(atomicXor)
MUSTER_SCOPES(atomicInc)
MUSTER_SCOPES(atomicDec)
static inline unsigned short atomicCAS(unsigned short* a, unsigned short expected, unsigned short v) {
  __atomic_compare_exchange_n(a, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
// Vectors are added element by element, each in one piece, as CUDA promises.
static inline float2 atomicAdd(float2* a, float2 v) {
  return make_float2(atomicAdd(&a->x, v.x), atomicAdd(&a->y, v.y));
}
static inline float4 atomicAdd(float4* a, float4 v) {
  return make_float4(atomicAdd(&a->x, v.x), atomicAdd(&a->y, v.y), atomicAdd(&a->z, v.z), atomicAdd(&a->w, v.w));
}
