// Rows of numbers as 8-bit integers with a power of two as their scale: the least scale that keeps all within 128, nearest even; one thread for each row.
extern "C" __global__ void quantise_rows(const float* x, signed char* q, float* scale, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float most = 0.f;
  for (int i = 0; i < n; ++i) most = fmaxf(most, fabsf(x[(size_t)r * n + i]));
  float step = 1.1754943508222875e-38f;
  while (step * 128.f <= most) step *= 2.f;
  for (int i = 0; i < n; ++i) {
    float whole = rintf(x[(size_t)r * n + i] / step);
    q[(size_t)r * n + i] = (signed char)fminf(fmaxf(whole, -127.f), 127.f);
  }
  scale[r] = step;
}
