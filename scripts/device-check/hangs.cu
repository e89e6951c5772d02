// Never ends: every thread counts in its own element for ever. For scripts/device-check.sh.
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile float* own = y + (i < n ? i : 0);
    for (;;) *own = a * x[0] + *own;
}
