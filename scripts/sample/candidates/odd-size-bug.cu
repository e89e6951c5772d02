// Wrong only at odd sizes: each thread computes two neighbouring columns, and the last column of an odd n has no
// neighbour, so it is never written.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column + 1 >= n) return;
  float first = 0.0f;
  float second = 0.0f;
  for (int i = 0; i < k; ++i) {
    float left = a[row * k + i];
    first += left * b[i * n + column];
    second += left * b[i * n + column + 1];
  }
  c[row * n + column] = first;
  c[row * n + column + 1] = second;
}
