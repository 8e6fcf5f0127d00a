//! The part of hipRTC that the engine needs, looked for at run time.
//!
//! The signatures and numbers are those of `hip/hiprtc.h` of HIP 5 to 7; `cargo xtask amd-test` compares them with the installed
//! header.

#![expect(non_camel_case_types, reason = "the names of hipRTC")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use hipdnn_plugin_sdk::{PluginError, function_table};

/// What a hipRTC function answers; 0 is success.
pub type hiprtcResult = c_int;
/// A program that is being compiled.
pub type hiprtcProgram = *mut c_void;

/// No error.
pub const HIPRTC_SUCCESS: hiprtcResult = 0;

function_table! {
    /// The functions of hipRTC.
    #[expect(non_snake_case, reason = "the names of hipRTC")]
    pub struct Hiprtc: "hipRTC", ["libhiprtc.so.7", "libhiprtc.so.6"] {
        required {
            /// The text of an error, which lives for ever.
            fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char;
            /// The version.
            fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> hiprtcResult;
            /// Makes a program of a source, with headers by their names.
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
            /// The bytes of the compiler's words, with the NUL.
            fn hiprtcGetProgramLogSize(program: hiprtcProgram, size: *mut usize) -> hiprtcResult;
            /// The compiler's words.
            fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) -> hiprtcResult;
            /// The bytes of the code object.
            fn hiprtcGetCodeSize(program: hiprtcProgram, size: *mut usize) -> hiprtcResult;
            /// The code object.
            fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) -> hiprtcResult;
            /// Ends a program.
            fn hiprtcDestroyProgram(program: *mut hiprtcProgram) -> hiprtcResult;
        }
        optional {}
    }
}

/// The options of every compilation, beside the architecture. Products and sums are rounded one by one, so that results do not
/// depend on what the compiler joins; tensors that share memory may have different types.
pub const OPTIONS: &[&str] = &["-O3", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing"];

/// The most of the compiler's words that a message has.
const MAX_WORDS: usize = 2000;

/// A program, ended when it is dropped.
struct Program<'a> {
    hiprtc: &'a Hiprtc,
    program: hiprtcProgram,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is this one's own. A failure here leaves nothing to do.
        unsafe { (self.hiprtc.hiprtcDestroyProgram)(&mut self.program) };
    }
}

impl Hiprtc {
    /// Which compiler this is, for keys of what it compiled.
    ///
    /// # Errors
    /// hipRTC's.
    pub fn version(&self) -> Result<String, PluginError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the outputs are valid.
        self.check("hiprtcVersion", unsafe { (self.hiprtcVersion)(&mut major, &mut minor) })?;
        Ok(format!("{} {major}.{minor}", self.library().name()))
    }

    fn check(&self, function: &str, result: hiprtcResult) -> Result<(), PluginError> {
        if result == HIPRTC_SUCCESS {
            return Ok(());
        }
        // SAFETY: any number is fine.
        let text = unsafe { (self.hiprtcGetErrorString)(result) };
        let text = if text.is_null() {
            "no text".into()
        } else {
            // SAFETY: hipRTC's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        Err(PluginError::internal(format!("{function} failed with error {result}: {text}")))
    }

    /// Compiles a source into a code object for an architecture, `gfx1100` for instance. No device is needed.
    ///
    /// # Errors
    /// hipRTC's, with the compiler's first words.
    pub fn compile(&self, source: &str, architecture: &str) -> Result<Vec<u8>, PluginError> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| PluginError::internal("a source or an architecture has a NUL"))
        };
        let source = text(source)?;
        let mut program = Program { hiprtc: self, program: ptr::null_mut() };
        // SAFETY: the texts are NUL terminated, there are no headers, and what is made is ended with the owner. Where the call
        // fails the pointer stays null, so the owner is forgotten.
        let result = unsafe {
            (self.hiprtcCreateProgram)(
                &mut program.program,
                source.as_ptr(),
                c"hipdnn".as_ptr(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if let Err(error) = self.check("hiprtcCreateProgram", result) {
            std::mem::forget(program);
            return Err(error);
        }
        let mut options = vec![text(&format!("--offload-arch={architecture}"))?];
        for option in OPTIONS {
            options.push(text(option)?);
        }
        let mut pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive and there are as many options as is said.
        let result = unsafe {
            (self.hiprtcCompileProgram)(program.program, pointers.len() as c_int, pointers.as_mut_ptr())
        };
        if let Err(error) = self.check("hiprtcCompileProgram", result) {
            let words = self.words(&program).unwrap_or_default();
            return Err(error.with_context(|error| format!("{error} ({architecture})\n{words}")));
        }
        let mut size = 0;
        // SAFETY: the program is alive and the output valid.
        self.check("hiprtcGetCodeSize", unsafe { (self.hiprtcGetCodeSize)(program.program, &mut size) })?;
        let mut code = vec![0_u8; size];
        // SAFETY: there is room for as many bytes as was said.
        let result = unsafe { (self.hiprtcGetCode)(program.program, code.as_mut_ptr().cast()) };
        self.check("hiprtcGetCode", result)?;
        Ok(code)
    }

    fn words(&self, program: &Program<'_>) -> Option<String> {
        let mut size = 0;
        // SAFETY: the program is alive and the output valid.
        let result = unsafe { (self.hiprtcGetProgramLogSize)(program.program, &mut size) };
        self.check("hiprtcGetProgramLogSize", result).ok()?;
        let mut words = vec![0_u8; size];
        // SAFETY: there is room for as many bytes as was said.
        let result = unsafe { (self.hiprtcGetProgramLog)(program.program, words.as_mut_ptr().cast()) };
        self.check("hiprtcGetProgramLog", result).ok()?;
        words.truncate(MAX_WORDS);
        Some(String::from_utf8_lossy(&words).trim_end_matches('\0').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_found_or_the_error_says_what_was_looked_for() {
        match Hiprtc::get() {
            Ok(hiprtc) => {
                assert!(hiprtc.version().unwrap().starts_with(hiprtc.library().name()));
                let error = hiprtc.compile("this is no source", "gfx1100").unwrap_err();
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
        assert!(message.contains("libm.so.6 (it lacks hiprtcGetErrorString, "), "{message}");
        assert!(message.ends_with("hiprtcDestroyProgram)"), "{message}");
    }
}
