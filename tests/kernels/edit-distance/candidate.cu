// A wavefront over the diagonals, a thread a column (Wagner and Fischer 1974).
extern "C" __global__ void edit_distance(const unsigned char* a, const unsigned char* b, int* y, int rows) {
  __shared__ short d[3][65];
  int j = threadIdx.x + 1, r = blockIdx.x;
  unsigned char letter = b[r * 64 + j - 1];
  for (int wave = 0; wave <= 128; ++wave) {
    short* now = d[wave % 3];
    const short* before = d[(wave + 2) % 3];
    const short* two = d[(wave + 1) % 3];
    int i = wave - j;
    if (threadIdx.x == 0 && wave <= 64) now[0] = wave;
    if (i == 0) now[j] = j;
    if (i >= 1 && i <= 64) {
      int change = two[j - 1] + (a[r * 64 + i - 1] != letter);
      now[j] = min(change, min(before[j], before[j - 1]) + 1);
    }
    __syncthreads();
  }
  if (threadIdx.x == 63) y[r] = d[128 % 3][64];
}
