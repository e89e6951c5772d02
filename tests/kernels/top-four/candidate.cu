// Every lane keeps its four; the warp takes the largest head four times.
struct Four {
  int v[4];
  __device__ void put(int n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) { int larger = max(v[k], n); n = min(v[k], n); v[k] = larger; }
  }
  __device__ void drop() { v[0] = v[1]; v[1] = v[2]; v[2] = v[3]; v[3] = -2147483647; }
};
extern "C" __global__ void top_four(const int* x, int* y, int rows, int n) {
  Four mine = {{-2147483647, -2147483647, -2147483647, -2147483647}};
  int lane = threadIdx.x;
  for (int i = lane; i < n; i += 32) mine.put(x[(size_t)blockIdx.x * n + i]);
  for (int k = 0; k < 4; ++k) {
    int best = mine.v[0];
    for (int with = 16; with; with >>= 1) best = max(best, __shfl_xor_sync(0xffffffffu, best, with));
    unsigned holders = __ballot_sync(0xffffffffu, mine.v[0] == best);
    if (lane == __ffs(holders) - 1) mine.drop();
    if (lane == k) y[blockIdx.x * 4 + k] = best;
  }
}
