//! The part of hipRTC that the engine needs, loaded at run time.
//!
//! The signatures and constants are those of `hip/hiprtc.h` of HIP 5 to 7; `cargo xtask amd-test` compares
//! them with the installed header.

#![expect(non_camel_case_types, reason = "the names of hipRTC")]

use std::ffi::{c_char, c_int};

use hipdnn_plugin_sdk::{dynlib, function_table};

use crate::compiler::{Compiler, RtcProgram, RtcResult};

/// Result of a hipRTC function; 0 is success.
pub type hiprtcResult = RtcResult;
/// A program that is being compiled.
pub type hiprtcProgram = RtcProgram;

function_table! {
    /// The functions of hipRTC.
    #[expect(non_snake_case, reason = "the names of hipRTC")]
    pub struct Hiprtc: "hipRTC", ["libhiprtc.so.7", "libhiprtc.so.6"] {
        required {
            /// The text of an error, which lives for ever.
            fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char;
            /// The version.
            fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> hiprtcResult;
            /// Creates a program from a source and named headers.
            fn hiprtcCreateProgram(
                program: *mut hiprtcProgram,
                source: *const c_char,
                name: *const c_char,
                count: c_int,
                headers: *mut *const c_char,
                names: *mut *const c_char
            ) -> hiprtcResult;
            /// Compiles a program with options.
            fn hiprtcCompileProgram(
                program: hiprtcProgram,
                count: c_int,
                options: *mut *const c_char
            ) -> hiprtcResult;
            /// The size of the compiler's log, with the NUL.
            fn hiprtcGetProgramLogSize(program: hiprtcProgram, size: *mut usize) -> hiprtcResult;
            /// The compiler's log.
            fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) -> hiprtcResult;
            /// The size of the code object.
            fn hiprtcGetCodeSize(program: hiprtcProgram, size: *mut usize) -> hiprtcResult;
            /// The code object.
            fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) -> hiprtcResult;
            /// Destroys a program.
            fn hiprtcDestroyProgram(program: *mut hiprtcProgram) -> hiprtcResult;
        }
        optional {}
    }
}

/// Products and sums are rounded separately, so that results do not depend on which ones the compiler
/// contracts; tensors that share memory may have different types.
const OPTIONS: &[&str] = &["-O3", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing"];

/// hipRTC as a compiler.
///
/// # Errors
/// What was tried.
pub fn compiler() -> Result<Compiler, dynlib::Error> {
    let table = Hiprtc::get()?;
    Ok(Compiler {
        library: table.library().name(),
        prefix: "hiprtc",
        architecture_option: "--offload-arch=",
        options: OPTIONS,
        error_string: table.hiprtcGetErrorString,
        version: table.hiprtcVersion,
        create: table.hiprtcCreateProgram,
        compile: table.hiprtcCompileProgram,
        log_size: table.hiprtcGetProgramLogSize,
        log: table.hiprtcGetProgramLog,
        code_name: "Code",
        code_size: table.hiprtcGetCodeSize,
        code: table.hiprtcGetCode,
        destroy: table.hiprtcDestroyProgram,
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
                let error = compiler.compile("this is not a source", "gfx1100").unwrap_err();
                assert!(error.message().contains("gfx1100"), "{error}");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for hipRTC was found"), "{message}");
                assert!(Hiprtc::LIBRARIES.iter().all(|library| message.contains(library.file)), "{message}");
            }
        }
    }

    #[test]
    fn another_library_lacks_every_function() {
        let message = Hiprtc::load_from(&["libm.so.6"]).unwrap_err().to_string();
        assert!(message.contains(" (it lacks hiprtcGetErrorString, "), "{message}");
        assert!(message.ends_with("hiprtcDestroyProgram)"), "{message}");
    }
}
