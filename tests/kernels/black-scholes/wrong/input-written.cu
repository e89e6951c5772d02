// Wrong: an input is used as a place for a result.
__device__ float below(float v) {
  float u = 1.f / fmaf(0.2316419f, fabsf(v), 1.f);
  float sum = u * (0.31938153f + u * (-0.356563782f + u * (1.781477937f + u * (-1.821255978f + u * 1.330274429f))));
  float beyond = 0.39894228f * expf(-0.5f * v * v) * sum;
  return v > 0.f ? 1.f - beyond : beyond;
}
extern "C" __global__ void price(const float* s, const float* k, const float* t, float* call, float* put, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const_cast<float*>(s)[i] += 0.f; float now = s[i], strike = k[i], years = t[i], root = 0.3f * sqrtf(years);
    float d = (logf(now / strike) + 0.065f * years) / root, later = strike * expf(-0.02f * years);
    float value = now * below(d) - later * below(d - root);
    call[i] = value;
    put[i] = value - now + later;
  }
}
