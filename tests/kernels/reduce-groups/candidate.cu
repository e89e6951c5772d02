// Cooperative groups: a reduction in each tile, then one over the tiles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
template <class Group> __device__ float total(const Group& group, float v) { return cg::reduce(group, v, cg::plus<float>()); }
extern "C" __global__ void norms(const float* x, float* y, int rows, int n) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  __shared__ float parts[4];
  float sum = 0.f;
  for (int i = block.thread_rank(); i < n; i += block.size()) {
    float v = x[(size_t)block.group_index().x * n + i];
    sum = fmaf(v, v, sum);
  }
  sum = total(tile, sum);
  if (tile.thread_rank() == 0) parts[tile.meta_group_rank()] = sum;
  block.sync();
  if (tile.meta_group_rank() == 0) {
    auto four = cg::tiled_partition<4>(tile);
    sum = total(four, parts[four.thread_rank()]);
    if (tile.thread_rank() == 0) y[blockIdx.x] = sum;
  }
}
