/* SPDX-License-Identifier: MIT */

/**
 * @file
 * cuDNN's names of handles, for C++ programs that create handles with cuDNN's calls and graphs with cudnn_frontend.h.
 */
#pragma once

#include "../cpp/descriptor.hpp"

using cudnnHandle_t = hipdnnHandle_t;
using cudnnStatus_t = hipdnnStatus_t;

constexpr cudnnStatus_t CUDNN_STATUS_SUCCESS = HIPDNN_STATUS_SUCCESS;
constexpr cudnnStatus_t CUDNN_STATUS_NOT_INITIALIZED = HIPDNN_STATUS_NOT_INITIALIZED;
constexpr cudnnStatus_t CUDNN_STATUS_BAD_PARAM = HIPDNN_STATUS_BAD_PARAM;
constexpr cudnnStatus_t CUDNN_STATUS_NOT_SUPPORTED = HIPDNN_STATUS_NOT_SUPPORTED;
constexpr cudnnStatus_t CUDNN_STATUS_INTERNAL_ERROR = HIPDNN_STATUS_INTERNAL_ERROR;

inline cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return HIPDNN_CPP_CALL(hipdnnCreate)(handle); }
inline cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return HIPDNN_CPP_CALL(hipdnnDestroy)(handle); }
/** The stream is HIP's; other pointers to opaque streams are accepted as HIP's. */
template <typename Stream>
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, Stream* stream)
{
    return HIPDNN_CPP_CALL(hipdnnSetStream)(handle, reinterpret_cast<hipStream_t>(stream));
}
template <typename Stream>
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, Stream** stream)
{
    hipStream_t found = nullptr;
    const cudnnStatus_t status = HIPDNN_CPP_CALL(hipdnnGetStream)(handle, &found);
    *stream = reinterpret_cast<Stream*>(found);
    return status;
}
inline const char* cudnnGetErrorString(cudnnStatus_t status) { return HIPDNN_CPP_CALL(hipdnnGetErrorString)(status); }
/** The cuDNN version whose graph interface the classes follow, in cuDNN's encoding. */
#define CUDNN_VERSION 92200
inline size_t cudnnGetVersion() { return CUDNN_VERSION; }
/** The version of CUDA's runtime that goes with it. */
inline size_t cudnnGetCudartVersion() { return 12080; }
