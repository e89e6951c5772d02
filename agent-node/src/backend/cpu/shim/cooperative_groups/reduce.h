// Reductions over a group.
#pragma once
#include "../cooperative_groups.h"
#include "functional.h"

namespace muster {
// The values of a group by rank; answers how many.
template <class GROUP, class T> static inline unsigned by_rank(const GROUP& group, const T& value, T* values, int line) {
  Gathered<T> all;
  gather(group.lanes(), value, all, line);
  unsigned count = 0;
  for (unsigned rest = all.lanes; rest; rest &= rest - 1) values[count++] = all.of(__builtin_ctz(rest));
  return count;
}
}

namespace cooperative_groups {
// Neighbours first, then pairs of pairs: the same tree for every lane, so that all get the same bits.
template <class GROUP, class T, class STEP>
static inline auto reduce(const GROUP& group, T&& value, STEP&& step, int line = __builtin_LINE())
    -> typename std::decay<T>::type {
  using Value = typename std::decay<T>::type;
  Value values[32];
  unsigned count = muster::by_rank(group, Value(value), values, line);
  for (unsigned stride = 1; stride < count; stride *= 2)
    for (unsigned at = 0; at + stride < count; at += 2 * stride) values[at] = step(values[at], values[at + stride]);
  return values[0];
}
#define MUSTER_NO_ASYNC_REDUCE                                                                                       \
  MUSTER_REFUSED("not_implemented_here", "asynchronous reduction", "use cg::reduce and an atomic function")
template <class... A> MUSTER_NO_ASYNC_REDUCE void reduce_update_async(A&&...);
template <class... A> MUSTER_NO_ASYNC_REDUCE void reduce_store_async(A&&...);
}
