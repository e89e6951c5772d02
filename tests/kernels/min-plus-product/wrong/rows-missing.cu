// Wrong: a quarter of the tile is never loaded.
struct Tropical {
  static __device__ int zero() { return 0x3fffffff; }
  static __device__ int add(int a, int b) { return min(a, b); }
  static __device__ int multiply(int a, int b) { return a + b; }
};
template <class S> __device__ void product(const int* a, const int* b, int* c, int m, int n, int k) {
  __shared__ int left[8][32], right[32][32];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 32 + tx;
  int sum = S::zero();
  for (int base = 0; base < k; base += 32) {
    left[ty][tx] = row < m && base + tx < k ? a[(size_t)row * k + base + tx] : S::zero();
    for (int r = ty; r < 24; r += 8)
      right[r][tx] = base + r < k && col < n ? b[(size_t)(base + r) * n + col] : S::zero();
    __syncthreads();
    for (int i = 0; i < 32; ++i) sum = S::add(sum, S::multiply(left[ty][i], right[i][tx]));
    __syncthreads();
  }
  if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
extern "C" __global__ void shortest(const int* a, const int* b, int* c, int m, int n, int k) { product<Tropical>(a, b, c, m, n, k); }
