// A warp a row: the largest magnitude as its bits, which order like the numbers; the scale from its exponent.
extern "C" __global__ void quantise_rows(const float* x, signed char* q, float* scale, int rows, int n) {
  int r = blockIdx.x * 4 + threadIdx.y;
  if (r >= rows) return;
  const float* row = x + (size_t)r * n;
  unsigned int most = 0;
  for (int i = threadIdx.x; i < n; i += 32) most = max(most, __float_as_uint(row[i]) & 0x7fffffffu);
  for (int d = 16; d > 0; d /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, d));
  int exponent = max((int)(most >> 23) - 6, 1);
  float step = __int_as_float(exponent << 23), back = __int_as_float((254 - exponent) << 23);
  for (int i = threadIdx.x; i < n; i += 32) {
    int whole = __float2int_rn(row[i] * back);
    q[(size_t)r * n + i] = (signed char)min(max(whole, -127), 127);
  }
  if (threadIdx.x == 0) scale[r] = step;
}
