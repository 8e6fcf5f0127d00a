/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The names of NVIDIA's frontend for cuDNN (its graph interface, version 1): programs written for it compile with this header in
 * its place, and use our classes.
 *
 * Put the folder of this header on the include path, as the CMake target hipdnn::compat does, and keep
 * `#include <cudnn_frontend.h>`. Each call is documented with the classes of hipdnn/hipdnn.hpp. Graphs with operations that
 * hipDNN lacks are rejected with GRAPH_NOT_SUPPORTED and the names of the operations. Handles are hipDNN's (cudnn.h beside this
 * file); memory and streams are HIP's, or the host's for CPU engines.
 */
#pragma once

#include "hipdnn_compatibility/cudnn/cudnn_frontend.h"

namespace cudnn_frontend
{
using namespace ::hipdnn_frontend::compatibility::cudnn_frontend;
}

#ifndef HIPDNN_COMPAT_NO_CUDA_TYPES
/* CUDA's 16-bit floats, for programs that hold tensors of them on the host. */
using half = ::hipdnn::half;
using __half = ::hipdnn::half;
using nv_bfloat16 = ::hipdnn::bfloat16;
using __nv_bfloat16 = ::hipdnn::bfloat16;
using __half_raw = ::hipdnn::detail::RawFloat16;
using __nv_bfloat16_raw = ::hipdnn::detail::RawFloat16;
inline float __half2float(half value) { return float(value); }
inline half __float2half(float value) { return half(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return float(value); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
#endif
