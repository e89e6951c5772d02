// Wrong: lanes behind the end of the last row read too.
extern "C" __global__ void segments(const int* x, const unsigned char* flag, int* y, int rows, int n) {
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x, carry = 0;
  if (r >= rows) return;
  for (int base = 0; base < n; base += 32) {
    size_t at = (size_t)r * n + base + lane;
    bool inside = base + lane < n;
    int v = x[at];
    unsigned int heads = __ballot_sync(0xffffffffu, inside && flag[at] == 0);
    unsigned int up_to_here = heads & (0xffffffffu >> (31 - lane));
    int first = up_to_here ? 31 - __clz(up_to_here) : 0;
    for (int d = 1; d < 32; d *= 2) {
      int below = __shfl_up_sync(0xffffffffu, v, d);
      if (lane - d >= first) v += below;
    }
    if (up_to_here == 0) v += carry;
    if (inside) y[at] = v;
    carry = __shfl_sync(0xffffffffu, v, 31);
  }
}
