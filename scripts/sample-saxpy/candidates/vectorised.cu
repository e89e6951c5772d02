// Four elements a thread, loaded and stored as one vector; the last thread takes what is left over.
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 3 < n) {
    float4 from = *reinterpret_cast<const float4*>(x + i);
    float4 to = *reinterpret_cast<const float4*>(y + i);
    to.x = a * from.x + to.x;
    to.y = a * from.y + to.y;
    to.z = a * from.z + to.z;
    to.w = a * from.w + to.w;
    *reinterpret_cast<float4*>(y + i) = to;
    return;
  }
  for (; i < n; ++i) y[i] = a * x[i] + y[i];
}
