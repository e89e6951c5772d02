// Counts of each digit in each block, their exclusive sums in the order digit, block, and a stable scatter by them.
constexpr int THREADS = 128, DIGITS = 16;
extern "C" __global__ void count_digits(const unsigned int* x, unsigned int* counts, int n) {
  __shared__ unsigned int own[DIGITS];
  if (threadIdx.x < DIGITS) own[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) atomicAdd(&own[x[i] & 15u], 1u);
  __syncthreads();
  if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = own[threadIdx.x];
}
extern "C" __global__ void scan_counts(unsigned int* counts, int n) {
  __shared__ unsigned int sums[256];
  int all = DIGITS * ((n + THREADS - 1) / THREADS), each = (all + 255) / 256, t = threadIdx.x;
  unsigned int sum = 0;
  for (int i = t * each; i < min((t + 1) * each, all); ++i) sum += counts[i];
  sums[t] = sum;
  __syncthreads();
  if (t == 0) {
    unsigned int before = 0;
    for (int i = 0; i < 256; ++i) {
      unsigned int own = sums[i];
      sums[i] = before;
      before += own;
    }
  }
  __syncthreads();
  unsigned int before = sums[t];
  for (int i = t * each; i < min((t + 1) * each, all); ++i) {
    unsigned int own = counts[i];
    counts[i] = before;
    before += own;
  }
}
extern "C" __global__ void scatter(const unsigned int* x, unsigned int* y, const unsigned int* counts, int n) {
  __shared__ unsigned int warps[THREADS / 32][DIGITS];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, i = blockIdx.x * THREADS + t;
  if (t < THREADS / 32 * DIGITS) warps[t / DIGITS][t % DIGITS] = 0;
  __syncthreads();
  unsigned int v = i < n ? x[i] : 0, digit = v & 15u;
  // Threads behind the end are peers of nobody's digit.
  unsigned int peers = __match_any_sync(0xffffffffu, i < n ? digit : 16u);
  unsigned int before = __popc(peers & ((1u << lane) - 1u));
  if (i < n && before == 0) warps[warp][digit] = __popc(peers);
  __syncthreads();
  if (i >= n) return;
  unsigned int at = counts[digit * gridDim.x + blockIdx.x] + before;
  for (int w = 0; w < warp; ++w) at += warps[w][digit];
  y[at] = v;
}
