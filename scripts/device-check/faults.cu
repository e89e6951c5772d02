// Writes to an address that nothing lies at. For scripts/device-check.sh.
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) *(volatile float*)(unsigned long long)(16 + 4 * n) = a * x[i] + y[i];
}
