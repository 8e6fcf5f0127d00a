/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The macros of AMD's frontend that return errors from the calling function.
 */
#pragma once

#include "../../cpp/error.hpp"

/** Returns the error of a call that failed. */
#define HIPDNN_CHECK_ERROR(call) HIPDNN_CPP_TRY(call)
#define HIPDNN_FE_TRY(call) HIPDNN_CPP_TRY(call)

/* Return an error with this code and message if the condition holds. */
#define HIPDNN_RETURN_IF_TRUE(condition, error_code, message)       \
    do                                                              \
    {                                                               \
        if (condition)                                              \
        {                                                           \
            return ::hipdnn::Error(error_code, message);            \
        }                                                           \
    } while (false)
#define HIPDNN_RETURN_IF_FALSE(condition, error_code, message) HIPDNN_RETURN_IF_TRUE(!(condition), error_code, message)
#define HIPDNN_RETURN_IF_NULL(pointer, error_code, message) HIPDNN_RETURN_IF_TRUE((pointer) == nullptr, error_code, message)
#define HIPDNN_RETURN_IF_NE(a, b, error_code, message) HIPDNN_RETURN_IF_TRUE((a) != (b), error_code, message)
#define HIPDNN_RETURN_IF_EQ(a, b, error_code, message) HIPDNN_RETURN_IF_TRUE((a) == (b), error_code, message)
#define HIPDNN_RETURN_IF_LT(a, b, error_code, message) HIPDNN_RETURN_IF_TRUE((a) < (b), error_code, message)
#define HIPDNN_RETURN_IF_GE(a, b, error_code, message) HIPDNN_RETURN_IF_TRUE((a) >= (b), error_code, message)
#define HIPDNN_RETURN_IF_LE(a, b, error_code, message) HIPDNN_RETURN_IF_TRUE((a) <= (b), error_code, message)
