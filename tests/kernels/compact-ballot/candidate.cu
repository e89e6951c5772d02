// A warp a row: ballots give every lane its place.
extern "C" __global__ void compact(const int* x, int* y, int* count, int rows, int n) {
  int lane = threadIdx.x & 31, r = blockIdx.x;
  const int* row = x + (size_t)r * n;
  int* out = y + (size_t)r * n;
  int kept = 0;
  for (int base = 0; base < n; base += 32) {
    int v = base + lane < n ? row[base + lane] : 0;
    unsigned ballot = __ballot_sync(0xffffffffu, v > 0);
    if (v > 0) out[kept + __popc(ballot & ((1u << lane) - 1u))] = v;
    kept += __popc(ballot);
  }
  __syncwarp();
  for (int i = kept + lane; i < n; i += 32) out[i] = 0;
  if (lane == 0) count[r] = kept;
}
