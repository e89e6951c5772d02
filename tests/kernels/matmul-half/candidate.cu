// Pairs of half precision, the sum in single; the second matrix is stored by columns.
#include <cuda_fp16.h>
extern "C" __global__ void matmul_half(const __half* a, const __half* b, float* c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= n || row >= m) return;
  const half2* left = reinterpret_cast<const half2*>(a + (size_t)row * k);
  const half2* right = reinterpret_cast<const half2*>(b + (size_t)col * k);
  float sum = 0.f;
  for (int i = 0; i < k / 2; ++i) {
    float2 p = __half22float2(left[i]), q = __half22float2(right[i]);
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
  }
  c[(size_t)row * n + col] = sum;
}
