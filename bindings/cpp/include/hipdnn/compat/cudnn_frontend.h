/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The names of NVIDIA's frontend for cuDNN (its graph interface, version 1): programs written for it compile with this header in
 * its place, and use our classes.
 *
 * Put the folder of this header on the include path, as the CMake target hipdnn::compat does, and keep
 * `#include <cudnn_frontend.h>`. What each call does is with the classes of hipdnn/hipdnn.hpp. Operations that hipDNN does not
 * have are taken, and the graph is refused with GRAPH_NOT_SUPPORTED and their names. Handles are hipDNN's (cudnn.h beside this
 * file); memory and streams are HIP's, or the host's for engines of the processor.
 */
#pragma once

#include "../hipdnn.hpp"
#include "cudnn.h"
#include "cudnn_frontend_version.h"

#include "cudnn_frontend/score_modifiers.hpp"

/* What NVIDIA's frontend brings from the standard library, on which programs rely. */
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
/** Returns an error with a code and a message where a condition holds. */
#define RETURN_CUDNN_FRONTEND_ERROR_IF(condition, code, message)             \
    do                                                                       \
    {                                                                        \
        if (condition)                                                       \
        {                                                                    \
            return ::cudnn_frontend::error_object(code, message);            \
        }                                                                    \
    } while (false)

#ifndef HIPDNN_COMPAT_NO_CUDA_TYPES
/* CUDA's floats of 16 bits, for programs that hold tensors of them on the host. */
using half = ::hipdnn::half;
using __half = ::hipdnn::half;
using nv_bfloat16 = ::hipdnn::bfloat16;
using __nv_bfloat16 = ::hipdnn::bfloat16;
inline float __half2float(half value) { return float(value); }
inline half __float2half(float value) { return half(value); }
#endif
