// Two elements a thread, in the order of the result.
#include <cuda_fp16.h>
extern "C" __global__ void permute(const __half* x, __half* y, int h, int s, int d) {
  const __half2* from = reinterpret_cast<const __half2*>(x);
  __half2* to = reinterpret_cast<__half2*>(y);
  int pairs = d / 2, all = h * s * pairs;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    int feature = i % pairs, head = i / pairs % h, position = i / pairs / h;
    to[i] = from[((size_t)head * s + position) * pairs + feature];
  }
}
