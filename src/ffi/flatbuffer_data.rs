//! A FlatBuffers buffer as an attribute element.

use std::ffi::c_void;

/// The element of a `HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT` attribute: bytes that someone else owns.
///
/// What a read fills in lives as long as the descriptor it was read from. What a set is given is copied.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnBackendFlatbufferData_t {
    /// First byte.
    pub ptr: *const c_void,
    /// Number of bytes.
    pub size: usize,
}
