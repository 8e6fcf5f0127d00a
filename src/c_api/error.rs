//! Names of statuses, and the last error.

use std::ffi::{CStr, c_char};

use crate::ffi::{CEnum, raw};
use crate::last_error;
use crate::status::Status;

/// The name of a status.
///
/// @param[in] status A status.
///
/// @return A text that lives as long as the library: the enumerator's name, HIPDNN_STATUS_UNKNOWN for other numbers.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnGetErrorString(status: raw::hipdnnStatus_t) -> *const c_char {
    macro_rules! names {
        ($($name:ident)+) => {
            match Status::from_raw(status) {
                $(Some(Status::$name) => const {
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    }
                },)+
                None => c"HIPDNN_STATUS_UNKNOWN",
            }
        };
    }
    let name: &'static CStr = names! {
        HIPDNN_STATUS_SUCCESS
        HIPDNN_STATUS_NOT_INITIALIZED
        HIPDNN_STATUS_BAD_PARAM
        HIPDNN_STATUS_BAD_PARAM_NULL_POINTER
        HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED
        HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND
        HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT
        HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH
        HIPDNN_STATUS_NOT_SUPPORTED
        HIPDNN_STATUS_INTERNAL_ERROR
        HIPDNN_STATUS_ALLOC_FAILED
        HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
        HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
        HIPDNN_STATUS_EXECUTION_FAILED
        HIPDNN_STATUS_PLUGIN_ERROR
        HIPDNN_STATUS_VERSION_MISMATCH
    };
    name.as_ptr()
}

/// Gets the text of the last failure on this thread, and clears it.
///
/// @param[out] message Receives the text, cut to `maxSize - 1` bytes and ended by a NUL; empty when nothing failed since
///     the last call. When it is null nothing happens.
/// @param[in] maxSize The size of `message` in bytes. When it is 0 nothing happens.
///
/// # Safety
/// `message` is null or has room for `maxSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetLastErrorString(message: *mut c_char, maxSize: usize) {
    // SAFETY: `message` is null or has room for `maxSize` bytes.
    if unsafe { write(message, maxSize) } {
        last_error::clear();
    }
}

/// Gets the text of the last failure on this thread, and keeps it.
///
/// @param[out] message Receives the text, cut to `maxSize - 1` bytes and ended by a NUL; empty when nothing failed. When it
///     is null nothing happens.
/// @param[in] maxSize The size of `message` in bytes. When it is 0 nothing happens.
///
/// # Safety
/// `message` is null or has room for `maxSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPeekLastErrorString_ext(message: *mut c_char, maxSize: usize) {
    // SAFETY: `message` is null or has room for `maxSize` bytes.
    unsafe { write(message, maxSize) };
}

/// Writes the last error. Returns whether there was a buffer to write to.
///
/// # Safety
/// `message` is null or has room for `size` bytes.
unsafe fn write(message: *mut c_char, size: usize) -> bool {
    if message.is_null() || size == 0 {
        return false;
    }
    last_error::with(|text| {
        let length = text.len().min(size - 1);
        // SAFETY: `length` is less than the room, and no longer than the text.
        unsafe {
            message.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), length);
            // Zero the rest of the buffer: callers of this interface have always found it so.
            message.add(length).write_bytes(0, size - length);
        }
    });
    true
}
