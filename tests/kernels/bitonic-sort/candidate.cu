// Batcher's bitonic network in shared memory, one pair of elements a thread.
extern "C" __global__ void sort_rows(const float* x, float* y, int rows) {
  __shared__ float s[512];
  int t = threadIdx.x;
  s[t] = x[(size_t)blockIdx.x * 512 + t];
  s[t + 256] = x[(size_t)blockIdx.x * 512 + t + 256];
  for (int size = 2; size <= 512; size <<= 1) {
    for (int stride = size >> 1; stride > 0; stride >>= 1) {
      __syncthreads();
      int low = 2 * t - (t & (stride - 1)), high = low + stride;
      bool ascending = (low & size) == 0;
      float a = s[low], b = s[high];
      if ((a > b) == ascending) { s[low] = b; s[high] = a; }
    }
  }
  __syncthreads();
  y[(size_t)blockIdx.x * 512 + t] = s[t];
  y[(size_t)blockIdx.x * 512 + t + 256] = s[t + 256];
}
