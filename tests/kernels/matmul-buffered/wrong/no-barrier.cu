// Wrong: a tile is used while it is still being loaded.
extern "C" __global__ void buffered(const float* a, const float* b, float* c, int m, int n, int k) {
  extern __shared__ float tiles[];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  auto fetch = [&](int base, int buffer) {
    float* left = tiles + buffer * 512;
    left[ty * 16 + tx] = row < m && base + tx < k ? a[(size_t)row * k + base + tx] : 0.f;
    left[256 + ty * 16 + tx] = base + ty < k && col < n ? b[(size_t)(base + ty) * n + col] : 0.f;
  };
  float sum = 0.f;
  fetch(0, 0);
  __syncthreads();
  for (int base = 0, now = 0; base < k; base += 16, now ^= 1) {
    if (base + 16 < k) fetch(base + 16, now ^ 1);
    const float* left = tiles + now * 512;
#pragma unroll 4
    for (int i = 0; i < 16; ++i) sum += left[ty * 16 + i] * left[256 + i * 16 + tx];
    
  }
  if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
