/* SPDX-License-Identifier: MIT */

/**
 * @file
 * cuDNN's names of handles, with a helper that AMD's header of this path has.
 */
#pragma once

#include "../../cudnn.h"

#include <memory>

/** Destroys a handle of create_cudnn_handle(). */
struct CudnnHandleDeleter
{
    void operator()(cudnnHandle_t* handle) const
    {
        if (handle != nullptr)
        {
            static_cast<void>(cudnnDestroy(*handle));
            delete handle;
        }
    }
};

/** A handle that ends with its owner; null if the library cannot make one. */
inline std::unique_ptr<cudnnHandle_t, CudnnHandleDeleter> create_cudnn_handle()
{
    auto handle = std::make_unique<cudnnHandle_t>();
    const bool made = cudnnCreate(handle.get()) == CUDNN_STATUS_SUCCESS;
    return {made ? handle.release() : nullptr, CudnnHandleDeleter()};
}
