//! A FlatBuffers buffer as an attribute element.

use std::ffi::c_void;

/// The element of a `HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT` attribute: a buffer that it does not own.
///
/// Buffers that are read live as long as the descriptor they were read from. Buffers that are set are copied.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnBackendFlatbufferData_t {
    /// First byte.
    pub ptr: *const c_void,
    /// Number of bytes.
    pub size: usize,
}
