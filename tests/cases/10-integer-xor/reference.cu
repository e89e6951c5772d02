extern "C" __global__ void run(const unsigned* x, const unsigned char* k, unsigned* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] ^ k[i & 255];
}
