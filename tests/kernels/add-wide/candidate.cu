// A warp a number: who makes a carry and who passes one on are two ballots, and their sum carries for all words at once.
extern "C" __global__ void add_wide(const unsigned int* a, const unsigned int* b, unsigned int* y, int rows) {
  size_t at = (size_t)blockIdx.x * 32 + threadIdx.x;
  unsigned int left = a[at], sum = left + b[at];
  unsigned int makes = __ballot_sync(0xffffffffu, sum < left);
  unsigned int passes = __ballot_sync(0xffffffffu, sum == 0xffffffffu);
  unsigned int carries = (makes << 1) + passes ^ passes;
  y[at] = sum + (carries >> threadIdx.x & 1u);
}
