// Eight lanes a row: a tile of cooperative groups.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void spmv(const int* start, const int* columns, const float* a, const float* x, float* y, int rows) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int r = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
  if (r >= rows) return;
  float sum = 0.f;
  for (int i = start[r] + tile.thread_rank(); i < start[r + 1]; i += tile.size()) sum += a[i] * __ldg(&x[columns[i]]);
  for (int down = tile.size() / 2; down > 0; down /= 2) sum += tile.shfl_down(sum, down);
  if (tile.thread_rank() == 0) y[r] = sum;
}
