// Features that this device refuses by name, so that a candidate is told what it asked for and where.
#pragma once

#define MUSTER_NO_FUNCTION(NAME, FEATURE, HINT)                                                                      \
  template <class... A> MUSTER_REFUSED("not_implemented_here", FEATURE, HINT) int NAME(A...);

// Decisions of a candidate by the time it took would differ from device to device.
#define MUSTER_NO_CLOCK "time is taken outside the kernel: leave the clock out, or offer this candidate to an NVIDIA device class"
MUSTER_REFUSED("not_implemented_here", "clock64", MUSTER_NO_CLOCK) long long clock64();
MUSTER_REFUSED("not_implemented_here", "clock", MUSTER_NO_CLOCK) long long muster_clock();
#define clock() muster_clock()

#define MUSTER_NO_TEXTURE "read the buffer directly, or offer this candidate to an NVIDIA device class"
#define MUSTER_NO_TEXTURE_FUNCTION(NAME)                                                                             \
  template <class T, class... A> MUSTER_REFUSED("not_implemented_here", "textures and surfaces", MUSTER_NO_TEXTURE)  \
  T NAME(A...);
MUSTER_NO_TEXTURE_FUNCTION(tex1Dfetch)
MUSTER_NO_TEXTURE_FUNCTION(tex1D)
MUSTER_NO_TEXTURE_FUNCTION(tex2D)
MUSTER_NO_TEXTURE_FUNCTION(tex3D)
MUSTER_NO_TEXTURE_FUNCTION(tex1DLayered)
MUSTER_NO_TEXTURE_FUNCTION(tex2DLayered)
MUSTER_NO_TEXTURE_FUNCTION(tex2DLod)
MUSTER_NO_TEXTURE_FUNCTION(tex3DLod)
MUSTER_NO_TEXTURE_FUNCTION(tex2Dgather)
MUSTER_NO_TEXTURE_FUNCTION(texCubemap)
MUSTER_NO_TEXTURE_FUNCTION(surf1Dread)
MUSTER_NO_TEXTURE_FUNCTION(surf2Dread)
MUSTER_NO_TEXTURE_FUNCTION(surf3Dread)
MUSTER_NO_FUNCTION(surf1Dwrite, "textures and surfaces", MUSTER_NO_TEXTURE)
MUSTER_NO_FUNCTION(surf2Dwrite, "textures and surfaces", MUSTER_NO_TEXTURE)
MUSTER_NO_FUNCTION(surf3Dwrite, "textures and surfaces", MUSTER_NO_TEXTURE)
typedef unsigned long long cudaTextureObject_t
    MUSTER_REFUSED("not_implemented_here", "textures and surfaces", MUSTER_NO_TEXTURE);
typedef unsigned long long cudaSurfaceObject_t
    MUSTER_REFUSED("not_implemented_here", "textures and surfaces", MUSTER_NO_TEXTURE);

#define MUSTER_NO_HOST "leave host code out: the launch plan names the kernels to run, and their order"
#define MUSTER_NO_RUNTIME(NAME) MUSTER_NO_FUNCTION(NAME, "the CUDA runtime interface", MUSTER_NO_HOST)
MUSTER_NO_RUNTIME(cudaDeviceSynchronize)
MUSTER_NO_RUNTIME(cudaEventCreate)
MUSTER_NO_RUNTIME(cudaEventRecord)
MUSTER_NO_RUNTIME(cudaFree)
MUSTER_NO_RUNTIME(cudaFuncSetAttribute)
MUSTER_NO_RUNTIME(cudaGetDevice)
MUSTER_NO_RUNTIME(cudaGetErrorString)
MUSTER_NO_RUNTIME(cudaGetLastError)
MUSTER_NO_RUNTIME(cudaLaunchCooperativeKernel)
MUSTER_NO_RUNTIME(cudaLaunchKernel)
MUSTER_NO_RUNTIME(cudaLaunchKernelEx)
MUSTER_NO_RUNTIME(cudaMalloc)
MUSTER_NO_RUNTIME(cudaMallocManaged)
MUSTER_NO_RUNTIME(cudaMemcpy)
MUSTER_NO_RUNTIME(cudaMemcpyAsync)
MUSTER_NO_RUNTIME(cudaMemcpyFromSymbol)
MUSTER_NO_RUNTIME(cudaMemcpyToSymbol)
MUSTER_NO_RUNTIME(cudaMemset)
MUSTER_NO_RUNTIME(cudaMemsetAsync)
MUSTER_NO_RUNTIME(cudaPeekAtLastError)
MUSTER_NO_RUNTIME(cudaSetDevice)
MUSTER_NO_RUNTIME(cudaStreamCreate)
MUSTER_NO_RUNTIME(cudaStreamCreateWithFlags)
MUSTER_NO_RUNTIME(cudaStreamSynchronize)
MUSTER_NO_RUNTIME(cudaGridDependencySynchronize)
MUSTER_NO_RUNTIME(cudaTriggerProgrammaticLaunchCompletion)
typedef int cudaError_t MUSTER_REFUSED("not_implemented_here", "the CUDA runtime interface", MUSTER_NO_HOST);
typedef struct muster_stream* cudaStream_t
    MUSTER_REFUSED("not_implemented_here", "the CUDA runtime interface", MUSTER_NO_HOST);
typedef struct muster_event* cudaEvent_t
    MUSTER_REFUSED("not_implemented_here", "the CUDA runtime interface", MUSTER_NO_HOST);
