// Lanes that stand together add once (Adinets, "Warp-Aggregated Atomics", 2014).
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void count_above(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (x[i] > 100) {
    cg::coalesced_group together = cg::coalesced_threads();
    if (together.thread_rank() == 0) atomicAdd(y, (int)together.size());
  }
}
