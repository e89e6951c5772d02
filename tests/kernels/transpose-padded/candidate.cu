// Through a tile with one column of padding, which keeps the banks of shared memory apart.
#define TILE 32
#define ROWS 8
extern "C" __global__ void transpose(const float* x, float* y, int h, int w) {
  __shared__ float tile[TILE][TILE + 1];
  int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS) if (c < w && r + j < h) tile[threadIdx.y + j][threadIdx.x] = x[(size_t)(r + j) * w + c];
  __syncthreads();
  c = blockIdx.y * TILE + threadIdx.x, r = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS) if (c < h && r + j < w) y[(size_t)(r + j) * h + c] = tile[threadIdx.x][threadIdx.y + j];
}
