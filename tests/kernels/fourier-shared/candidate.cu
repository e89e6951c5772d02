// Cooley and Tukey (1965), radix two, in shared memory; the order of inputs is that of reversed bits.
__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
extern "C" __global__ void transform(const float* x, float* y, int rows) {
  __shared__ float2 s[256];
  const float2* from = reinterpret_cast<const float2*>(x) + blockIdx.x * 256;
  float2* to = reinterpret_cast<float2*>(y) + blockIdx.x * 256;
  for (int i = threadIdx.x; i < 256; i += 128) s[__brev((unsigned)i) >> 24] = from[i];
  __syncthreads();
  for (int half = 1; half < 256; half *= 2) {
    int k = threadIdx.x & (half - 1), low = 2 * threadIdx.x - k;
    float2 turn;
    sincospif(-(float)k / half, &turn.y, &turn.x);
    float2 a = s[low], b = times(s[low + half], turn);
    s[low] = make_float2(a.x + b.x, a.y + b.y);
    s[low + half] = make_float2(a.x - b.x, a.y - b.y);
    __syncthreads();
  }
  for (int i = threadIdx.x; i < 256; i += 128) to[i] = s[i];
}
