// Edit distance of pairs of words of 64 letters: one thread for each result.
extern "C" __global__ void edit_distance(const unsigned char* a, const unsigned char* b, int* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int row[65];
  for (int j = 0; j <= 64; ++j) row[j] = j;
  for (int i = 1; i <= 64; ++i) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= 64; ++j) {
      int change = diagonal + (a[r * 64 + i - 1] != b[r * 64 + j - 1]);
      diagonal = row[j];
      int best = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = change < best ? change : best;
    }
  }
  y[r] = row[64];
}
