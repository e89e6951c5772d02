// The rows are split among blocks, whose shares meet by atomic addition.
extern "C" __global__ void weigh(const float* a, const float* x, float* y, int rows, int n) {
  __shared__ float shares[4][32];
  int c = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 64, end = min(first + 64, rows);
  float sum = 0.f;
  if (c < n)
    for (int r = first + threadIdx.y; r < end; r += 4) sum = fmaf(a[(size_t)r * n + c], x[r], sum);
  shares[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && c < n)
    atomicAdd(&y[c], shares[0][threadIdx.x] + shares[1][threadIdx.x] + shares[2][threadIdx.x] + shares[3][threadIdx.x]);
}
