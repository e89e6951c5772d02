// The mixing of MurmurHash3 (Appleby), with funnel shifts and rows staged by an asynchronous copy of the block.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
extern "C" __global__ void digest(const unsigned int* x, unsigned int* y, int rows, int n) {
  extern __shared__ unsigned words[];
  auto block = cg::this_thread_block();
  int first = blockIdx.x * blockDim.x, count = min((int)blockDim.x, rows - first);
  cg::memcpy_async(block, words, x + (size_t)first * n, sizeof(unsigned) * count * n);
  cg::wait(block);
  if (threadIdx.x >= count) return;
  unsigned h = 0x811c9dc5u;
  for (int i = 0; i < n; ++i) {
    unsigned k = words[threadIdx.x * n + i] * 0xcc9e2d51u;
    h ^= __funnelshift_l(k, k, 15) * 0x1b873593u;
    h = __funnelshift_l(h, h, 13) * 5u + 0xe6546b64u;
  }
  y[first + threadIdx.x] = h ^ (h >> 16);
}
