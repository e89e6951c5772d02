// Prices of European options, calls and puts: one thread for each option, in double precision.
__device__ double below(double v) { return 0.5 * erfc(-v * 0.70710678118654752); }
extern "C" __global__ void price(const float* s, const float* k, const float* t, float* call, float* put, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double root = 0.3 * sqrt((double)t[i]), d = (log((double)s[i] / k[i]) + (0.02 + 0.045) * t[i]) / root;
  double later = k[i] * exp(-0.02 * t[i]), value = s[i] * below(d) - later * below(d - root);
  call[i] = (float)value;
  put[i] = (float)(value - s[i] + later);
}
