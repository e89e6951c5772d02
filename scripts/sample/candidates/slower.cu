// Slower: compensated summation (Kahan) is more exact than anybody asked for, and each step waits for four
// additions in a row.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  float lost = 0.0f;
  for (int i = 0; i < k; ++i) {
    float term = a[row * k + i] * b[i * n + column] - lost;
    float next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  c[row * n + column] = sum;
}
