// Discrete Fourier transform of rows of 256 complex numbers: one thread for each result.
extern "C" __global__ void transform(const float* x, float* y, int rows) {
  int r = blockIdx.x, f = threadIdx.x;
  double real = 0, imaginary = 0;
  for (int t = 0; t < 256; ++t) {
    double angle = -0.02454369260617026 * (f * t % 256), a = x[(r * 256 + t) * 2], b = x[(r * 256 + t) * 2 + 1];
    real += a * cos(angle) - b * sin(angle);
    imaginary += a * sin(angle) + b * cos(angle);
  }
  y[(r * 256 + f) * 2] = (float)real;
  y[(r * 256 + f) * 2 + 1] = (float)imaginary;
}
