//! The interface of profilers for marking ranges.

use std::ffi::{c_char, c_int};

/// A profiler's functions for ranges.
pub(super) struct Profiler {
    pub push: unsafe extern "C" fn(name: *const c_char) -> c_int,
    pub pop: unsafe extern "C" fn() -> c_int,
}
