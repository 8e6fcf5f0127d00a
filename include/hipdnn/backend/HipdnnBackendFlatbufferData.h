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

/// The element of a `HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT` attribute: bytes that someone else owns.
///
/// What a read fills in lives as long as the descriptor it was read from. What a set is given is copied.
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
