// Half precision: IEEE 754 binary16 and pairs of it.
#pragma once
#include "muster_narrow.h"
#include "muster_narrow_names.h"

#define NARROW __half
#define NARROW2 __half2
#define NARROW_RAW __half_raw
#define NARROW2_RAW __half2_raw
#define NARROW_FORMAT HalfFormat
#ifdef __CUDA_NO_HALF_CONVERSIONS__
#define NARROW_NO_CONVERSIONS
#endif
#ifdef __CUDA_NO_HALF_OPERATORS__
#define NARROW_NO_OPERATORS
#endif
#include "muster_narrow_types.h"

MUSTER_NARROW_NAMES(__half, __half2, half, half2)

using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000U)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
