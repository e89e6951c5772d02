// Vectors of four through the read-only path, streaming stores; operators of the source's own.
__device__ inline float4 operator*(float s, const float4& v) { return make_float4(s * v.x, s * v.y, s * v.z, s * v.w); }
extern "C" __global__ void gather(const float* table, const int* id, float* y, int rows, int n) {
  int r = blockIdx.y * blockDim.y + threadIdx.y, q = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows || q >= n / 4) return;
  const float4* from = reinterpret_cast<const float4*>(table + (size_t)__ldg(&id[r]) * n);
  __stcs(reinterpret_cast<float4*>(y + (size_t)r * n) + q, 0.3f * __ldg(&from[q]));
}
