// Single precision with the rounding errors kept beside it (Ogita, Rump and Oishi 2005, algorithm 5.3).
struct Pair { float high, low; };
__device__ Pair two_sum(float a, float b) {
  float s = __fadd_rn(a, b), t = __fsub_rn(s, a);
  return {s, __fadd_rn(__fsub_rn(a, __fsub_rn(s, t)), __fsub_rn(b, t))};
}
__device__ Pair two_product(float a, float b) {
  float p = __fmul_rn(a, b);
  return {p, __fmaf_rn(a, b, -p)};
}
extern "C" __global__ void dot_rows(const float* a, const float* b, float* y, int rows, int n) {
  const float* left = a + (size_t)blockIdx.x * n;
  const float* right = b + (size_t)blockIdx.x * n;
  Pair sum = {0.f, 0.f};
  for (int i = threadIdx.x; i < n; i += 32) {
    Pair product = two_product(left[i], right[i]), next = two_sum(sum.high, product.high);
    sum = {next.high, __fadd_rn(sum.low, __fadd_rn(next.low, product.low))};
  }
  for (int d = 16; d > 0; d /= 2) {
    float high = __shfl_xor_sync(0xffffffffu, sum.high, d), low = __shfl_xor_sync(0xffffffffu, sum.low, d);
    Pair next = two_sum(sum.high, high);
    sum = {next.high, __fadd_rn(__fadd_rn(sum.low, low), next.low)};
  }
  if (threadIdx.x == 0) y[blockIdx.x] = __fadd_rn(sum.high, sum.low);
}
