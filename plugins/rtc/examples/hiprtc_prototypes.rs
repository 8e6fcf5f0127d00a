//! Prints a C++ program that compiles where `hip/hiprtc.h` and `hip/hip_runtime_api.h` have the functions and numbers that this
//! plugin counts on.

use hipdnn_plugin_sdk::prototypes::Prototypes;
use hipdnn_rtc_plugin::hiprtc::{HIPRTC_SUCCESS, Hiprtc};
use hipdnn_rtc_plugin::module::Modules;

const HEAD: &str = "\
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
";

fn main() {
    let program = Prototypes::new(HEAD, &["hipError_t", "hiprtcResult"], &["hiprtcProgram"])
        .functions(Hiprtc::SIGNATURES)
        .functions(Modules::SIGNATURES)
        .constants(&[("HIPRTC_SUCCESS", HIPRTC_SUCCESS.into())]);
    print!("{}", program.program());
}
