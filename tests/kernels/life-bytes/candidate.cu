// Four cells in a word: packed additions and comparisons, neighbours by permuting bytes.
__device__ unsigned word(const unsigned char* row, int c, int w) { return *reinterpret_cast<const unsigned*>(row + (c + w) % w); }
__device__ unsigned sum_of_row(const unsigned char* row, int c, int w, bool with_centre) {
  unsigned before = word(row, c - 4, w), here = word(row, c, w), after = word(row, c + 4, w);
  unsigned left = __byte_perm(before, here, 0x6543), right = __byte_perm(here, after, 0x4321);
  unsigned sum = __vadd4(left, right);
  return with_centre ? __vadd4(sum, here) : sum;
}
extern "C" __global__ void live(const unsigned char* x, unsigned char* y, int h, int w) {
  int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4, r = blockIdx.y;
  if (c >= w) return;
  unsigned sum = sum_of_row(x + (r + h - 1) % h * w, c, w, true);
  sum = __vadd4(sum, sum_of_row(x + r * w, c, w, false));
  sum = __vadd4(sum, sum_of_row(x + (r + 1) % h * w, c, w, true));
  unsigned three = __vseteq4(sum, 0x03030303u), two = __vseteq4(sum, 0x02020202u);
  *reinterpret_cast<unsigned*>(y + r * w + c) = three | (two & word(x + r * w, c, w));
}
