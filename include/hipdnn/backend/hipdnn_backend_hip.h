/* SPDX-License-Identifier: MIT */

/*
 * hipStream_t: from HIP's own header where it is on the include path, else declared here with the same meaning, so
 * that a program without a GPU needs no ROCm package. Written by hand.
 *
 * HIP's header stops a compiler that was not told the platform. A plain C compiler seldom is, so AMD is assumed.
 * Define HIPDNN_BACKEND_NO_HIP_HEADERS to keep HIP's header out even where it is present.
 */

#ifndef HIPDNN_BACKEND_HIP_H
#define HIPDNN_BACKEND_HIP_H

#if !defined(HIPDNN_BACKEND_NO_HIP_HEADERS) && defined(__has_include)
#if __has_include(<hip/hip_runtime_api.h>)
#define HIPDNN_BACKEND_USES_HIP_HEADERS
#endif
#endif

#ifdef HIPDNN_BACKEND_USES_HIP_HEADERS
#if !defined(__HIP_PLATFORM_AMD__) && !defined(__HIP_PLATFORM_NVIDIA__)
#define __HIP_PLATFORM_AMD__ 1
#endif
/* HIP's headers warn under -Wextra; a strict program that names them with -I is not to stop for that. */
#if defined(__INCLUDE_LEVEL__) && __INCLUDE_LEVEL__ > 0
#pragma GCC system_header
#endif
#include <hip/hip_runtime_api.h>
#else
#ifdef __cplusplus
extern "C" {
#endif

/** A HIP stream; null is the default stream. */
typedef struct ihipStream_t* hipStream_t;

#ifdef __cplusplus
}
#endif
#endif

#endif
