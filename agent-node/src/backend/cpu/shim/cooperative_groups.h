// Cooperative groups inside a block: the block itself, tiles of a warp, and lanes that stand together.
// A group of the whole grid can be asked for its indices and cannot wait: blocks run one after another here.
#pragma once
#include "muster_groups.h"

namespace cooperative_groups {
// The lanes of the warp that stand at this line; see __activemask.
static inline coalesced_group coalesced_threads(int line = __builtin_LINE()) {
  return coalesced_group(muster_active(line));
}

// Tiles of a block or of a larger tile.
template <unsigned SIZE> static inline thread_block_tile<SIZE, thread_block> tiled_partition(const thread_block&) {
  return thread_block_tile<SIZE, thread_block>(muster::Tile::of(SIZE, (muster_block_size() + SIZE - 1) / SIZE,
                                                                muster_linear / SIZE));
}
template <unsigned SIZE, unsigned OUTER, class PARENT>
static inline thread_block_tile<SIZE, thread_block_tile<OUTER, PARENT>>
tiled_partition(const thread_block_tile<OUTER, PARENT>&) {
  static_assert(SIZE <= OUTER, "a tile of a tile is not larger than it");
  return thread_block_tile<SIZE, thread_block_tile<OUTER, PARENT>>(
      muster::Tile::of(SIZE, OUTER / SIZE, muster_linear % OUTER / SIZE));
}
// Sizes that are known at run time only.
static inline thread_group tiled_partition(const thread_block&, unsigned size) {
  return thread_group(muster::Tile::of(size, (muster_block_size() + size - 1) / size, muster_linear / size).lanes);
}
static inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  unsigned index = parent.thread_rank() / size, lanes = 0;
  for (unsigned rank = index * size; rank < parent.size() && rank < (index + 1) * size; ++rank)
    lanes |= 1u << parent.lane_of(rank);
  return coalesced_group(lanes, (parent.size() + size - 1) / size, index);
}
static inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  if (parent.is_block()) return tiled_partition(this_thread_block(), size);
  return tiled_partition(coalesced_group(parent.lanes()), size);
}

// Groups of the lanes that agree: of a predicate, of a label.
template <class GROUP>
static inline coalesced_group binary_partition(const GROUP& group, bool predicate, int line = __builtin_LINE()) {
  unsigned lanes, equal = muster::equal_lanes(group.lanes(), uint64_t(predicate), &lanes, line);
  return coalesced_group(equal, 2, predicate ? 0u : 1u);
}
template <class GROUP, class LABEL>
static inline coalesced_group labeled_partition(const GROUP& group, LABEL label, int line = __builtin_LINE()) {
  static_assert(std::is_integral<LABEL>::value, "a label is an integer");
  uint64_t all[32];
  unsigned before = 0, groups = 0, index = 0, equal = 0;
  unsigned lanes = muster_gather(group.lanes(), uint64_t(label), all, line);
  for (unsigned rest = lanes; rest; rest &= rest - 1) {
    unsigned bit = rest & -rest, one = 0;
    if (before & bit) continue;
    for (unsigned each = lanes; each; each &= each - 1)
      if (all[__builtin_ctz(each)] == all[__builtin_ctz(bit)]) one |= each & -each;
    if (one >> muster::lane() & 1) { equal = one; index = groups; }
    before |= one;
    ++groups;
  }
  return coalesced_group(equal, groups, index);
}

template <class GROUP> static inline void sync(const GROUP& group, int line = __builtin_LINE()) { group.sync(line); }
template <class GROUP> static inline void synchronize(const GROUP& group, int line = __builtin_LINE()) { group.sync(line); }
template <class GROUP> static inline unsigned thread_rank(const GROUP& group) { return unsigned(group.thread_rank()); }
template <class GROUP> static inline unsigned group_size(const GROUP& group) { return unsigned(group.size()); }

// One thread of the group does it; `_broadcast` gives its result to all.
template <class GROUP, class F, class... A> static inline void invoke_one(const GROUP& group, F&& f, A&&... arguments) {
  if (group.thread_rank() == 0) f(std::forward<A>(arguments)...);
}
template <class GROUP, class F, class... A>
static inline auto invoke_one_broadcast(const GROUP& group, F&& f, A&&... arguments)
    -> decltype(f(std::forward<A>(arguments)...)) {
  decltype(f(std::forward<A>(arguments)...)) result{};
  if (group.thread_rank() == 0) result = f(std::forward<A>(arguments)...);
  return group.shfl(result, 0);
}

#define MUSTER_NO_GRID_SYNC                                                                                          \
  MUSTER_REFUSED("not_implemented_here", "grid synchronisation",                                                     \
                 "split the kernel at this point into two of the launch plan, or offer it to an NVIDIA device class")
class grid_group {
 public:
  MUSTER_NO_GRID_SYNC void sync() const;
  MUSTER_NO_GRID_SYNC unsigned barrier_arrive() const;
  MUSTER_NO_GRID_SYNC void barrier_wait(unsigned) const;
  bool is_valid() const { return false; }
  static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static unsigned long long num_threads() { return num_blocks() * muster_block_size(); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() { return block_rank() * muster_block_size() + muster_linear; }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 block_index() { return blockIdx; }
};
static inline grid_group this_grid() { return grid_group(); }

#define MUSTER_NO_CLUSTER                                                                                            \
  MUSTER_REFUSED("not_implemented_here", "thread block clusters", "offer this candidate to an NVIDIA device class")
class MUSTER_NO_CLUSTER cluster_group;
MUSTER_NO_CLUSTER int this_cluster();
MUSTER_REFUSED("not_implemented_here", "groups of several devices", "use one device") int this_multi_grid();
}
