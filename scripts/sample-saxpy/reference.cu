// The trusted implementation: computed in double precision and rounded once.
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = static_cast<float>(static_cast<double>(a) * static_cast<double>(x[i]) + static_cast<double>(y[i]));
}
