// A histogram of each block in shared memory, added to the one in global memory.
extern "C" __global__ void histogram(const unsigned char* x, unsigned int* h, int n) {
  __shared__ unsigned bins[64];
  for (int b = threadIdx.x; b < 64; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  const uchar4* four = reinterpret_cast<const uchar4*>(x);
  int stride = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < n / 4; i += stride) {
    uchar4 v = four[i];
    atomicAdd(&bins[v.x], 1u); atomicAdd(&bins[v.y], 1u); atomicAdd(&bins[v.z], 1u); atomicAdd(&bins[v.w], 1u);
  }
  for (int i = n / 4 * 4 + first; i < n; i += stride) atomicAdd(&bins[x[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 64; b += blockDim.x) atomicAdd(&h[b], bins[b]);
}
