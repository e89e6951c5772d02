// Rounds until a point of the plane escapes, in fixed point: 20 bits behind the point, 60 rounds at most; one thread for each point.
extern "C" __global__ void escape(const int* re, const int* im, int* rounds, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long x = 0, y = 0;
  int round = 0;
  for (; round < 60; ++round) {
    long long xx = x * x >> 20, yy = y * y >> 20;
    if (xx + yy > 4ll << 20) break;
    y = (x * y >> 19) + im[i];
    x = xx - yy + re[i];
  }
  rounds[i] = round;
}
