/* SPDX-License-Identifier: MIT */

/*
 * A FlatBuffers buffer as an attribute element.
 *
 * Generated from src/ffi/flatbuffer_data.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_FLATBUFFER_DATA_H
#define HIPDNN_BACKEND_FLATBUFFER_DATA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The element of a `HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT` attribute: a buffer that it does not own.
///
/// Buffers that are read live as long as the descriptor they were read from. Buffers that are set are copied.
typedef struct
{
    /// First byte.
    const void *ptr;
    /// Number of bytes.
    size_t size;
} hipdnnBackendFlatbufferData_t;

#ifdef __cplusplus
}
#endif

#endif
