// Level 3 means unseen. Vertices of level 1 push their neighbours to level 2; the output begins as a copy.
extern "C" __global__ void begin(const int* level, int* next, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) next[i] = level[i] == 3 ? 0 : level[i];
}
extern "C" __global__ void expand(const int* level, const int* edges, int* next, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || level[i] != 1) return;
  const int4* out = reinterpret_cast<const int4*>(edges + (size_t)i * 8);
  int4 a = out[0], b = out[1];
  int to[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
  for (int e = 0; e < 8; ++e) if (level[to[e]] == 3) atomicMax(&next[to[e]], 2);
}
