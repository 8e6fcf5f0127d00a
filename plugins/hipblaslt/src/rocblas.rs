//! The part of rocBLAS that the engine needs, loaded at run time.
//!
//! The signatures and constants are those of `rocblas/rocblas.h` of rocBLAS 4; `cargo xtask amd-test`
//! compares them with the installed header.

#![expect(non_camel_case_types, reason = "the names of rocBLAS")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use hipdnn_plugin_sdk::dynlib::guard::thrown;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::{PluginError, function_table};

/// Result of a rocBLAS function; 0 is success.
pub type rocblas_status = c_int;
/// A handle: a stream with rocBLAS's state for it.
pub type rocblas_handle = *mut c_void;

hipdnn_plugin_sdk::header_constants! {
    /// No error.
    STATUS_SUCCESS: c_int = rocblas_status_success 0;
    /// No kernel exists for these types.
    STATUS_NOT_IMPLEMENTED: c_int = rocblas_status_not_implemented 2;
    /// Workspace query: more than all earlier calls of the query.
    STATUS_SIZE_INCREASED: c_int = rocblas_status_size_increased 9;
    /// Workspace query: not more than earlier calls of the query.
    STATUS_SIZE_UNCHANGED: c_int = rocblas_status_size_unchanged 10;
    /// Not transposed.
    OPERATION_NONE: c_int = rocblas_operation_none 111;
    /// Transposed.
    OPERATION_TRANSPOSE: c_int = rocblas_operation_transpose 112;
    /// Half precision.
    F16: c_int = rocblas_datatype_f16_r 150;
    /// Single precision.
    F32: c_int = rocblas_datatype_f32_r 151;
    /// Double precision.
    F64: c_int = rocblas_datatype_f64_r 152;
    /// Bfloat16.
    BF16: c_int = rocblas_datatype_bf16_r 168;
    /// rocBLAS chooses the kernel.
    ALGO_STANDARD: c_int = rocblas_gemm_algo_standard 0;
    /// No flags.
    FLAGS_NONE: c_int = rocblas_gemm_flags_none 0;
}

function_table! {
    /// The functions of rocBLAS.
    pub struct Rocblas: "rocBLAS", ["librocblas.so.5", "librocblas.so.4"] {
        required {
            /// The name of a status, which lives for ever.
            fn rocblas_status_to_string(status: rocblas_status) -> *const c_char;
            /// Creates a handle on the thread's device.
            fn rocblas_create_handle(handle: *mut rocblas_handle) -> rocblas_status;
            /// Destroys a handle.
            fn rocblas_destroy_handle(handle: rocblas_handle) -> rocblas_status;
            /// Sets the stream of later calls.
            fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status;
            /// Begins a query: later calls only report the workspace they need.
            fn rocblas_start_device_memory_size_query(handle: rocblas_handle) -> rocblas_status;
            /// Ends the query, and returns the largest workspace that a call needs.
            fn rocblas_stop_device_memory_size_query(handle: rocblas_handle, size: *mut usize) -> rocblas_status;
            /// Sets the workspace of later calls; with null rocBLAS allocates its own.
            fn rocblas_set_workspace(handle: rocblas_handle, workspace: *mut c_void, size: usize) -> rocblas_status;
            /// d = α a b + β c for a strided batch.
            fn rocblas_gemm_strided_batched_ex(
                handle: rocblas_handle,
                a_operation: c_int,
                b_operation: c_int,
                m: i32,
                n: i32,
                k: i32,
                alpha: *const c_void,
                a: *const c_void,
                a_type: c_int,
                a_leading: i32,
                a_stride: i64,
                b: *const c_void,
                b_type: c_int,
                b_leading: i32,
                b_stride: i64,
                beta: *const c_void,
                c: *const c_void,
                c_type: c_int,
                c_leading: i32,
                c_stride: i64,
                d: *mut c_void,
                d_type: c_int,
                d_leading: i32,
                d_stride: i64,
                batch: i32,
                compute_type: c_int,
                algo: c_int,
                solution: i32,
                flags: c_uint
            ) -> rocblas_status;
        }
        optional {}
    }
}

impl Rocblas {
    /// Turns a status other than success into an error.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check(&self, function: &str, status: rocblas_status) -> Result<(), PluginError> {
        if status == STATUS_SUCCESS { Ok(()) } else { Err(self.error(function, status)) }
    }

    #[cold]
    fn error(&self, function: &str, status: rocblas_status) -> PluginError {
        if let Some(message) = thrown(function, status) {
            return PluginError::internal(message);
        }
        // SAFETY: the function takes any number as a status and returns a constant text.
        let text = unsafe { (self.rocblas_status_to_string)(status) };
        let text = if text.is_null() {
            "no text".into()
        } else {
            // SAFETY: rocBLAS's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        PluginError::internal(format!("{function} failed with status {status}: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_or_the_error_says_what_was_looked_for() {
        match Rocblas::get() {
            Ok(library) => {
                assert_eq!(library.check("f", STATUS_SUCCESS), Ok(()));
                let message = library.check("f", STATUS_NOT_IMPLEMENTED).unwrap_err().to_string();
                assert_eq!(message, "f failed with status 2: rocblas_status_not_implemented");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for rocBLAS was found"), "{message}");
                assert!(message.contains("librocblas.so.4"), "{message}");
            }
        }
    }
}
