// Warps take points as they get free; a warp is done when none of its lanes goes on.
extern "C" __global__ void escape(const int* re, const int* im, int* rounds, int n) {
  int lane = threadIdx.x, warp = blockIdx.x * 4 + threadIdx.y;
  for (int base = warp * 32; base < n; base += 16 * 32) {
    int i = base + lane, round = 0;
    bool on = i < n;
    long long x = 0, y = 0, cx = on ? re[i] : 0, cy = on ? im[i] : 0;
    while (__any_sync(0xffffffffu, on)) {
      long long xx = x * x >> 20, yy = y * y >> 20;
      if (xx + yy > 4ll << 20 || round == 60) on = false;
      if (on) {
        y = (x * y >> 19) + cy;
        x = xx - yy + cx;
        ++round;
      }
    }
    if (i < n) rounds[i] = round;
  }
}
