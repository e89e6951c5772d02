// One step of connected components: the least label along edges: one thread for each vertex.
extern "C" __global__ void spread(const int* label, const int* ends, int* next, int n, int e) {
  int vertex = blockIdx.x * blockDim.x + threadIdx.x;
  if (vertex >= n) return;
  int least = label[vertex];
  for (int i = 0; i < e; ++i) {
    if (ends[2 * i] == vertex) least = min(least, label[ends[2 * i + 1]]);
    if (ends[2 * i + 1] == vertex) least = min(least, label[ends[2 * i]]);
  }
  next[vertex] = least;
}
