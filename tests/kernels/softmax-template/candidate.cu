// One function for every reduction of a block, over a functor with its neutral element.
namespace detail {
struct Larger { static constexpr float neutral = -3.402823466e+38f; __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };
struct Sum { static constexpr float neutral = 0.f; __device__ float operator()(float a, float b) const { return a + b; } };
template <class Step, int THREADS> __device__ float over_block(float v, Step step = Step()) {
  __shared__ float parts[THREADS / 32];
  for (int with = 16; with; with >>= 1) v = step(v, __shfl_xor_sync(0xffffffffu, v, with));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = Step::neutral;
  for (float part : parts) v = step(v, part);
  __syncthreads();
  return v;
}
}
extern "C" __global__ void softmax(const float* x, float* y, int rows, int n) {
  const float* row = x + (size_t)blockIdx.x * n;
  float most = detail::Larger::neutral, sum = 0.f;
  for (int i = threadIdx.x; i < n; i += 128) most = max(most, row[i]);
  most = detail::over_block<detail::Larger, 128>(most);
  for (int i = threadIdx.x; i < n; i += 128) sum += __expf(row[i] - most);
  sum = detail::over_block<detail::Sum, 128>(sum);
  for (int i = threadIdx.x; i < n; i += 128) y[(size_t)blockIdx.x * n + i] = __fdividef(__expf(row[i] - most), sum);
}
