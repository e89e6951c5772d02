extern "C" __global__ void run(const int* x, int* y, int n) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && threadIdx.x % 2 == 0) atomicAdd(&s, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(y, s);
}
