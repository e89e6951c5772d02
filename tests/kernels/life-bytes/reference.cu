// One generation of the game of life on a torus, the width a multiple of 4: one thread for each result.
extern "C" __global__ void live(const unsigned char* x, unsigned char* y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= w || r >= h) return;
  int around = 0;
  for (int dr = -1; dr <= 1; ++dr)
    for (int dc = -1; dc <= 1; ++dc) if (dr || dc) around += x[(r + dr + h) % h * w + (c + dc + w) % w];
  y[r * w + c] = around == 3 || (around == 2 && x[r * w + c]);
}
