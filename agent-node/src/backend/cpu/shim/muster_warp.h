// Warp operations: every lane of the mask that has not exited exchanges through the scheduler of the block.
#pragma once

namespace muster {
template <class T> static inline T exchange(unsigned mask, T value, int source, int line) {
  static_assert(std::is_arithmetic<T>::value && sizeof(T) >= 4,
                MUSTER_MARKER("not_implemented_here", "shuffle of this type", "shuffle int, long long, float or double"));
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = muster_exchange(mask, bits, source, line);
  memcpy(&value, &bits, sizeof(T));
  return value;
}
static inline int lane() { return int(muster_linear & 31u); }
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32,
                                               int line = __builtin_LINE()) {
  int lane = muster::lane();
  return muster::exchange(mask, value, (lane & ~(width - 1)) | (from & (width - 1)), line);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                                  int line = __builtin_LINE()) {
  int lane = muster::lane();
  int from = lane - int(delta);
  return muster::exchange(mask, value, from < (lane & ~(width - 1)) ? lane : from, line);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                                    int line = __builtin_LINE()) {
  int lane = muster::lane();
  return muster::exchange(mask, value, (lane & (width - 1)) + int(delta) >= width ? lane : lane + int(delta), line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32,
                                                   int line = __builtin_LINE()) {
  int lane = muster::lane();
  int from = lane ^ with;
  return muster::exchange(mask, value, from > (lane | (width - 1)) ? lane : from, line);
}
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

// Which lanes run together is a matter of the hardware's scheduling; an invented answer would charge the
// candidate for a difference that no GPU shows.
MUSTER_REFUSED("not_implemented_here", "__activemask", "pass the mask that the algorithm means")
unsigned __activemask();
template <class T> MUSTER_REFUSED("not_implemented_here", "__match_any_sync", "offer this candidate to an NVIDIA device class")
unsigned __match_any_sync(unsigned, T);
template <class T> MUSTER_REFUSED("not_implemented_here", "__match_all_sync", "offer this candidate to an NVIDIA device class")
unsigned __match_all_sync(unsigned, T, int*);
template <class T> MUSTER_REFUSED("not_implemented_here", "__reduce_add_sync", "reduce with shuffles")
T __reduce_add_sync(unsigned, T);
template <class T> MUSTER_REFUSED("not_implemented_here", "__reduce_max_sync", "reduce with shuffles")
T __reduce_max_sync(unsigned, T);
template <class T> MUSTER_REFUSED("not_implemented_here", "__reduce_min_sync", "reduce with shuffles")
T __reduce_min_sync(unsigned, T);
