// Wrong: a round begins while others still write the one before.
extern "C" __global__ void recur(const float* a, const float* x, float* y, int rows, int n) {
  __shared__ float2 steps[2][128];
  int t = threadIdx.x;
  size_t row = (size_t)blockIdx.x * n;
  float carry = 0.f;
  for (int base = 0; base < n; base += 128) {
    bool inside = base + t < n;
    float2 own = inside ? make_float2(a[row + base + t], x[row + base + t]) : make_float2(1.f, 0.f);
    int now = 0;
    steps[0][t] = own;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
      float2 later = steps[now][t];
      if (t >= d) {
        float2 earlier = steps[now][t - d];
        later = make_float2(later.x * earlier.x, later.x * earlier.y + later.y);
      }
      steps[now ^ 1][t] = later;
      now ^= 1;
      
    }
    float2 whole = steps[now][t], end = steps[now][127];
    if (inside) y[row + base + t] = whole.x * carry + whole.y;
    carry = end.x * carry + end.y;
    __syncthreads();
  }
}
