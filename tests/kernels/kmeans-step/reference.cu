// One step of k-means: nearest of twelve centres, and what each gathers: of equally near centres the first; the last block gathers.
__device__ int nearest(const int* point, const int* centre) {
  int best = 0, least = 0x7fffffff;
  for (int c = 0; c < 12; ++c) {
    int square = 0;
    for (int f = 0; f < 4; ++f) square += (point[f] - centre[c * 4 + f]) * (point[f] - centre[c * 4 + f]);
    if (square < least) { least = square; best = c; }
  }
  return best;
}
extern "C" __global__ void cluster(const int* x, const int* centre, int* label, unsigned int* count, int* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x + 1 < gridDim.x) {
    if (i < n) label[i] = nearest(x + i * 4, centre);
    return;
  }
  if (threadIdx.x >= 12) return;
  int all = 0, sums[4] = {};
  for (int p = 0; p < n; ++p) {
    if (nearest(x + p * 4, centre) != (int)threadIdx.x) continue;
    ++all;
    for (int f = 0; f < 4; ++f) sums[f] += x[p * 4 + f];
  }
  count[threadIdx.x] = all;
  for (int f = 0; f < 4; ++f) sum[threadIdx.x * 4 + f] = sums[f];
}
