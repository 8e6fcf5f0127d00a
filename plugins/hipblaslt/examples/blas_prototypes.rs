//! Prints a C++ program that compiles if `hipblaslt/hipblaslt.h` and `rocblas/rocblas.h` agree with the
//! functions, constants and layouts declared by this plugin.

use std::mem::offset_of;

use hipdnn_hipblaslt_plugin::hipblaslt::{
    self, HipblasLt, hipblasLtMatmulAlgo_t, hipblasLtMatmulHeuristicResult_t,
};
use hipdnn_hipblaslt_plugin::rocblas::{self, Rocblas};
use hipdnn_plugin_sdk::prototypes::Prototypes;

const HEAD: &str = "\
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hipblaslt/hipblaslt.h>
#include <rocblas/rocblas.h>
// The macros of this header that have the names of functions stand before them.
#undef rocblas_gemm_strided_batched_ex
";

fn main() {
    type Algo = hipblasLtMatmulAlgo_t;
    let algo =
        [("data", offset_of!(Algo, data)), ("max_workspace_bytes", offset_of!(Algo, max_workspace_bytes))];
    type Found = hipblasLtMatmulHeuristicResult_t;
    let found = [
        ("algo", offset_of!(Found, algo)),
        ("workspaceSize", offset_of!(Found, workspace_size)),
        ("state", offset_of!(Found, state)),
        ("wavesCount", offset_of!(Found, waves_count)),
        ("reserved", offset_of!(Found, reserved)),
    ];
    let program = Prototypes::new(HEAD, &["hipblasStatus_t", "rocblas_status"], &["rocblas_handle"])
        .functions(HipblasLt::SIGNATURES)
        .functions(Rocblas::SIGNATURES)
        .constants(hipblaslt::CONSTANTS)
        .constants(rocblas::CONSTANTS)
        .layout("hipblasLtMatmulAlgo_t", size_of::<Algo>(), &algo)
        .layout("hipblasLtMatmulHeuristicResult_t", size_of::<Found>(), &found);
    print!("{}", program.program());
}
