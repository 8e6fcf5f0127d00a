/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The names of NVIDIA's frontend in the namespace of AMD's header for programs that were written for cuDNN. Programs name it as
 * they like: `namespace cudnn_frontend = hipdnn_frontend::compatibility::cudnn_frontend`.
 */
#pragma once

#include "../../../hipdnn.hpp"
#include "../../cudnn_frontend_version.h"
#include "cudnn.h"

#include "../../cudnn_frontend/score_modifiers.hpp"

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
            return ::hipdnn::Error(code, message);            \
        }                                                                    \
    } while (false)
