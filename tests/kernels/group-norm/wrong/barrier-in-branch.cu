// Wrong: a barrier that half of the threads reach.
struct Part {
  float count, mean, square;
  __device__ void take(float v) {
    count += 1.f;
    float off = v - mean;
    mean += off / count;
    square += off * (v - mean);
  }
  __device__ Part with(Part other) const {
    float all = count + other.count;
    if (all == 0.f) return *this;
    float off = other.mean - mean, share = other.count / all;
    return {all, mean + off * share, square + other.square + off * off * count * share};
  }
};
extern "C" __global__ void group_norm(const float* x, const float* g, const float* b, float* y, int n, int c, int s) {
  __shared__ Part parts[128];
  int t = threadIdx.x, first = blockIdx.x * 4 % c;
  const float* from = x + (size_t)blockIdx.x * 4 * s;
  float* to = y + (size_t)blockIdx.x * 4 * s;
  Part own = {0.f, 0.f, 0.f};
  for (int i = t; i < 4 * s; i += 128) own.take(from[i]);
  parts[t] = own;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) {
      parts[t] = parts[t].with(parts[t + half]);
      __syncthreads();
    }
  }
  float mean = parts[0].mean, scale = rsqrtf(parts[0].square / parts[0].count + 1e-5f);
  for (int i = t; i < 4 * s; i += 128) to[i] = (from[i] - mean) * scale * g[first + i / s] + b[first + i / s];
}
