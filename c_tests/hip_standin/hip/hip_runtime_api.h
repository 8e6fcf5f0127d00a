/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for HIP's header, for tests on a machine without HIP: it insists on a platform macro as HIP's does, and
 * declares the stream type. It is not part of HIP.
 */

#ifndef HIPDNN_TEST_HIP_STANDIN_H
#define HIPDNN_TEST_HIP_STANDIN_H

#if !defined(__HIP_PLATFORM_AMD__) && !defined(__HIP_PLATFORM_NVIDIA__)
#error "no HIP platform was chosen"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ihipStream_t* hipStream_t;

#ifdef __cplusplus
}
#endif

#endif
