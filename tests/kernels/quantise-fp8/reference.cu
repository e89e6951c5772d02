// Numbers to the codes of E4M3 and back: one thread for each result.
extern "C" __global__ void quantise(const float* x, unsigned char* code, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = fabs((double)x[i]);
  int exponent = v < 0.015625 ? -6 : ilogb(v);
  double unit = ldexp(1.0, exponent - 3), value = rint(v / unit) * unit;
  if (value > 448) value = 448;
  exponent = value < 0.015625 ? -6 : ilogb(value);
  int digits = (int)(value / ldexp(1.0, exponent - 3));
  int sign = x[i] < 0 || (x[i] == 0 && signbit(x[i]));
  code[i] = (unsigned char)(sign << 7 | (value < 0.015625 ? digits : (exponent + 7) << 3 | (digits & 7)));
  y[i] = (float)(sign ? -value : value);
}
