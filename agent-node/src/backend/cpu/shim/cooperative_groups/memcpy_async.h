// Copies of a group: done at once, each thread its share; `wait` is the group's barrier.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
namespace muster_copy {
template <class GROUP> static inline void share(const GROUP& group, void* to, const void* from, size_t bytes) {
  constexpr size_t WORD = 16;
  size_t rank = size_t(group.thread_rank()), size = size_t(group.size());
  for (size_t at = rank * WORD; at < bytes; at += size * WORD)
    memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, bytes - at < WORD ? bytes - at : WORD);
}
}
// `bytes` may be a cuda::aligned_size_t.
template <class GROUP, class T, class U, class SIZE>
static inline void memcpy_async(const GROUP& group, T* to, const U* from, SIZE bytes) {
  muster_copy::share(group, to, from, size_t(bytes));
}
// Numbers of elements; the smaller one is copied.
template <class GROUP, class T, class TO, class FROM>
static inline void memcpy_async(const GROUP& group, T* to, const TO& room, const T* from, const FROM& given) {
  size_t elements = size_t(room) < size_t(given) ? size_t(room) : size_t(given);
  muster_copy::share(group, to, from, elements * sizeof(T));
}
template <class GROUP> static inline void wait(const GROUP& group, int line = __builtin_LINE()) { group.sync(line); }
template <unsigned STAGES, class GROUP> static inline void wait_prior(const GROUP& group, int line = __builtin_LINE()) {
  group.sync(line);
}
}
