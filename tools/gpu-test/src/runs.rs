//! Checks which functions an execution calls.

use crate::Failure;
use crate::gate::{Call, makes};

/// The bytes of device memory allocated by calls.
pub fn allocated(calls: &[Call]) -> usize {
    let allocates = |call: &&Call| ["hipMalloc", "cuMemAlloc_v2"].contains(&call.name);
    calls.iter().filter(allocates).map(|call| call.arguments[1]).sum()
}

/// Calls that serialize executions with a plan's own memory.
pub const KEEPS_APART: [&str; 11] = [
    "hipThreadExchangeStreamCaptureMode",
    "cuThreadExchangeStreamCaptureMode",
    "hipStreamIsCapturing",
    "hipStreamWaitEvent",
    "hipEventRecord",
    "hipEventQuery",
    "cuStreamIsCapturing",
    "cuStreamGetId",
    "cuStreamWaitEvent",
    "cuEventRecord",
    "cuEventQuery",
];

/// The functions that set the address of a bias, of GELU's input or of a scale, with `HIPBLASLT_MATMUL_DESC_BIAS_POINTER`,
/// `CUBLASLT_MATMUL_DESC_BIAS_POINTER`, `CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER`, `CUBLASLT_MATMUL_DESC_A_SCALE_POINTER` and `CUBLASLT_MATMUL_DESC_B_SCALE_POINTER`.
const ADDRESSES: [(&str, u32); 5] = [
    ("hipblasLtMatmulDescSetAttribute", 3),
    ("cublasLtMatmulDescSetAttribute", 8),
    ("cublasLtMatmulDescSetAttribute", 11),
    ("cublasLtMatmulDescSetAttribute", 17),
    ("cublasLtMatmulDescSetAttribute", 18),
];

/// The functions of CUDA's driver and libraries that executions call.
const RUNS_ON_CUDA: [&str; 12] = [
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuStreamGetCtx",
    "cuPointerGetAttributes",
    "cuLaunchKernel",
    "cuMemcpyHtoDAsync_v2",
    "cublasLtMatmul",
    "cudnnSetStream",
    "cudnnBackendSetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendExecute",
];

/// `CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR`
const VARIANT_PACK: usize = 16;

/// Fails if an execution does anything but put work on a stream: it must not search, create, destroy, allocate or wait.
pub fn only_runs(calls: &[Call]) -> Result<(), Failure> {
    // The libraries store these addresses in the matmul descriptor, and cuDNN takes tensors in a descriptor.
    let names_memory = |call: &Call| {
        let [kind, attribute, ..] = call.arguments;
        ADDRESSES.contains(&(call.name, attribute as u32))
            || call.name == "cudnnBackendCreateDescriptor" && kind == VARIANT_PACK
            || call.name == "cudnnBackendDestroyDescriptor"
    };
    let runs = |name: &str| {
        let miopen = ["Forward", "Backward", "RunSolution", "OpTensor", "ReduceTensor"];
        let hip = ["hipGetDevice", "hipMemcpyAsync", "hipModuleLaunchKernel", "hipblasLtMatmul"];
        hip.contains(&name)
            || RUNS_ON_CUDA.contains(&name)
            || KEEPS_APART.contains(&name)
            || ["miopenSetStream", "miopenSetTensor", "miopenTransformTensor"].contains(&name)
            || ["rocblas_gemm_", "rocblas_set_stream", "rocblas_set_workspace"]
                .iter()
                .any(|word| name.starts_with(word))
            || name.starts_with("miopen") && !makes(name) && miopen.iter().any(|word| name.contains(word))
    };
    match calls.iter().find(|call| !runs(call.name) && !names_memory(call)) {
        Some(call) => Err(Failure(format!("an execution calls {}, expected runs alone", call.name))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_may_only_set_addresses_of_bias_and_scales_in_cublaslt() {
        let set = |attribute| {
            only_runs(&[Call {
                name: "cublasLtMatmulDescSetAttribute",
                arguments: [1, attribute, 0, 8, 0, 0],
            }])
        };
        for address in [8, 11, 17, 18] {
            assert!(set(address).is_ok());
        }
        // CUBLASLT_MATMUL_DESC_TRANSA and CUBLASLT_MATMUL_DESC_D_SCALE_POINTER
        for other in [3, 20] {
            assert!(set(other).is_err());
        }
    }
}
