// Integer hash, integer geometry, one barrier that counts (mix: Wellons' lowbias32).
__device__ unsigned mix(unsigned v) {
  v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; v ^= v >> 16;
  return v;
}
extern "C" __global__ void hits(const unsigned int* seed, int* y, int rows, int n) {
  int inside = 0;
  unsigned start = seed[blockIdx.x];
  for (int base = 0; base < n; base += blockDim.x) {
    int i = base + threadIdx.x;
    bool hit = false;
    if (i < n) {
      unsigned h = mix(start + (unsigned)i * 0x9e3779b9u), u = h & 0xffffu, v = h >> 16;
      hit = !(__umulhi(u << 16, u << 16) + (unsigned long long)__umulhi(v << 16, v << 16) >> 32);
    }
    inside += __syncthreads_count(hit);
  }
  if (threadIdx.x == 0) y[blockIdx.x] = inside;
}
