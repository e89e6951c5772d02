// Weights and places of a block's rows and columns are found once and shared.
struct Axis { int low, high; float weight; };
__device__ Axis axis(int i, int from, int to) {
  float at = (i + 0.5f) * from / to - 0.5f, whole = floorf(at);
  int low = (int)whole;
  return {min(max(low, 0), from - 1), min(max(low + 1, 0), from - 1), at - whole};
}
extern "C" __global__ void resize(const float* x, float* y, int h, int w, int p, int q) {
  __shared__ Axis columns[32], rows[8];
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  if (threadIdx.y == 0) columns[threadIdx.x] = axis(i, w, q);
  if (threadIdx.x == 0) rows[threadIdx.y] = axis(j, h, p);
  __syncthreads();
  if (i >= q || j >= p) return;
  Axis across = columns[threadIdx.x], down = rows[threadIdx.y];
  auto mix = [](float a, float b, float t) { return fmaf(t, b - a, a); };
  const float* top = x + (size_t)down.low * w;
  const float* bottom = x + (size_t)down.high * w;
  float above = mix(top[across.low], top[across.high], across.weight);
  y[(size_t)j * q + i] = mix(above, mix(bottom[across.low], bottom[across.high], across.weight), down.weight);
}
