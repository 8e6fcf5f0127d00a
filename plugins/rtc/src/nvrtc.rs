//! The part of NVRTC that the engine needs, loaded at run time.
//!
//! The signatures are those of `nvrtc.h` of CUDA 12 and 13; the example `cuda_prototypes` writes a program
//! that compares them with the header.

#![expect(non_camel_case_types, reason = "the names of NVRTC")]

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use hipdnn_plugin_sdk::cuda::search::candidates;
use hipdnn_plugin_sdk::dynlib::{self, Candidate};
use hipdnn_plugin_sdk::function_table;

use crate::compiler::{Compiler, RtcProgram, RtcResult};

/// Result of an NVRTC function; 0 is success.
pub type nvrtcResult = RtcResult;
/// A program that is being compiled.
pub type nvrtcProgram = RtcProgram;

function_table! {
    /// The functions of NVRTC.
    #[expect(non_snake_case, reason = "the names of NVRTC")]
    pub struct Nvrtc: "NVRTC", ["libnvrtc.so.13", "libnvrtc.so.12"] {
        required {
            /// The text of an error, which lives for ever.
            fn nvrtcGetErrorString(result: nvrtcResult) -> *const c_char;
            /// The version.
            fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> nvrtcResult;
            /// Creates a program from a source and named headers.
            fn nvrtcCreateProgram(
                program: *mut nvrtcProgram,
                source: *const c_char,
                name: *const c_char,
                count: c_int,
                headers: *mut *const c_char,
                names: *mut *const c_char
            ) -> nvrtcResult;
            /// Compiles a program with options.
            fn nvrtcCompileProgram(
                program: nvrtcProgram,
                count: c_int,
                options: *mut *const c_char
            ) -> nvrtcResult;
            /// The size of the compiler's log, with the NUL.
            fn nvrtcGetProgramLogSize(program: nvrtcProgram, size: *mut usize) -> nvrtcResult;
            /// The compiler's log.
            fn nvrtcGetProgramLog(program: nvrtcProgram, log: *mut c_char) -> nvrtcResult;
            /// The size of the device code.
            fn nvrtcGetCUBINSize(program: nvrtcProgram, size: *mut usize) -> nvrtcResult;
            /// The device code.
            fn nvrtcGetCUBIN(program: nvrtcProgram, code: *mut c_char) -> nvrtcResult;
            /// Destroys a program.
            fn nvrtcDestroyProgram(program: *mut nvrtcProgram) -> nvrtcResult;
        }
        optional {}
    }
}

/// Products and sums are rounded separately, as with hipRTC.
const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false"];

/// NVRTC as a compiler.
///
/// # Errors
/// What was tried.
pub fn compiler() -> Result<Compiler, dynlib::Error> {
    static NVRTC: OnceLock<Result<Nvrtc, dynlib::Error>> = OnceLock::new();
    let load = || {
        let paths = candidates(&Nvrtc::LIBRARIES.iter().map(|library| library.file).collect::<Vec<_>>());
        Nvrtc::load_from(&paths.iter().map(|path| Candidate::from(path.as_str())).collect::<Vec<_>>())
    };
    let table = NVRTC.get_or_init(load).as_ref().map_err(Clone::clone)?;
    Ok(Compiler {
        library: table.library().name(),
        prefix: "nvrtc",
        architecture_option: "--gpu-architecture=",
        options: OPTIONS,
        error_string: table.nvrtcGetErrorString,
        version: table.nvrtcVersion,
        create: table.nvrtcCreateProgram,
        compile: table.nvrtcCompileProgram,
        log_size: table.nvrtcGetProgramLogSize,
        log: table.nvrtcGetProgramLog,
        code_name: "CUBIN",
        code_size: table.nvrtcGetCUBINSize,
        code: table.nvrtcGetCUBIN,
        destroy: table.nvrtcDestroyProgram,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_found_or_the_error_says_what_was_looked_for() {
        match compiler() {
            Ok(compiler) => {
                assert!(compiler.name().unwrap().starts_with(compiler.library));
                let error = compiler.compile("this is not a source", "sm_90").unwrap_err();
                assert!(error.message().contains("sm_90"), "{error}");
                let source = "extern \"C\" __global__ void f(float *a) { a[0] = 1.0f; }";
                assert!(compiler.compile(source, "sm_90").unwrap().starts_with(b"\x7fELF"));
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for NVRTC was found"), "{message}");
                assert!(Nvrtc::LIBRARIES.iter().all(|name| message.contains(name.file)), "{message}");
            }
        }
    }
}
