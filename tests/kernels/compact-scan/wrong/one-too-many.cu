// Wrong: the count reads one element beyond the end.
extern "C" __global__ void count_kept(const int* x, int* kept, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  int all = __syncthreads_count(i <= n && x[i] > 0);
  if (threadIdx.x == 0) kept[blockIdx.x] = all;
}
extern "C" __global__ void move_kept(const int* x, const int* kept, int* y, int* count, int n) {
  __shared__ int warps[8], before[8];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, i = blockIdx.x * 256 + t;
  int earlier = 0;
  for (int b = t; b < (int)blockIdx.x; b += 256) earlier += kept[b];
  earlier = __reduce_add_sync(0xffffffffu, earlier);
  bool keeps = i < n && x[i] > 0;
  unsigned int ballot = __ballot_sync(0xffffffffu, keeps);
  if (lane == 0) {
    before[warp] = earlier;
    warps[warp] = __popc(ballot);
  }
  __syncthreads();
  int at = __popc(ballot & ((1u << lane) - 1u));
  for (int w = 0; w < 8; ++w) at += before[w] + (w < warp ? warps[w] : 0);
  if (keeps) y[at] = x[i];
  if (t == 255 && blockIdx.x == gridDim.x - 1) *count = at + keeps;
}
