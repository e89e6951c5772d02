// Largest element and sum in one pass, as a pair that is merged (Milakov and Gimelshein 2018).
struct Share {
  float most, sum;
  __device__ Share operator+(Share other) const {
    float top = fmaxf(most, other.most);
    return {top, sum * expf(most - top) + other.sum * expf(other.most - top)};
  }
};
extern "C" __global__ void log_softmax(const float* x, float* y, int rows, int n) {
  __shared__ Share warps[4];
  const float* row = x + (size_t)blockIdx.x * n;
  Share own = {-1e30f, 0.f};
  for (int i = threadIdx.x; i < n; i += 128) own = own + Share{row[i], 1.f};
  for (int d = 16; d > 0; d /= 2)
    own = own + Share{__shfl_xor_sync(0xffffffffu, own.most, d), __shfl_xor_sync(0xffffffffu, own.sum, d)};
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  Share all = warps[0] + warps[1] + warps[2] + warps[3];
  float off = all.most + logf(all.sum);
  for (int i = threadIdx.x; i < n; i += 128) y[(size_t)blockIdx.x * n + i] = row[i] - off;
}
