// Wrong: sums are added to while others still set them to zero.
extern "C" __global__ void cluster(const int* x, const int* centre, int* label, unsigned int* count, int* sum, int n) {
  __shared__ int4 centres[12];
  __shared__ int gathered[12][5];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  if (t < 12) centres[t] = reinterpret_cast<const int4*>(centre)[t];
  if (t < 60) gathered[t / 5][t % 5] = 0;
  
  if (i < n) {
    int4 p = reinterpret_cast<const int4*>(x)[i];
    int best = 0, least = 0x7fffffff;
#pragma unroll 4
    for (int c = 0; c < 12; ++c) {
      int4 m = centres[c];
      int dx = p.x - m.x, dy = p.y - m.y, dz = p.z - m.z, dw = p.w - m.w;
      int square = dx * dx + dy * dy + dz * dz + dw * dw;
      if (square < least) { least = square; best = c; }
    }
    label[i] = best;
    atomicAdd(&gathered[best][0], p.x);
    atomicAdd(&gathered[best][1], p.y);
    atomicAdd(&gathered[best][2], p.z);
    atomicAdd(&gathered[best][3], p.w);
    atomicAdd(&gathered[best][4], 1);
  }
  __syncthreads();
  if (t < 48) atomicAdd(&sum[t], gathered[t / 4][t % 4]);
  if (t >= 64 && t < 76) atomicAdd(&count[t - 64], (unsigned int)gathered[t - 64][4]);
}
