// Taps and a tile with its halo in dynamic shared memory, which is shared out by hand.
extern "C" __global__ void convolve(const float* x, const float* w, float* y, int n) {
  extern __shared__ float memory[];
  float* taps = memory;
  float* tile = memory + 32;
  int base = blockIdx.x * blockDim.x - 8;
  if (threadIdx.x < 17) taps[threadIdx.x] = w[threadIdx.x];
  for (int at = threadIdx.x; at < blockDim.x + 16; at += blockDim.x)
    tile[at] = base + at >= 0 && base + at < n ? x[base + at] : 0.f;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.f;
#pragma unroll
  for (int k = 0; k < 17; ++k) sum += taps[k] * tile[threadIdx.x + k];
  y[i] = sum;
}
