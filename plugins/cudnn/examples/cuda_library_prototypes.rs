//! Prints a C++ program that compiles if `cudnn_graph.h` and `cublasLt.h` agree with the functions, constants
//! and layouts declared by this plugin.

use std::mem::offset_of;

use hipdnn_cudnn_plugin::cudnn::Cudnn;
use hipdnn_cudnn_plugin::lt::library::{
    self, CublasLt, cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t,
};
use hipdnn_cudnn_plugin::names;
use hipdnn_plugin_sdk::prototypes::Prototypes;

const HEAD: &str = "\
#include <cudnn_graph.h>
#include <cublasLt.h>
";

fn main() {
    type Found = cublasLtMatmulHeuristicResult_t;
    let found = [
        ("algo", offset_of!(Found, algo)),
        ("workspaceSize", offset_of!(Found, workspace_size)),
        ("state", offset_of!(Found, state)),
        ("wavesCount", offset_of!(Found, waves_count)),
        ("reserved", offset_of!(Found, reserved)),
    ];
    let integers = &[
        "cudnnStatus_t",
        "cudnnBackendDescriptorType_t",
        "cudnnBackendAttributeName_t",
        "cudnnBackendAttributeType_t",
        "cublasStatus_t",
        "cublasComputeType_t",
        "cudaDataType_t",
        "cublasLtMatmulDescAttributes_t",
        "cublasLtMatrixLayoutAttribute_t",
        "cublasLtMatmulPreferenceAttributes_t",
    ];
    let program = Prototypes::new(HEAD, integers, &[])
        .functions(Cudnn::SIGNATURES)
        .functions(CublasLt::SIGNATURES)
        .constants(names::CONSTANTS)
        .constants(library::CONSTANTS)
        .layout("cublasLtMatmulAlgo_t", size_of::<cublasLtMatmulAlgo_t>(), &[("data", 0)])
        .layout("cublasLtMatmulHeuristicResult_t", size_of::<Found>(), &found);
    print!("{}", program.program());
}
