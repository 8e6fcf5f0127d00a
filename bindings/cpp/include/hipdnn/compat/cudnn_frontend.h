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

#include "../hipdnn.hpp"
#include "cudnn.h"
#include "cudnn_frontend_version.h"

#include "cudnn_frontend/score_modifiers.hpp"

/* Parts of the standard library that NVIDIA's frontend includes, and programs rely on. */
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <unordered_set>

/** Returns the error of a call that failed. */
#define CHECK_CUDNN_FRONTEND_ERROR(call) HIPDNN_CPP_TRY(call)
/** Returns an error with a code and a message if a condition holds. */
#define RETURN_CUDNN_FRONTEND_ERROR_IF(condition, code, message)             \
    do                                                                       \
    {                                                                        \
        if (condition)                                                       \
        {                                                                    \
            return ::cudnn_frontend::error_object(code, message);            \
        }                                                                    \
    } while (false)

#ifndef HIPDNN_COMPAT_NO_CUDA_TYPES
/* CUDA's 16-bit floats, for programs that hold tensors of them on the host. */
using half = ::hipdnn::half;
using __half = ::hipdnn::half;
using nv_bfloat16 = ::hipdnn::bfloat16;
using __nv_bfloat16 = ::hipdnn::bfloat16;
inline float __half2float(half value) { return float(value); }
inline half __float2half(float value) { return half(value); }
#endif
