// Wrong: runs are merged while they are still being written.
__device__ int place(const int* run, int length, int v, bool after_equals) {
  int low = 0, high = length;
  while (low < high) {
    int middle = (low + high) / 2;
    if (run[middle] < v || (after_equals && run[middle] == v)) low = middle + 1;
    else high = middle;
  }
  return low;
}
extern "C" __global__ void merge_rows(const int* x, int* y, int rows) {
  __shared__ int buffers[2][256];
  int t = threadIdx.x;
  int* from = buffers[0];
  int* to = buffers[1];
  from[t] = x[(size_t)blockIdx.x * 256 + t];
  __syncthreads();
  for (int width = 1; width < 256; width *= 2) {
    int run = t / width, start = run * width, other = (run ^ 1) * width;
    bool is_right = run & 1;
    int at = min(start, other) + (t - start) + place(from + other, width, from[t], is_right);
    to[at] = from[t];
    
    int* swap = from;
    from = to;
    to = swap;
  }
  y[(size_t)blockIdx.x * 256 + t] = from[t];
}
