// One tile of each channel at a time in shared memory; the grid's third axis is the output channel.
constexpr int TILE = 8;
extern "C" __global__ void convolve_plane(const float* x, const float* f, float* y, int c, int h, int w, int o) {
  __shared__ float tile[TILE + 2][TILE + 2];
  __shared__ float taps[9];
  int col = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y, out = blockIdx.z;
  int t = threadIdx.y * TILE + threadIdx.x;
  float sum = 0.f;
  for (int in = 0; in < c; ++in) {
    for (int at = t; at < (TILE + 2) * (TILE + 2); at += TILE * TILE) {
      int r = int(blockIdx.y * TILE) + at / (TILE + 2) - 1, q = int(blockIdx.x * TILE) + at % (TILE + 2) - 1;
      tile[at / (TILE + 2)][at % (TILE + 2)] = (unsigned)r < (unsigned)h && (unsigned)q < (unsigned)w ? x[(in * h + r) * w + q] : 0.f;
    }
    if (t < 9) taps[t] = f[(out * c + in) * 9 + t];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 9; ++k) sum += taps[k] * tile[threadIdx.y + k / 3][threadIdx.x + k % 3];
    __syncthreads();
  }
  if (col < w && row < h) y[(out * h + row) * w + col] = sum;
}
