// What a page gives to each of its links first; then eight lanes gather for a page.
extern "C" __global__ void split(const int* links, const float* x, float* share, int n) {
  int page = blockIdx.x * blockDim.x + threadIdx.x;
  if (page < n) share[page] = __fdividef(x[page], (float)links[page]);
}
extern "C" __global__ void gather(const int* from, const float* share, float* y, int n) {
  int page = blockIdx.x * 32 + threadIdx.y;
  float given = page < n ? share[from[page * 8 + threadIdx.x]] : 0.f;
  for (int d = 4; d > 0; d /= 2) given += __shfl_down_sync(0xffffffffu, given, d, 8);
  if (threadIdx.x == 0 && page < n) y[page] = fmaf(0.85f, given, 0.15f / n);
}
