// A warp a query, a lane a feature; the softmax is kept up to date key by key (Milakov and Gimelshein 2018).
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int s) {
  int lane = threadIdx.x, i = blockIdx.x * blockDim.y + threadIdx.y;
  if (i >= s) return;
  float mine = q[i * 32 + lane] * 0.17677669529663687f, most = -__int_as_float(0x7f800000), sum = 0.f, out = 0.f;
  for (int j = 0; j < s; ++j) {
    float dot = mine * k[j * 32 + lane];
    for (int with = 16; with; with >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, with);
    float above = fmaxf(most, dot), keep = __expf(most - above), weight = __expf(dot - above);
    sum = sum * keep + weight;
    out = out * keep + weight * v[j * 32 + lane];
    most = above;
  }
  o[i * 32 + lane] = __fdividef(out, sum);
}
