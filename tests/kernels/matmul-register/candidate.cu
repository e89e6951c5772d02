// Every thread holds four by four results; tiles of 32 by 32 are loaded as vectors of four.
extern "C" __global__ void matmul_register(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) float as[32][36];
  __shared__ __align__(16) float bs[32][32];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 8 + tx;
  int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
  float acc[4][4] = {};
  for (int base = 0; base < k; base += 32) {
    for (int v = t; v < 256; v += 64) {
      int r = v / 8, q = v % 8 * 4;
      float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
      bool in_a = row0 + r < m && base + q < k, in_b = base + r < k && col0 + q < n;
      float4 from_a = in_a ? *reinterpret_cast<const float4*>(&a[(size_t)(row0 + r) * k + base + q]) : zero;
      float4 from_b = in_b ? *reinterpret_cast<const float4*>(&b[(size_t)(base + r) * n + col0 + q]) : zero;
      *reinterpret_cast<float4*>(&as[r][q]) = from_a;
      *reinterpret_cast<float4*>(&bs[r][q]) = from_b;
    }
    __syncthreads();
    for (int i = 0; i < 32; ++i) {
      float4 bv = *reinterpret_cast<const float4*>(&bs[i][tx * 4]);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float av = as[ty * 4 + r][i];
        acc[r][0] += av * bv.x; acc[r][1] += av * bv.y; acc[r][2] += av * bv.z; acc[r][3] += av * bv.w;
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r) {
    int row = row0 + ty * 4 + r, col = col0 + tx * 4;
    if (row < m && col < n)
      *reinterpret_cast<float4*>(&c[(size_t)row * n + col]) = make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
  }
}
