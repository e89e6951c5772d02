// Four elements a lane: two rounds in registers, five between lanes.
extern "C" __global__ void hadamard(const float* x, float* y, int rows) {
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  if (r >= rows) return;
  float4 v = reinterpret_cast<const float4*>(x + (size_t)r * 128)[lane];
  v = make_float4(v.x + v.y, v.x - v.y, v.z + v.w, v.z - v.w);
  v = make_float4(v.x + v.z, v.y + v.w, v.x - v.z, v.y - v.w);
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    float sign = lane & d ? -1.f : 1.f;
    v.x = fmaf(sign, v.x, __shfl_xor_sync(0xffffffffu, v.x, d));
    v.y = fmaf(sign, v.y, __shfl_xor_sync(0xffffffffu, v.y, d));
    v.z = fmaf(sign, v.z, __shfl_xor_sync(0xffffffffu, v.z, d));
    v.w = fmaf(sign, v.w, __shfl_xor_sync(0xffffffffu, v.w, d));
  }
  reinterpret_cast<float4*>(y + (size_t)r * 128)[lane] = v;
}
