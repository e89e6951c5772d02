// How many elements of a vector are above 100: one thread for each result.
extern "C" __global__ void count_above(const int* x, int* y, int n) {
  int count = 0;
  for (int i = 0; i < n; ++i) count += x[i] > 100;
  y[0] = count;
}
