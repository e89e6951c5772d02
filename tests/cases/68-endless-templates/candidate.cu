template <int N> struct F { static const int v = F<N - 1>::v + F<N - 2>::v; };
extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * F<-5>::v;
}
