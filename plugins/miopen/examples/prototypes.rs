//! Prints a C++ program that compiles if `miopen/miopen.h` agrees with the functions, constants and layouts
//! declared by this plugin. (The header is C++, although it claims to be C.)

use std::mem::offset_of;

use hipdnn_miopen_plugin::miopen::{CONSTANTS, Miopen, miopenTensorArgument_t};
use hipdnn_plugin_sdk::prototypes::Prototypes;

const HEAD: &str = "\
#define __HIP_PLATFORM_AMD__ 1
#define MIOPEN_BETA_API 1
#include <hip/hip_runtime_api.h>
#include <miopen/miopen.h>
";

fn main() {
    type Argument = miopenTensorArgument_t;
    let fields = [
        ("id", offset_of!(Argument, id)),
        ("descriptor", offset_of!(Argument, descriptor)),
        ("buffer", offset_of!(Argument, buffer)),
    ];
    let program = Prototypes::new(HEAD, &["miopenStatus_t"], &[])
        .functions(Miopen::SIGNATURES)
        .constants(CONSTANTS)
        .layout("miopenTensorArgument_t", size_of::<Argument>(), &fields);
    print!("{}", program.program());
}
