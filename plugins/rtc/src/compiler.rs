//! A runtime compiler: hipRTC or NVRTC, which have similar functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::dynlib::answer::{MOST_CODE, MOST_WORDS, room};
use hipdnn_plugin_sdk::dynlib::guard::thrown;

/// Result of a compiler function; 0 is success.
pub type RtcResult = c_int;
/// A program that is being compiled.
pub type RtcProgram = *mut c_void;

/// No error.
pub const SUCCESS: RtcResult = 0;

/// How much of the compiler's log a message contains.
const MAX_WORDS: usize = 2000;

/// The functions of a compiler and how to call them.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    /// The file that the functions come from.
    pub library: &'static str,
    /// The prefix of its function names, for messages.
    pub prefix: &'static str,
    /// The option that precedes an architecture.
    pub architecture_option: &'static str,
    /// The options of every compilation, besides the architecture.
    pub options: &'static [&'static str],
    /// The text of an error, which lives for ever.
    pub error_string: unsafe extern "C" fn(RtcResult) -> *const c_char,
    /// The version.
    pub version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> RtcResult,
    /// Creates a program from a source and named headers.
    pub create: unsafe extern "C" fn(
        *mut RtcProgram,
        *const c_char,
        *const c_char,
        c_int,
        *mut *const c_char,
        *mut *const c_char,
    ) -> RtcResult,
    /// Compiles a program with options.
    pub compile: unsafe extern "C" fn(RtcProgram, c_int, *mut *const c_char) -> RtcResult,
    /// The size of the compiler's log, with the NUL.
    pub log_size: unsafe extern "C" fn(RtcProgram, *mut usize) -> RtcResult,
    /// The compiler's log.
    pub log: unsafe extern "C" fn(RtcProgram, *mut c_char) -> RtcResult,
    /// What the functions that return code call it.
    pub code_name: &'static str,
    /// The size of the code.
    pub code_size: unsafe extern "C" fn(RtcProgram, *mut usize) -> RtcResult,
    /// The code.
    pub code: unsafe extern "C" fn(RtcProgram, *mut c_char) -> RtcResult,
    /// Destroys a program.
    pub destroy: unsafe extern "C" fn(*mut RtcProgram) -> RtcResult,
}

/// A program, destroyed on drop.
struct Program<'a> {
    compiler: &'a Compiler,
    program: RtcProgram,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the program. Failures are ignored.
        unsafe { (self.compiler.destroy)(&mut self.program) };
    }
}

impl Compiler {
    /// The compiler's identity, for cache keys.
    ///
    /// # Errors
    /// The compiler's.
    pub fn name(&self) -> Result<String, PluginError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function writes only to the locals `major` and `minor`.
        self.check("Version", unsafe { (self.version)(&mut major, &mut minor) })?;
        Ok(format!("{} {major}.{minor}", self.library))
    }

    fn check(&self, function: &str, result: RtcResult) -> Result<(), PluginError> {
        if result == SUCCESS {
            return Ok(());
        }
        if let Some(message) = thrown(&format!("{}{function}", self.prefix), result) {
            return Err(PluginError::internal(message));
        }
        // SAFETY: the function takes any number as a result and returns a text that lives for ever.
        let text = unsafe { (self.error_string)(result) };
        let text = if text.is_null() {
            "no text".into()
        } else {
            // SAFETY: the compiler's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        Err(PluginError::internal(format!("{}{function} failed with error {result}: {text}", self.prefix)))
    }

    /// Compiles a source for an architecture, for instance `gfx1100` or `sm_90`. Needs no device.
    ///
    /// # Errors
    /// The compiler's, with the beginning of its log.
    pub fn compile(&self, source: &str, architecture: &str) -> Result<Vec<u8>, PluginError> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| PluginError::internal("a source or an architecture has a NUL"))
        };
        let source = text(source)?;
        let mut made = ptr::null_mut();
        // SAFETY: the texts are NUL terminated, there are no headers, and the owner below destroys the new program.
        let result = unsafe {
            (self.create)(&mut made, source.as_ptr(), c"hipdnn".as_ptr(), 0, ptr::null_mut(), ptr::null_mut())
        };
        self.check("CreateProgram", result)?;
        let program = Program { compiler: self, program: made };
        let mut options = vec![text(&format!("{}{architecture}", self.architecture_option))?];
        for option in self.options {
            options.push(text(option)?);
        }
        let mut pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive and the number of options is right.
        let result =
            unsafe { (self.compile)(program.program, pointers.len() as c_int, pointers.as_mut_ptr()) };
        if let Err(error) = self.check("CompileProgram", result) {
            let words = self.words(&program).unwrap_or_default();
            return Err(error.with_context(|error| format!("{error} ({architecture})\n{words}")));
        }
        let mut size = 0;
        // SAFETY: `program` owns the compiler's program, and the function writes only to the local `size`.
        self.check(&format!("Get{}Size", self.code_name), unsafe {
            (self.code_size)(program.program, &mut size)
        })?;
        let function = format!("{}Get{}Size", self.prefix, self.code_name);
        let mut code = room(&function, size, MOST_CODE)?;
        // SAFETY: there is room for as many bytes as was said.
        let result = unsafe { (self.code)(program.program, code.as_mut_ptr().cast()) };
        self.check(&format!("Get{}", self.code_name), result)?;
        Ok(code)
    }

    fn words(&self, program: &Program<'_>) -> Option<String> {
        let mut size = 0;
        // SAFETY: `program` owns the compiler's program, and the function writes only to the local `size`.
        let result = unsafe { (self.log_size)(program.program, &mut size) };
        self.check("GetProgramLogSize", result).ok()?;
        let mut words = room("GetProgramLogSize", size, MOST_WORDS).ok()?;
        // SAFETY: there is room for as many bytes as was said.
        let result = unsafe { (self.log)(program.program, words.as_mut_ptr().cast()) };
        self.check("GetProgramLog", result).ok()?;
        words.truncate(MAX_WORDS);
        Some(String::from_utf8_lossy(&words).trim_end_matches('\0').to_owned())
    }
}
