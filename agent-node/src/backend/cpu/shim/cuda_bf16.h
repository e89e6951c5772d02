// Bfloat16: eight exponent and seven mantissa bits, and pairs of it.
#pragma once
#include "muster_narrow.h"
#include "muster_narrow_names.h"

#define NARROW __nv_bfloat16
#define NARROW2 __nv_bfloat162
#define NARROW_RAW __nv_bfloat16_raw
#define NARROW2_RAW __nv_bfloat162_raw
#define NARROW_FORMAT Bfloat16Format
#ifdef __CUDA_NO_BFLOAT16_CONVERSIONS__
#define NARROW_NO_CONVERSIONS
#endif
#ifdef __CUDA_NO_BFLOAT16_OPERATORS__
#define NARROW_NO_OPERATORS
#endif
#include "muster_narrow_types.h"

MUSTER_NARROW_NAMES(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
