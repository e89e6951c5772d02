// Three kernels: blocks, the sums of blocks, and their addition (Hillis and Steele 1986 inside a block).
#define THREADS 256
__device__ int block_scan(int v, int* shared) {
  int t = threadIdx.x;
  shared[t] = v;
  __syncthreads();
  for (int d = 1; d < THREADS; d *= 2) {
    int below = t >= d ? shared[t - d] : 0;
    __syncthreads();
    shared[t] += below;
    __syncthreads();
  }
  return shared[t];
}
extern "C" __global__ void scan_blocks(const int* x, int* y, int* sums, int n) {
  __shared__ int shared[THREADS];
  int i = blockIdx.x * THREADS + threadIdx.x, v = i < n ? x[i] : 0;
  int sum = block_scan(v, shared);
  if (i < n) y[i] = sum - v;
  if (threadIdx.x == THREADS - 1) sums[blockIdx.x] = sum;
}
extern "C" __global__ void scan_sums(int* sums, int n) {
  __shared__ int shared[THREADS];
  int blocks = (n + THREADS - 1) / THREADS, carry = 0;
  for (int base = 0; base < blocks; base += THREADS) {
    int i = base + threadIdx.x, v = i < blocks ? sums[i] : 0;
    int sum = block_scan(v, shared);
    if (i < blocks) sums[i] = carry + sum - v;
    carry += shared[THREADS - 1];
    __syncthreads();
  }
}
extern "C" __global__ void add_sums(int* y, const int* sums, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) y[i] += sums[blockIdx.x];
}
