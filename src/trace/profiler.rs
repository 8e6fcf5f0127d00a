//! What a profiler offers to programs that mark ranges.

use std::ffi::{c_char, c_int};

/// The functions that a profiler has for ranges.
pub(super) struct Profiler {
    pub push: unsafe extern "C" fn(name: *const c_char) -> c_int,
    pub pop: unsafe extern "C" fn() -> c_int,
}
