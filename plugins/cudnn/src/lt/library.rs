//! The part of cuBLASLt that the engine needs, loaded at run time.
//!
//! The signatures and constants are those of cuBLAS 12 and 13; the example `cuda_library_prototypes` writes a
//! program that compares them with the headers.

#![expect(non_camel_case_types, reason = "the names of cuBLASLt")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use hipdnn_plugin_sdk::dynlib::{self, Object};
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::{PluginError, function_table};

use crate::library;

/// Result of a function; 0 is success.
pub type cublasStatus_t = c_int;
/// A handle, for one device.
pub type cublasLtHandle_t = *mut c_void;
/// Description of a matmul.
pub type cublasLtMatmulDesc_t = *mut c_void;
/// Layout of a matrix.
pub type cublasLtMatrixLayout_t = *mut c_void;
/// Preferences for the choice of an algorithm.
pub type cublasLtMatmulPreference_t = *mut c_void;
/// The type of accumulators.
pub type cublasComputeType_t = c_int;
/// The type of elements.
pub type cudaDataType_t = c_int;
/// An attribute of a matmul.
pub type cublasLtMatmulDescAttributes_t = c_int;
/// An attribute of a layout.
pub type cublasLtMatrixLayoutAttribute_t = c_int;
/// An attribute of an algorithm's configuration.
pub type cublasLtMatmulAlgoConfigAttributes_t = c_int;
/// An attribute of preferences.
pub type cublasLtMatmulPreferenceAttributes_t = c_int;

hipdnn_plugin_sdk::header_constants! {
    /// Success.
    STATUS_SUCCESS: c_int = CUBLAS_STATUS_SUCCESS 0;
    /// An argument is invalid.
    STATUS_INVALID_VALUE: c_int = CUBLAS_STATUS_INVALID_VALUE 7;
    /// The device has no kernel for it.
    STATUS_ARCH_MISMATCH: c_int = CUBLAS_STATUS_ARCH_MISMATCH 8;
    /// There is no kernel for it.
    STATUS_NOT_SUPPORTED: c_int = CUBLAS_STATUS_NOT_SUPPORTED 15;
    /// Accumulation in single precision.
    COMPUTE_32F: c_int = CUBLAS_COMPUTE_32F 68;
    /// The same, operands may be rounded to TF32.
    COMPUTE_32F_FAST_TF32: c_int = CUBLAS_COMPUTE_32F_FAST_TF32 77;
    /// Accumulation in double precision.
    COMPUTE_64F: c_int = CUBLAS_COMPUTE_64F 70;
    /// 16-bit IEEE floats.
    R_16F: c_int = CUDA_R_16F 2;
    /// The upper halves of 32-bit floats.
    R_16BF: c_int = CUDA_R_16BF 14;
    /// 32-bit floats.
    R_32F: c_int = CUDA_R_32F 0;
    /// 64-bit floats.
    R_64F: c_int = CUDA_R_64F 1;
    /// 8-bit floats with 3 bits of mantissa.
    R_8F_E4M3: c_int = CUDA_R_8F_E4M3 28;
    /// 8-bit floats with 2 bits of mantissa.
    R_8F_E5M2: c_int = CUDA_R_8F_E5M2 29;
    /// Not transposed.
    OPERATION_N: c_int = CUBLAS_OP_N 0;
    /// Transposed.
    OPERATION_T: c_int = CUBLAS_OP_T 1;
    /// Whether the left operand is transposed.
    DESC_TRANSA: c_int = CUBLASLT_MATMUL_DESC_TRANSA 3;
    /// Whether the right operand is transposed.
    DESC_TRANSB: c_int = CUBLASLT_MATMUL_DESC_TRANSB 4;
    /// The epilogue.
    DESC_EPILOGUE: c_int = CUBLASLT_MATMUL_DESC_EPILOGUE 7;
    /// The address of the bias.
    DESC_BIAS_POINTER: c_int = CUBLASLT_MATMUL_DESC_BIAS_POINTER 8;
    /// The type of the bias.
    DESC_BIAS_TYPE: c_int = CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE 26;
    /// The address of the left operand's scale.
    DESC_A_SCALE_POINTER: c_int = CUBLASLT_MATMUL_DESC_A_SCALE_POINTER 17;
    /// The address of the right operand's scale.
    DESC_B_SCALE_POINTER: c_int = CUBLASLT_MATMUL_DESC_B_SCALE_POINTER 18;
    /// The address of GELU's auxiliary matrix, which is written or read.
    DESC_AUX_POINTER: c_int = CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER 11;
    /// The auxiliary matrix's leading dimension.
    DESC_AUX_LEADING: c_int = CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD 12;
    /// The auxiliary matrix's batch stride.
    DESC_AUX_BATCH_STRIDE: c_int = CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE 13;
    /// No epilogue.
    EPILOGUE_DEFAULT: c_int = CUBLASLT_EPILOGUE_DEFAULT 1;
    /// RELU.
    EPILOGUE_RELU: c_int = CUBLASLT_EPILOGUE_RELU 2;
    /// Bias.
    EPILOGUE_BIAS: c_int = CUBLASLT_EPILOGUE_BIAS 4;
    /// Bias and RELU.
    EPILOGUE_RELU_BIAS: c_int = CUBLASLT_EPILOGUE_RELU_BIAS 6;
    /// GELU, tanh approximation.
    EPILOGUE_GELU: c_int = CUBLASLT_EPILOGUE_GELU 32;
    /// Bias and GELU.
    EPILOGUE_GELU_BIAS: c_int = CUBLASLT_EPILOGUE_GELU_BIAS 36;
    /// GELU, writing its input.
    EPILOGUE_GELU_AUX: c_int = CUBLASLT_EPILOGUE_GELU_AUX 160;
    /// Bias and GELU, writing GELU's input.
    EPILOGUE_GELU_AUX_BIAS: c_int = CUBLASLT_EPILOGUE_GELU_AUX_BIAS 164;
    /// The gradient of GELU.
    EPILOGUE_DGELU: c_int = CUBLASLT_EPILOGUE_DGELU 192;
    /// The gradient of GELU, and its row sums.
    EPILOGUE_DGELU_BGRAD: c_int = CUBLASLT_EPILOGUE_DGELU_BGRAD 208;
    /// Sums the rows of the left operand.
    EPILOGUE_BGRADA: c_int = CUBLASLT_EPILOGUE_BGRADA 256;
    /// Sums the columns of the right operand.
    EPILOGUE_BGRADB: c_int = CUBLASLT_EPILOGUE_BGRADB 512;
    /// The batch size.
    LAYOUT_BATCH_COUNT: c_int = CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT 5;
    /// The stride between matrices in elements.
    LAYOUT_BATCH_OFFSET: c_int = CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET 6;
    /// The limit of workspace in bytes.
    PREF_MAX_WORKSPACE: c_int = CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES 1;
    /// The alignment of the left operand in bytes.
    PREF_ALIGNMENT_A: c_int = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES 5;
    /// The alignment of the right operand in bytes.
    PREF_ALIGNMENT_B: c_int = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES 6;
    /// The alignment of the summand in bytes.
    PREF_ALIGNMENT_C: c_int = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES 7;
    /// The alignment of the result in bytes.
    PREF_ALIGNMENT_D: c_int = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES 8;
    /// The number of parts of dot products.
    CONFIG_SPLIT: c_int = CUBLASLT_ALGO_CONFIG_SPLITK_NUM 2;
    /// How parts are added.
    CONFIG_SCHEME: c_int = CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME 3;
    /// There are no parts.
    SCHEME_NONE: c_int = CUBLASLT_REDUCTION_SCHEME_NONE 0;
    /// They are kept in the compute type.
    SCHEME_COMPUTE_TYPE: c_int = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE 2;
}

/// An algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct cublasLtMatmulAlgo_t {
    /// Opaque data.
    pub data: [u64; 8],
}

/// A recommended algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cublasLtMatmulHeuristicResult_t {
    /// The algorithm.
    pub algo: cublasLtMatmulAlgo_t,
    /// Bytes of workspace that it needs.
    pub workspace_size: usize,
    /// Whether it can be used.
    pub state: cublasStatus_t,
    /// The number of waves on the device.
    pub waves_count: f32,
    /// Reserved.
    pub reserved: [c_int; 4],
}

function_table! {
    /// The functions of cuBLASLt.
    #[expect(non_snake_case, reason = "the names of cuBLASLt")]
    pub struct CublasLt: "cuBLASLt", ["libcublasLt.so.13", "libcublasLt.so.12"] {
        required {
            /// The name of a status.
            fn cublasLtGetStatusName(status: cublasStatus_t) -> *const c_char;
            /// Creates a handle on the thread's device.
            fn cublasLtCreate(handle: *mut cublasLtHandle_t) -> cublasStatus_t;
            /// Destroys a handle.
            fn cublasLtDestroy(handle: cublasLtHandle_t) -> cublasStatus_t;
            /// Creates a matmul description.
            fn cublasLtMatmulDescCreate(
                product: *mut cublasLtMatmulDesc_t,
                compute_type: cublasComputeType_t,
                scale_type: cudaDataType_t
            ) -> cublasStatus_t;
            /// Destroys a matmul description.
            fn cublasLtMatmulDescDestroy(product: cublasLtMatmulDesc_t) -> cublasStatus_t;
            /// Sets an attribute of a matmul description.
            fn cublasLtMatmulDescSetAttribute(
                product: cublasLtMatmulDesc_t,
                attribute: cublasLtMatmulDescAttributes_t,
                value: *const c_void,
                size: usize
            ) -> cublasStatus_t;
            /// Creates a layout.
            fn cublasLtMatrixLayoutCreate(
                matrix: *mut cublasLtMatrixLayout_t,
                data_type: cudaDataType_t,
                rows: u64,
                columns: u64,
                leading: i64
            ) -> cublasStatus_t;
            /// Destroys a layout.
            fn cublasLtMatrixLayoutDestroy(matrix: cublasLtMatrixLayout_t) -> cublasStatus_t;
            /// Sets an attribute of a layout.
            fn cublasLtMatrixLayoutSetAttribute(
                matrix: cublasLtMatrixLayout_t,
                attribute: cublasLtMatrixLayoutAttribute_t,
                value: *const c_void,
                size: usize
            ) -> cublasStatus_t;
            /// Creates preferences.
            fn cublasLtMatmulPreferenceCreate(preference: *mut cublasLtMatmulPreference_t) -> cublasStatus_t;
            /// Destroys preferences.
            fn cublasLtMatmulPreferenceDestroy(preference: cublasLtMatmulPreference_t) -> cublasStatus_t;
            /// Sets an attribute of preferences.
            fn cublasLtMatmulPreferenceSetAttribute(
                preference: cublasLtMatmulPreference_t,
                attribute: cublasLtMatmulPreferenceAttributes_t,
                value: *const c_void,
                size: usize
            ) -> cublasStatus_t;
            /// The recommended algorithms, best first.
            fn cublasLtMatmulAlgoGetHeuristic(
                handle: cublasLtHandle_t,
                product: cublasLtMatmulDesc_t,
                a: cublasLtMatrixLayout_t,
                b: cublasLtMatrixLayout_t,
                c: cublasLtMatrixLayout_t,
                d: cublasLtMatrixLayout_t,
                preference: cublasLtMatmulPreference_t,
                room: c_int,
                results: *mut cublasLtMatmulHeuristicResult_t,
                count: *mut c_int
            ) -> cublasStatus_t;
            /// Queues a matmul on a stream.
            fn cublasLtMatmul(
                handle: cublasLtHandle_t,
                product: cublasLtMatmulDesc_t,
                alpha: *const c_void,
                a: *const c_void,
                a_layout: cublasLtMatrixLayout_t,
                b: *const c_void,
                b_layout: cublasLtMatrixLayout_t,
                beta: *const c_void,
                c: *const c_void,
                c_layout: cublasLtMatrixLayout_t,
                d: *mut c_void,
                d_layout: cublasLtMatrixLayout_t,
                algorithm: *const cublasLtMatmulAlgo_t,
                workspace: *mut c_void,
                size: usize,
                stream: hipStream_t
            ) -> cublasStatus_t;
        }
        optional {
            /// An attribute of an algorithm's configuration.
            fn cublasLtMatmulAlgoConfigGetAttribute(
                algorithm: *const cublasLtMatmulAlgo_t,
                attribute: cublasLtMatmulAlgoConfigAttributes_t,
                value: *mut c_void,
                size: usize,
                written: *mut usize
            ) -> cublasStatus_t;
        }
    }
}

impl CublasLt {
    /// cuBLASLt, if it was found.
    ///
    /// # Errors
    /// What was tried.
    pub fn find() -> Result<&'static Self, dynlib::Error> {
        static LT: OnceLock<Result<CublasLt, dynlib::Error>> = OnceLock::new();
        let load = || library::load(Self::LIBRARIES, |candidates| Self::load_from(candidates));
        LT.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Turns a status other than success into an error.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check(&self, function: &str, status: cublasStatus_t) -> Result<(), PluginError> {
        if status == STATUS_SUCCESS { Ok(()) } else { Err(self.error(function, status)) }
    }

    #[cold]
    fn error(&self, function: &str, status: cublasStatus_t) -> PluginError {
        // SAFETY: the function takes any number, and its names live for ever.
        let name = unsafe {
            let name = (self.cublasLtGetStatusName)(status);
            if name.is_null() { c"" } else { CStr::from_ptr(name) }
        };
        PluginError::internal(format!("{function} failed with status {status}: {}", name.to_string_lossy()))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// cuBLASLt's.
    pub fn made(
        &self,
        function: &str,
        destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
        create: impl FnOnce(*mut *mut c_void) -> cublasStatus_t,
    ) -> Result<Object, PluginError> {
        let mut object = std::ptr::null_mut();
        self.check(function, create(&mut object))?;
        // SAFETY: the object was made just now, and the function ends it.
        Ok(unsafe { Object::new(object, destroy) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_or_the_error_says_what_was_looked_for() {
        match CublasLt::find() {
            Ok(lt) => {
                let message = lt.check("f", 15).unwrap_err().to_string();
                assert_eq!(message, "f failed with status 15: CUBLAS_STATUS_NOT_SUPPORTED");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for cuBLASLt was found"), "{message}");
                assert!(message.contains("libcublasLt.so.13") && message.contains("libcublasLt.so.12"));
            }
        }
    }
}
