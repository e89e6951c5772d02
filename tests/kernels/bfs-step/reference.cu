// One step of a breadth-first search over a graph of eight neighbours: one thread for each result.
extern "C" __global__ void expand(const int* level, const int* edges, int* next, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int reached = level[i] == 3 ? 0 : level[i];
  if (level[i] == 3)
    for (int j = 0; j < n; ++j) {
      if (level[j] != 1) continue;
      for (int e = 0; e < 8; ++e) if (edges[j * 8 + e] == i) reached = 2;
    }
  next[i] = reached;
}
