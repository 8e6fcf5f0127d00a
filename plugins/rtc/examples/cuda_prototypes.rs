//! Prints a C++ program that compiles if `cuda.h` and `nvrtc.h` agree with the functions and constants
//! declared by this plugin and the SDK.

use hipdnn_plugin_sdk::cuda::{CONSTANTS, Cuda};
use hipdnn_plugin_sdk::prototypes::Prototypes;
use hipdnn_rtc_plugin::compiler::SUCCESS;
use hipdnn_rtc_plugin::nvrtc::Nvrtc;

const HEAD: &str = "\
#include <cuda.h>
#include <nvrtc.h>
";

fn main() {
    let integers = &["CUresult", "CUdevice", "nvrtcResult"];
    let pointers = &[
        "CUcontext",
        "CUstream",
        "CUevent",
        "CUgraph",
        "CUgraphExec",
        "CUmodule",
        "CUfunction",
        "nvrtcProgram",
    ];
    let program = Prototypes::new(HEAD, integers, pointers)
        .functions(Cuda::SIGNATURES)
        .functions(Nvrtc::SIGNATURES)
        .constants(CONSTANTS)
        .constants(&[("NVRTC_SUCCESS", i64::from(SUCCESS))]);
    print!("{}", program.program());
}
