// Four products an instruction, the reduction of the warp in one more where the device has it.
extern "C" __global__ void gemv_int8(const signed char* a, const signed char* x, int* y, int rows, int k) {
  int lane = threadIdx.x, r = blockIdx.x * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  const int* left = reinterpret_cast<const int*>(a + (size_t)r * k);
  const int* right = reinterpret_cast<const int*>(x);
  int sum = 0;
  for (int i = lane; i < k / 4; i += 32) sum = __dp4a(left[i], right[i], sum);
#if __CUDA_ARCH__ >= 800 || defined(__MUSTER_CPU__)
  sum = __reduce_add_sync(0xffffffffu, sum);
#else
  for (int with = 16; with; with >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, with);
#endif
  if (lane == 0) y[r] = sum;
}
