// One ballot for each bit: a warp's vote is a column.
extern "C" __global__ void bits(const unsigned int* x, unsigned int* y, int rows) {
  int r = blockIdx.x * 2 + threadIdx.y, lane = threadIdx.x;
  if (r >= rows) return;
  unsigned int word = x[(size_t)r * 32 + lane], own = 0;
#pragma unroll
  for (int bit = 0; bit < 32; ++bit) {
    unsigned int column = __ballot_sync(0xffffffffu, word >> bit & 1u);
    if (lane == bit) own = column;
  }
  y[(size_t)r * 32 + lane] = own;
}
