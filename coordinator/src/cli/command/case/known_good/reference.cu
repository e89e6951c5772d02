extern "C" __global__ void saxpy(const float* x, const float* y, float* z, float a, int n) {
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) z[i] = a * x[i] + y[i];
}
