// An exchange network in registers: columns sorted, then the median of largest low, middle and least high.
template <class T> __device__ void order(T& a, T& b) {
  T low = min(a, b);
  b = max(a, b);
  a = low;
}
template <class T> __device__ void order(T& a, T& b, T& c) {
  order(a, b);
  order(b, c);
  order(a, b);
}
extern "C" __global__ void median(const unsigned char* x, unsigned char* y, int h, int w) {
  __shared__ unsigned char tile[6][34];
  int left = blockIdx.x * 32 - 1, top = blockIdx.y * 4 - 1;
  for (int k = threadIdx.y * 32 + threadIdx.x; k < 6 * 34; k += 128) {
    int r = top + k / 34, c = left + k % 34;
    tile[k / 34][k % 34] = r >= 0 && r < h && c >= 0 && c < w ? x[(size_t)r * w + c] : 0;
  }
  __syncthreads();
  int i = left + 1 + threadIdx.x, j = top + 1 + threadIdx.y;
  if (i >= w || j >= h) return;
  int v[9];
#pragma unroll
  for (int k = 0; k < 9; ++k) v[k] = tile[threadIdx.y + k / 3][threadIdx.x + k % 3];
  int here = v[4];
  order(v[0], v[3], v[6]);
  order(v[1], v[4], v[7]);
  order(v[2], v[5], v[8]);
  int low = max(max(v[0], v[1]), v[2]), high = min(min(v[6], v[7]), v[8]);
  order(v[3], v[4], v[5]);
  int middle = v[4];
  order(low, middle, high);
  bool rim = i == 0 || j == 0 || i == w - 1 || j == h - 1;
  y[(size_t)j * w + i] = (unsigned char)(rim ? here : middle);
}
