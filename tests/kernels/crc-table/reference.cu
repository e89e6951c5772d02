// CRC-32 of each row of bytes: bit by bit (ISO 3309, reflected); one thread for each row.
extern "C" __global__ void crc(const unsigned char* x, unsigned int* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  unsigned int crc = 0xffffffffu;
  for (int i = 0; i < n; ++i) {
    crc ^= x[(size_t)r * n + i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1u ? 0xedb88320u : 0u);
  }
  y[r] = ~crc;
}
