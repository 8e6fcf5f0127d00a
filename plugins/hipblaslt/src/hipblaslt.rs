//! The part of hipBLASLt that the engine needs, loaded at run time.
//!
//! The signatures, constants and layouts are those of `hipblaslt/hipblaslt.h` of hipBLASLt 1; `cargo xtask
//! amd-test` compares them with the installed header.

#![expect(non_camel_case_types, reason = "the names of hipBLASLt")]

use std::ffi::{c_int, c_void};

use hipdnn_plugin_sdk::dynlib::guard::thrown;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::{PluginError, function_table};

/// Result of a hipBLASLt function; 0 is success.
pub type hipblasStatus_t = c_int;
/// A handle: hipBLASLt's state for a device.
pub type hipblasLtHandle_t = *mut c_void;
/// Description of a matmul.
pub type hipblasLtMatmulDesc_t = *mut c_void;
/// Shape, layout and type of a matrix or a batch.
pub type hipblasLtMatrixLayout_t = *mut c_void;
/// Limits for the choice of an algorithm.
pub type hipblasLtMatmulPreference_t = *mut c_void;

/// An algorithm for a matmul.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hipblasLtMatmulAlgo_t {
    /// Opaque data.
    pub data: [u8; 16],
    /// The workspace limit of the search.
    pub max_workspace_bytes: usize,
}

/// The result of a search.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hipblasLtMatmulHeuristicResult_t {
    /// The algorithm.
    pub algo: hipblasLtMatmulAlgo_t,
    /// Bytes of device memory that it needs.
    pub workspace_size: usize,
    /// Whether the other fields are valid.
    pub state: hipblasStatus_t,
    /// How well the kernel fills the device.
    pub waves_count: f32,
    /// Reserved.
    pub reserved: [c_int; 4],
}

hipdnn_plugin_sdk::header_constants! {
    /// No error.
    STATUS_SUCCESS: c_int = HIPBLAS_STATUS_SUCCESS 0;
    /// A number or type is invalid.
    STATUS_INVALID_VALUE: c_int = HIPBLAS_STATUS_INVALID_VALUE 3;
    /// The computation is not supported.
    STATUS_NOT_SUPPORTED: c_int = HIPBLAS_STATUS_NOT_SUPPORTED 7;
    /// The computation is not supported on this device.
    STATUS_ARCH_MISMATCH: c_int = HIPBLAS_STATUS_ARCH_MISMATCH 8;
    /// Not transposed.
    OPERATION_N: c_int = HIPBLAS_OP_N 111;
    /// Transposed.
    OPERATION_T: c_int = HIPBLAS_OP_T 112;
    /// Accumulation in single precision.
    COMPUTE_32F: c_int = HIPBLAS_COMPUTE_32F 2;
    /// Accumulation in double precision.
    COMPUTE_64F: c_int = HIPBLAS_COMPUTE_64F 7;
    /// Single precision.
    R_32F: c_int = HIP_R_32F 0;
    /// Double precision.
    R_64F: c_int = HIP_R_64F 1;
    /// Half precision.
    R_16F: c_int = HIP_R_16F 2;
    /// Bfloat16.
    R_16BF: c_int = HIP_R_16BF 14;
    /// No epilogue.
    EPILOGUE_DEFAULT: c_int = HIPBLASLT_EPILOGUE_DEFAULT 1;
    /// max(0, x). Activations can be combined with the bias by adding the numbers.
    EPILOGUE_RELU: c_int = HIPBLASLT_EPILOGUE_RELU 2;
    /// Adds a vector to every column.
    EPILOGUE_BIAS: c_int = HIPBLASLT_EPILOGUE_BIAS 4;
    /// Bias and RELU.
    EPILOGUE_RELU_BIAS: c_int = HIPBLASLT_EPILOGUE_RELU_BIAS 6;
    /// GELU, tanh approximation.
    EPILOGUE_GELU: c_int = HIPBLASLT_EPILOGUE_GELU 32;
    /// Bias and GELU.
    EPILOGUE_GELU_BIAS: c_int = HIPBLASLT_EPILOGUE_GELU_BIAS 36;
    /// x / (1 + exp(-x)).
    EPILOGUE_SWISH: c_int = HIPBLASLT_EPILOGUE_SWISH_EXT 65536;
    /// Bias and SWISH.
    EPILOGUE_SWISH_BIAS: c_int = HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT 65540;
    /// The batch size, 32 bits.
    LAYOUT_BATCH_COUNT: c_int = HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT 0;
    /// The stride between matrices, 64 bits.
    LAYOUT_BATCH_OFFSET: c_int = HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET 1;
    /// Whether a is transposed, 32 bits.
    DESC_TRANSA: c_int = HIPBLASLT_MATMUL_DESC_TRANSA 0;
    /// Whether b is transposed, 32 bits.
    DESC_TRANSB: c_int = HIPBLASLT_MATMUL_DESC_TRANSB 1;
    /// The epilogue, 32 bits.
    DESC_EPILOGUE: c_int = HIPBLASLT_MATMUL_DESC_EPILOGUE 2;
    /// The address of the bias.
    DESC_BIAS_POINTER: c_int = HIPBLASLT_MATMUL_DESC_BIAS_POINTER 3;
    /// The type of the bias, 32 bits.
    DESC_BIAS_TYPE: c_int = HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE 4;
    /// The workspace limit, 64 bits.
    PREF_MAX_WORKSPACE: c_int = HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES 1;
}

/// The oldest version with these constants, in hipBLASLt's numbering: 0.6.0. Earlier ones had different
/// types.
pub const OLDEST: c_int = 600;

function_table! {
    /// The functions of hipBLASLt.
    #[expect(non_snake_case, reason = "the names of hipBLASLt")]
    pub struct HipblasLt: "hipBLASLt", ["libhipblaslt.so.1", "libhipblaslt.so.0"] {
        required {
            /// The version, as major · 100000 + minor · 100 + patch.
            fn hipblasLtGetVersion(handle: hipblasLtHandle_t, version: *mut c_int) -> hipblasStatus_t;
            /// Creates a handle on the thread's device.
            fn hipblasLtCreate(handle: *mut hipblasLtHandle_t) -> hipblasStatus_t;
            /// Destroys a handle.
            fn hipblasLtDestroy(handle: hipblasLtHandle_t) -> hipblasStatus_t;
            /// Creates a layout.
            fn hipblasLtMatrixLayoutCreate(
                layout: *mut hipblasLtMatrixLayout_t,
                data_type: c_int,
                rows: u64,
                columns: u64,
                leading: i64
            ) -> hipblasStatus_t;
            /// Destroys a layout.
            fn hipblasLtMatrixLayoutDestroy(layout: hipblasLtMatrixLayout_t) -> hipblasStatus_t;
            /// Sets an attribute of a layout.
            fn hipblasLtMatrixLayoutSetAttribute(
                layout: hipblasLtMatrixLayout_t,
                attribute: c_int,
                value: *const c_void,
                size: usize
            ) -> hipblasStatus_t;
            /// Creates a matmul description.
            fn hipblasLtMatmulDescCreate(
                desc: *mut hipblasLtMatmulDesc_t,
                compute_type: c_int,
                scale_type: c_int
            ) -> hipblasStatus_t;
            /// Destroys a matmul description.
            fn hipblasLtMatmulDescDestroy(desc: hipblasLtMatmulDesc_t) -> hipblasStatus_t;
            /// Sets an attribute of a matmul description.
            fn hipblasLtMatmulDescSetAttribute(
                desc: hipblasLtMatmulDesc_t,
                attribute: c_int,
                value: *const c_void,
                size: usize
            ) -> hipblasStatus_t;
            /// Creates a preference.
            fn hipblasLtMatmulPreferenceCreate(preference: *mut hipblasLtMatmulPreference_t) -> hipblasStatus_t;
            /// Destroys a preference.
            fn hipblasLtMatmulPreferenceDestroy(preference: hipblasLtMatmulPreference_t) -> hipblasStatus_t;
            /// Sets an attribute of a preference.
            fn hipblasLtMatmulPreferenceSetAttribute(
                preference: hipblasLtMatmulPreference_t,
                attribute: c_int,
                value: *const c_void,
                size: usize
            ) -> hipblasStatus_t;
            /// Searches for algorithms, best first.
            fn hipblasLtMatmulAlgoGetHeuristic(
                handle: hipblasLtHandle_t,
                desc: hipblasLtMatmulDesc_t,
                a: hipblasLtMatrixLayout_t,
                b: hipblasLtMatrixLayout_t,
                c: hipblasLtMatrixLayout_t,
                d: hipblasLtMatrixLayout_t,
                preference: hipblasLtMatmulPreference_t,
                requested: c_int,
                results: *mut hipblasLtMatmulHeuristicResult_t,
                count: *mut c_int
            ) -> hipblasStatus_t;
            /// d = epilogue(α a b + β c).
            fn hipblasLtMatmul(
                handle: hipblasLtHandle_t,
                desc: hipblasLtMatmulDesc_t,
                alpha: *const c_void,
                a: *const c_void,
                a_layout: hipblasLtMatrixLayout_t,
                b: *const c_void,
                b_layout: hipblasLtMatrixLayout_t,
                beta: *const c_void,
                c: *const c_void,
                c_layout: hipblasLtMatrixLayout_t,
                d: *mut c_void,
                d_layout: hipblasLtMatrixLayout_t,
                algo: *const hipblasLtMatmulAlgo_t,
                workspace: *mut c_void,
                workspace_size: usize,
                stream: hipStream_t
            ) -> hipblasStatus_t;
        }
        optional {}
    }
}

impl HipblasLt {
    /// Turns a status other than success into an error.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check(&self, function: &str, status: hipblasStatus_t) -> Result<(), PluginError> {
        if status == STATUS_SUCCESS { Ok(()) } else { Err(error(function, status)) }
    }
}

/// hipBLASLt has no function for the text of a status, so this uses the names of its header.
#[cold]
fn error(function: &str, status: hipblasStatus_t) -> PluginError {
    if let Some(message) = thrown(function, status) {
        return PluginError::internal(message);
    }
    let name = match status {
        1 => "HIPBLAS_STATUS_NOT_INITIALIZED",
        2 => "HIPBLAS_STATUS_ALLOC_FAILED",
        3 => "HIPBLAS_STATUS_INVALID_VALUE",
        4 => "HIPBLAS_STATUS_MAPPING_ERROR",
        5 => "HIPBLAS_STATUS_EXECUTION_FAILED",
        6 => "HIPBLAS_STATUS_INTERNAL_ERROR",
        7 => "HIPBLAS_STATUS_NOT_SUPPORTED",
        8 => "HIPBLAS_STATUS_ARCH_MISMATCH",
        9 => "HIPBLAS_STATUS_HANDLE_IS_NULLPTR",
        10 => "HIPBLAS_STATUS_INVALID_ENUM",
        _ => "HIPBLAS_STATUS_UNKNOWN",
    };
    PluginError::internal(format!("{function} failed with status {status}: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_or_the_error_says_what_was_looked_for() {
        match HipblasLt::get() {
            Ok(library) => {
                assert_eq!(library.check("f", STATUS_SUCCESS), Ok(()));
                let message = library.check("f", 7).unwrap_err().to_string();
                assert_eq!(message, "f failed with status 7: HIPBLAS_STATUS_NOT_SUPPORTED");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for hipBLASLt was found"), "{message}");
                assert!(message.contains("libhipblaslt.so.1"), "{message}");
            }
        }
    }
}
