// Prefix sums over a group.
#pragma once
#include "reduce.h"

namespace cooperative_groups {
template <class GROUP, class T, class STEP>
static inline auto inclusive_scan(const GROUP& group, T&& value, STEP&& step, int line = __builtin_LINE())
    -> typename std::decay<T>::type {
  using Value = typename std::decay<T>::type;
  Value values[32];
  unsigned rank = unsigned(group.thread_rank()), count = muster::by_rank(group, Value(value), values, line);
  Value sum = values[0];
  for (unsigned at = 1; at <= rank && at < count; ++at) sum = step(sum, values[at]);
  return sum;
}
template <class GROUP, class T> static inline auto inclusive_scan(const GROUP& group, T&& value, int line = __builtin_LINE())
    -> typename std::decay<T>::type {
  return inclusive_scan(group, value, plus<typename std::decay<T>::type>(), line);
}
// The first rank gets a value-initialised T.
template <class GROUP, class T, class STEP>
static inline auto exclusive_scan(const GROUP& group, T&& value, STEP&& step, int line = __builtin_LINE())
    -> typename std::decay<T>::type {
  using Value = typename std::decay<T>::type;
  Value values[32];
  unsigned rank = unsigned(group.thread_rank()), count = muster::by_rank(group, Value(value), values, line);
  if (rank == 0) return Value();
  Value sum = values[0];
  for (unsigned at = 1; at < rank && at < count; ++at) sum = step(sum, values[at]);
  return sum;
}
template <class GROUP, class T> static inline auto exclusive_scan(const GROUP& group, T&& value, int line = __builtin_LINE())
    -> typename std::decay<T>::type {
  return exclusive_scan(group, value, plus<typename std::decay<T>::type>(), line);
}
}
