// Wrong: warps without a query leave before they have loaded their rows.
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int n) {
  __shared__ float keys[32][33], values[32][33], queries[8][32];
  int lane = threadIdx.x, own = threadIdx.y, i = blockIdx.x * 8 + own, last = min((int)blockIdx.x * 8 + 7, n - 1);
  queries[own][lane] = i < n ? q[(size_t)i * 32 + lane] * 0.17677669529663687f : 0.f;
  if (i >= n) return;
  float most = -1e30f, sum = 0.f, out = 0.f;
  for (int base = 0; base <= last; base += 32) {
    __syncthreads();
    for (int r = own; r < 32; r += 8) {
      bool there = base + r < n;
      keys[r][lane] = there ? k[(size_t)(base + r) * 32 + lane] : 0.f;
      values[r][lane] = there ? v[(size_t)(base + r) * 32 + lane] : 0.f;
    }
    __syncthreads();
    float score = 0.f;
#pragma unroll 8
    for (int f = 0; f < 32; ++f) score = fmaf(queries[own][f], keys[lane][f], score);
    if (base + lane > i) score = -1e30f;
    float tile = score;
    for (int d = 16; d > 0; d /= 2) tile = fmaxf(tile, __shfl_xor_sync(0xffffffffu, tile, d));
    float next = fmaxf(most, tile), shrink = expf(most - next);
    float weight = base + lane > i ? 0.f : expf(score - next), weights = weight;
    for (int d = 16; d > 0; d /= 2) weights += __shfl_xor_sync(0xffffffffu, weights, d);
    sum = sum * shrink + weights;
    out *= shrink;
    for (int j = 0; j < 32; ++j) out = fmaf(__shfl_sync(0xffffffffu, weight, j), values[j][lane], out);
    most = next;
  }
  if (i < n) o[(size_t)i * 32 + lane] = out / sum;
}
