//! Prints a C++ program that compiles if `hip/hiprtc.h` and `hip/hip_runtime_api.h` agree with the functions,
//! constants and layouts declared by this plugin and the SDK.

use std::mem::offset_of;

use hipdnn_plugin_sdk::hip::{self, Hip, hipPointerAttribute_t};
use hipdnn_plugin_sdk::prototypes::Prototypes;
use hipdnn_rtc_plugin::compiler::SUCCESS;
use hipdnn_rtc_plugin::hip::Modules;
use hipdnn_rtc_plugin::hiprtc::Hiprtc;

const HEAD: &str = "\
#define __HIP_PLATFORM_AMD__ 1
// Templates that have the names of functions.
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
";

fn main() {
    type Attributes = hipPointerAttribute_t;
    let attributes = [
        ("type", offset_of!(Attributes, kind)),
        ("device", offset_of!(Attributes, device)),
        ("devicePointer", offset_of!(Attributes, device_pointer)),
        ("hostPointer", offset_of!(Attributes, host_pointer)),
        ("isManaged", offset_of!(Attributes, is_managed)),
        ("allocationFlags", offset_of!(Attributes, allocation_flags)),
    ];
    let numbers = [
        ("hipSuccess", hip::HIP_SUCCESS),
        ("hipErrorInvalidValue", hip::HIP_ERROR_INVALID_VALUE),
        ("hipErrorNoDevice", hip::HIP_ERROR_NO_DEVICE),
        ("hipMemcpyHostToHost", hip::HIP_MEMCPY_HOST_TO_HOST),
        ("hipMemcpyHostToDevice", hip::HIP_MEMCPY_HOST_TO_DEVICE),
        ("hipMemcpyDeviceToHost", hip::HIP_MEMCPY_DEVICE_TO_HOST),
        ("hipMemcpyDeviceToDevice", hip::HIP_MEMCPY_DEVICE_TO_DEVICE),
        ("hipMemcpyDefault", hip::HIP_MEMCPY_DEFAULT),
        ("HIPRTC_SUCCESS", SUCCESS),
    ];
    let numbers = numbers.map(|(name, number)| (name, i64::from(number)));
    let integers = &["hipError_t", "hiprtcResult", "hipMemcpyKind"];
    let program = Prototypes::new(HEAD, integers, &["hiprtcProgram"])
        .functions(Hip::SIGNATURES)
        .functions(Hiprtc::SIGNATURES)
        .functions(Modules::SIGNATURES)
        .constants(&numbers)
        .layout("hipPointerAttribute_t", size_of::<Attributes>(), &attributes);
    print!("{}", program.program());
}
