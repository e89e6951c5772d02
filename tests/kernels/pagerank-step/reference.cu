// One step of page rank over a graph of eight links into each page: one thread for each page, in double precision.
extern "C" __global__ void rank_step(const int* from, const int* links, const float* x, float* y, int n) {
  int page = blockIdx.x * blockDim.x + threadIdx.x;
  if (page >= n) return;
  double sum = 0;
  for (int e = 0; e < 8; ++e) {
    int other = from[page * 8 + e];
    sum += (double)x[other] / links[other];
  }
  y[page] = (float)(0.15 / n + 0.85 * sum);
}
