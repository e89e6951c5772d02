// The group types of cooperative_groups.h.
#pragma once

static inline unsigned muster_block_size() { return blockDim.x * blockDim.y * blockDim.z; }

namespace muster {
// Consecutive lanes of a warp, and their place among the tiles beside them.
struct Tile {
  unsigned lanes, count, index;
  static inline Tile of(unsigned size, unsigned count, unsigned index) {
    unsigned ones = size >= 32 ? ~0u : (1u << size) - 1u;
    return Tile{ones << (unsigned(lane()) & ~(size - 1u) & 31u), count, index};
  }
};
// Bits of `lanes` that are set in `mask`, pressed together in the order of ranks.
static inline unsigned packed(unsigned lanes, unsigned mask) {
  unsigned result = 0, rank = 0;
  for (; mask; mask &= mask - 1, ++rank) result |= (lanes >> __builtin_ctz(mask) & 1u) << rank;
  return result;
}
}

namespace cooperative_groups {
struct thread_block;

// Any group, when its kind is known at run time only. No lanes: the block.
class thread_group {
 protected:
  unsigned lanes_;

 public:
  explicit thread_group(unsigned lanes) : lanes_(lanes) {}
  bool is_block() const { return lanes_ == 0; }
  unsigned lanes() const { return lanes_; }
  unsigned long long size() const { return is_block() ? muster_block_size() : unsigned(__builtin_popcount(lanes_)); }
  unsigned long long num_threads() const { return size(); }
  unsigned long long thread_rank() const {
    return is_block() ? muster_linear : unsigned(__builtin_popcount(lanes_ & ((1u << muster::lane()) - 1u)));
  }
  void sync(int line = __builtin_LINE()) const {
    if (is_block()) muster_barrier(0, line);
    else muster_vote(lanes_, 0, line);
  }
  bool is_valid() const { return true; }
};

// Memory for tiles beyond a warp, which this device does not have; the block ignores it.
template <unsigned THREADS = 1024> struct block_tile_memory {};

struct thread_block : thread_group {
  thread_block() : thread_group(0u) {}
  struct arrival_token {};
  static void sync(int line = __builtin_LINE()) { muster_barrier(0, line); }
  static unsigned thread_rank() { return muster_linear; }
  static unsigned size() { return muster_block_size(); }
  static unsigned num_threads() { return muster_block_size(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
  // The barrier's second half does the waiting; nothing may be read in between that others write.
  static arrival_token barrier_arrive() { return arrival_token(); }
  static void barrier_wait(arrival_token&&, int line = __builtin_LINE()) { muster_barrier(0, line); }
};
static inline thread_block this_thread_block() { return thread_block(); }
template <unsigned THREADS> static inline thread_block this_thread_block(block_tile_memory<THREADS>&) {
  return thread_block();
}

// Exchanges among consecutive lanes; ranks count from the tile's first.
template <unsigned SIZE, class PARENT = void> class thread_block_tile : public thread_group {
  static_assert((SIZE & (SIZE - 1)) == 0 && SIZE > 0, "the size of a tile is a power of two");
  static_assert(SIZE <= 32, MUSTER_MARKER("not_implemented_here", "tiles of more than a warp",
                                          "use tiles of at most 32 threads and shared memory between them"));
  unsigned count_, index_;
  unsigned first() const { return unsigned(muster::lane()) & ~(SIZE - 1u); }

 public:
  explicit thread_block_tile(const muster::Tile& tile) : thread_group(tile.lanes), count_(tile.count), index_(tile.index) {}
  // From one type of tile to another with the same lanes.
  template <class OTHER> thread_block_tile(const thread_block_tile<SIZE, OTHER>& other)
      : thread_group(other.lanes()), count_(other.meta_group_size()), index_(other.meta_group_rank()) {}
  static constexpr unsigned size() { return SIZE; }
  static constexpr unsigned num_threads() { return SIZE; }
  static unsigned thread_rank() { return unsigned(muster::lane()) & (SIZE - 1u); }
  unsigned meta_group_size() const { return count_; }
  unsigned meta_group_rank() const { return index_; }
  unsigned lane_of(unsigned rank) const { return first() + rank; }
  void sync(int line = __builtin_LINE()) const { muster_vote(lanes_, 0, line); }
  template <class T> T shfl(T value, int from, int line = __builtin_LINE()) const {
    return muster::exchange(lanes_, value, muster::from_index(from, int(SIZE)), line);
  }
  template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    return muster::exchange(lanes_, value, muster::from_above(delta, int(SIZE)), line);
  }
  template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    return muster::exchange(lanes_, value, muster::from_below(delta, int(SIZE)), line);
  }
  template <class T> T shfl_xor(T value, unsigned with, int line = __builtin_LINE()) const {
    return muster::exchange(lanes_, value, muster::from_pair(int(with), int(SIZE)), line);
  }
  int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(lanes_, predicate, line); }
  int all(int predicate, int line = __builtin_LINE()) const { return __all_sync(lanes_, predicate, line); }
  unsigned ballot(int predicate, int line = __builtin_LINE()) const {
    return __ballot_sync(lanes_, predicate, line) >> first();
  }
  template <class T> unsigned match_any(T value, int line = __builtin_LINE()) const {
    return __match_any_sync(lanes_, value, line) >> first();
  }
  template <class T> unsigned match_all(T value, int& all, int line = __builtin_LINE()) const {
    return __match_all_sync(lanes_, value, &all, line) >> first();
  }
};

// Some lanes of a warp; ranks count the lanes that belong to it.
class coalesced_group : public thread_group {
  unsigned count_, index_;

 public:
  explicit coalesced_group(unsigned lanes, unsigned count = 1, unsigned index = 0)
      : thread_group(lanes), count_(count), index_(index) {}
  template <unsigned SIZE, class PARENT> coalesced_group(const thread_block_tile<SIZE, PARENT>& tile)
      : thread_group(tile.lanes()), count_(tile.meta_group_size()), index_(tile.meta_group_rank()) {}
  unsigned size() const { return unsigned(__builtin_popcount(lanes_)); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return unsigned(__builtin_popcount(lanes_ & ((1u << muster::lane()) - 1u))); }
  unsigned meta_group_size() const { return count_; }
  unsigned meta_group_rank() const { return index_; }
  unsigned lane_of(unsigned rank) const {
    unsigned rest = lanes_;
    for (; rank && rest; --rank) rest &= rest - 1;
    return rest ? unsigned(__builtin_ctz(rest)) : unsigned(muster::lane());
  }
  void sync(int line = __builtin_LINE()) const { muster_vote(lanes_, 0, line); }
  template <class T> T shfl(T value, unsigned from, int line = __builtin_LINE()) const {
    return muster::exchange(lanes_, value, int(lane_of(from)), line);
  }
  template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    unsigned rank = thread_rank();
    return muster::exchange(lanes_, value, int(lane_of(rank >= delta ? rank - delta : rank)), line);
  }
  template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    unsigned rank = thread_rank();
    return muster::exchange(lanes_, value, int(lane_of(rank + delta < size() ? rank + delta : rank)), line);
  }
  int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(lanes_, predicate, line); }
  int all(int predicate, int line = __builtin_LINE()) const { return __all_sync(lanes_, predicate, line); }
  unsigned ballot(int predicate, int line = __builtin_LINE()) const {
    return muster::packed(__ballot_sync(lanes_, predicate, line), lanes_);
  }
  template <class T> unsigned match_any(T value, int line = __builtin_LINE()) const {
    return muster::packed(__match_any_sync(lanes_, value, line), lanes_);
  }
  template <class T> unsigned match_all(T value, int& all, int line = __builtin_LINE()) const {
    return muster::packed(__match_all_sync(lanes_, value, &all, line), lanes_);
  }
};
}
