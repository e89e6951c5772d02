// Warp operations: every lane of the mask that has not exited exchanges through the scheduler of the block.
#pragma once

extern "C" {
__attribute__((visibility("hidden"))) uint64_t muster_exchange(unsigned mask, uint64_t value, int source,
                                                               int line) noexcept;
// Lanes that took part in the upper half, lanes with a true predicate in the lower half.
__attribute__((visibility("hidden"))) uint64_t muster_vote(unsigned mask, int predicate, int line) noexcept;
// Answers the lanes that took part; the value of lane i lies in all[i].
__attribute__((visibility("hidden"))) unsigned muster_gather(unsigned mask, uint64_t value, uint64_t* all,
                                                             int line) noexcept;
// The lanes that stand at the same line once no lane of the warp can run on.
__attribute__((visibility("hidden"))) unsigned muster_active(int line) noexcept;
}

namespace muster {
static inline int lane() { return int(muster_linear & 31u); }

// Lanes that a shuffle reads from.
static inline int from_index(int index, int width) { return (lane() & ~(width - 1)) | (index & (width - 1)); }
static inline int from_above(unsigned delta, int width) {
  int from = lane() - int(delta);
  return from < (lane() & ~(width - 1)) ? lane() : from;
}
static inline int from_below(unsigned delta, int width) {
  return (lane() & (width - 1)) + int(delta) >= width ? lane() : lane() + int(delta);
}
static inline int from_pair(int with, int width) {
  int from = lane() ^ with;
  return from > (lane() | (width - 1)) ? lane() : from;
}

// Values of up to 32 bytes, eight at a time.
template <class T> static inline T exchange(unsigned mask, const T& value, int source, int line) {
  static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 32,
                "values of up to 32 bytes that can be copied as bytes are exchanged between lanes");
  uint64_t words[(sizeof(T) + 7) / 8] = {};
  memcpy(words, &value, sizeof(T));
  for (uint64_t& word : words) word = muster_exchange(mask, word, source, line);
  T result = value;
  memcpy(static_cast<void*>(&result), words, sizeof(T));
  return result;
}

// The values of all lanes that take part, by lane.
template <class T> struct Gathered {
  unsigned lanes;
  alignas(T) unsigned char bytes[32][sizeof(T)];
  T of(int lane) const {
    T value = T();
    memcpy(static_cast<void*>(&value), bytes[lane], sizeof(T));
    return value;
  }
};
template <class T> static inline void gather(unsigned mask, const T& value, Gathered<T>& into, int line) {
  static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 32,
                "values of up to 32 bytes that can be copied as bytes are exchanged between lanes");
  uint64_t words[(sizeof(T) + 7) / 8] = {}, all[32] = {};
  memcpy(words, &value, sizeof(T));
  for (size_t at = 0; at < sizeof(T); at += 8) {
    into.lanes = muster_gather(mask, words[at / 8], all, line);
    size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
    for (int lane = 0; lane < 32; ++lane) memcpy(into.bytes[lane] + at, &all[lane], bytes);
  }
}

// Bits of a value as `__match_any_sync` compares them.
template <class T> static inline uint64_t bits_of(T value) {
  static_assert(std::is_arithmetic<T>::value && sizeof(T) >= 4, "a value of four or eight bytes is matched");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}
static inline unsigned equal_lanes(unsigned mask, uint64_t bits, unsigned* lanes, int line) {
  uint64_t all[32];
  unsigned equal = 0;
  *lanes = muster_gather(mask, bits, all, line);
  for (unsigned rest = *lanes; rest; rest &= rest - 1)
    if (all[__builtin_ctz(rest)] == bits) equal |= rest & -rest;
  return equal;
}
template <class T, class Step> static inline T reduce(unsigned mask, T value, int line, Step step) {
  uint64_t all[32];
  unsigned rest = muster_gather(mask, uint64_t(value), all, line);
  T result = T(all[__builtin_ctz(rest)]);
  for (rest &= rest - 1; rest; rest &= rest - 1) result = step(result, T(all[__builtin_ctz(rest)]));
  return result;
}
}

// The types of the CUDA C++ Programming Guide, "Warp Shuffle Functions"; smaller integers are promoted as there.
// Default arguments carry the line of the caller.
#define MUSTER_SHUFFLE(T)                                                                                            \
  static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, int line = __builtin_LINE()) {       \
    return muster::exchange(mask, value, muster::from_index(from, width), line);                                     \
  }                                                                                                                  \
  static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,                             \
                                 int line = __builtin_LINE()) {                                                      \
    return muster::exchange(mask, value, muster::from_above(delta, width), line);                                    \
  }                                                                                                                  \
  static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,                           \
                                   int line = __builtin_LINE()) {                                                    \
    return muster::exchange(mask, value, muster::from_below(delta, width), line);                                    \
  }                                                                                                                  \
  static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, int line = __builtin_LINE()) {   \
    return muster::exchange(mask, value, muster::from_pair(with, width), line);                                      \
  }
#define MUSTER_MATCH(T)                                                                                              \
  static inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {                     \
    unsigned lanes;                                                                                                  \
    return muster::equal_lanes(mask, muster::bits_of(value), &lanes, line);                                          \
  }                                                                                                                  \
  static inline unsigned __match_all_sync(unsigned mask, T value, int* all, int line = __builtin_LINE()) {           \
    unsigned lanes, equal = muster::equal_lanes(mask, muster::bits_of(value), &lanes, line);                         \
    *all = equal == lanes;                                                                                           \
    return equal == lanes ? mask : 0u;                                                                               \
  }
#define MUSTER_WARP_TYPE(T) MUSTER_SHUFFLE(T) MUSTER_MATCH(T)
MUSTER_WARP_TYPE(int)
MUSTER_WARP_TYPE(unsigned int)
MUSTER_WARP_TYPE(long)
MUSTER_WARP_TYPE(unsigned long)
MUSTER_WARP_TYPE(long long)
MUSTER_WARP_TYPE(unsigned long long)
MUSTER_WARP_TYPE(float)
MUSTER_WARP_TYPE(double)

static inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) { muster_vote(mask, 0, line); }
static inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return unsigned(muster_vote(mask, predicate != 0, line));
}
static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return unsigned(muster_vote(mask, predicate != 0, line)) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  uint64_t both = muster_vote(mask, predicate != 0, line);
  return unsigned(both) == unsigned(both >> 32);
}
// Which lanes run together is a matter of the hardware's scheduling. Here they converge as far as they can: a lane
// that asks waits until every lane of its warp waits or has exited, and lanes at the same line are active together.
static inline unsigned __activemask(int line = __builtin_LINE()) { return muster_active(line); }

#define MUSTER_REDUCE(T, NAME, EXPRESSION)                                                                           \
  static inline T __reduce_##NAME##_sync(unsigned mask, T value, int line = __builtin_LINE()) {                      \
    return muster::reduce(mask, value, line, [](T a, T b) -> T { return EXPRESSION; });                              \
  }
MUSTER_REDUCE(unsigned, add, a + b)
MUSTER_REDUCE(unsigned, min, b < a ? b : a)
MUSTER_REDUCE(unsigned, max, b > a ? b : a)
MUSTER_REDUCE(int, add, int(unsigned(a) + unsigned(b)))
MUSTER_REDUCE(int, min, b < a ? b : a)
MUSTER_REDUCE(int, max, b > a ? b : a)
MUSTER_REDUCE(unsigned, and, a & b)
MUSTER_REDUCE(unsigned, or, a | b)
MUSTER_REDUCE(unsigned, xor, a ^ b)

// The forms without a mask went with compute capability 7.0.
#define MUSTER_OLD(NAME)                                                                                             \
  template <class... A> MUSTER_REFUSED("not_implemented_here", #NAME, "use " #NAME "_sync with a mask") int NAME(A...);
MUSTER_OLD(__shfl)
MUSTER_OLD(__shfl_up)
MUSTER_OLD(__shfl_down)
MUSTER_OLD(__shfl_xor)
MUSTER_OLD(__any)
MUSTER_OLD(__all)
MUSTER_OLD(__ballot)
