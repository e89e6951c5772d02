// Wrong: lanes behind the end of a row write too.
extern "C" __global__ void rows(const unsigned char* x, unsigned int* y, int w) {
  size_t row = (size_t)blockIdx.x * w;
  unsigned int carry = 0;
  for (int base = 0; base < w; base += 32) {
    int i = base + threadIdx.x;
    unsigned int v = i < w ? x[row + i] : 0;
    for (int d = 1; d < 32; d *= 2) {
      unsigned int left = __shfl_up_sync(0xffffffffu, v, d);
      v += threadIdx.x >= d ? left : 0;
    }
    y[row + i] = carry + v;
    carry += __shfl_sync(0xffffffffu, v, 31);
  }
}
extern "C" __global__ void columns(unsigned int* y, int h, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= w) return;
  unsigned int sum = 0;
  for (int j = 0; j < h; ++j) y[(size_t)j * w + i] = sum += y[(size_t)j * w + i];
}
