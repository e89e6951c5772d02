// Points of a hashed sequence inside a quarter circle, counted per row: one thread for each result.
__device__ unsigned mix(unsigned v) {
  v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; v ^= v >> 16;
  return v;
}

extern "C" __global__ void hits(const unsigned int* seed, int* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int inside = 0;
  for (int i = 0; i < n; ++i) {
    unsigned h = mix(seed[r] + (unsigned)i * 0x9e3779b9u);
    unsigned u = h & 0xffffu, v = h >> 16;
    inside += (unsigned long long)u * u + (unsigned long long)v * v < 4294967296ull;
  }
  y[r] = inside;
}
