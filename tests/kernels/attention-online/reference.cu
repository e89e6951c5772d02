// Attention of one head, 32 features: one thread for each result.
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s) return;
  double most = -1e300, sum = 0, out[32] = {};
  for (int pass = 0; pass < 2; ++pass)
    for (int j = 0; j < s; ++j) {
      double dot = 0;
      for (int d = 0; d < 32; ++d) dot += (double)q[i * 32 + d] * k[j * 32 + d];
      dot *= 0.17677669529663687;
      if (pass == 0) { most = dot > most ? dot : most; continue; }
      double weight = exp(dot - most);
      sum += weight;
      for (int d = 0; d < 32; ++d) out[d] += weight * v[j * 32 + d];
    }
  for (int d = 0; d < 32; ++d) o[i * 32 + d] = (float)(out[d] / sum);
}
