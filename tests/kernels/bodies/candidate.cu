// Bodies in tiles of shared memory, positions and mass as a vector of four.
__device__ inline float3 pull(float4 from, float4 to, float3 sum) {
  float3 d = make_float3(to.x - from.x, to.y - from.y, to.z - from.z);
  float inverse = rsqrtf(fmaf(d.x, d.x, fmaf(d.y, d.y, fmaf(d.z, d.z, 0.01f))));
  float force = to.w * inverse * inverse * inverse;
  return make_float3(fmaf(force, d.x, sum.x), fmaf(force, d.y, sum.y), fmaf(force, d.z, sum.z));
}
extern "C" __global__ void accelerate(const float* p, float* a, int n) {
  __shared__ float4 tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  const float4* bodies = reinterpret_cast<const float4*>(p);
  float4 mine = i < n ? bodies[i] : float4{0.f, 0.f, 0.f, 0.f};
  float3 sum{};
  for (int base = 0; base < n; base += 128) {
    tile[threadIdx.x] = base + threadIdx.x < n ? bodies[base + threadIdx.x] : make_float4(0.f, 0.f, 0.f, 0.f);
    __syncthreads();
    for (int j = 0; j < 128; ++j) sum = pull(mine, tile[j], sum);
    __syncthreads();
  }
  if (i < n) reinterpret_cast<float4*>(a)[i] = make_float4(sum.x, sum.y, sum.z, 0.f);
}
