//! Ranges for profilers: ROCTx and NVTX, where the process has their libraries.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::dynlib::guard;
use hipdnn_plugin_sdk::dynlib::loaded::table_of_loaded;
use hipdnn_plugin_sdk::function_table;

use crate::log;

function_table! {
    /// AMD's ranges.
    #[expect(non_snake_case, reason = "the names of ROCTx")]
    struct Roctx: "ROCTx", ["librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0", "libroctx64.so.4"] {
        required {
            fn roctxRangePushA(name: *const c_char) -> c_int;
            fn roctxRangePop() -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// NVIDIA's ranges.
    #[expect(non_snake_case, reason = "the names of NVTX")]
    struct Nvtx: "NVTX", ["libnvToolsExt.so.1"] {
        required {
            fn nvtxRangePushA(name: *const c_char) -> c_int;
            fn nvtxRangePop() -> c_int;
        }
        optional {}
    }
}

static ROCTX: OnceLock<Option<Roctx>> = OnceLock::new();
static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();
static ANY: AtomicBool = AtomicBool::new(false);

/// Looks whether a library of ranges is loaded; not on a thread that a plugin may wait for.
pub fn look() {
    let is_off = std::env::var_os("HIPDNN_TRACE_RANGES").is_some_and(|word| word == "0");
    let roctx =
        || table_of_loaded(&ROCTX, Roctx::LIBRARIES, |library| Roctx::load_from(&[library])).is_some();
    let nvtx = || table_of_loaded(&NVTX, Nvtx::LIBRARIES, |library| Nvtx::load_from(&[library])).is_some();
    // Either may be there, or both.
    if !is_off && [roctx(), nvtx()].contains(&true) {
        ANY.store(true, Ordering::Relaxed);
        log::watch();
    }
}

/// A range that ends when it is dropped, on the same thread.
pub struct Range(());

/// Begins a range, where somebody shows them.
pub fn push(name: impl FnOnce() -> String) -> Option<Range> {
    if ANY.load(Ordering::Relaxed) { begin(&name()) } else { None }
}

#[cold]
fn begin(name: &str) -> Option<Range> {
    let name = CString::new(name.replace('\0', " ")).ok()?;
    // SAFETY: the text ends with a NUL, and whoever keeps it copies it.
    unsafe {
        if let Some(roctx) = ROCTX.get().and_then(Option::as_ref) {
            forget((roctx.roctxRangePushA)(name.as_ptr()));
        }
        if let Some(nvtx) = NVTX.get().and_then(Option::as_ref) {
            forget((nvtx.nvtxRangePushA)(name.as_ptr()));
        }
    }
    Some(Range(()))
}

/// Nothing is to be done about a failure, nor about an exception, which nobody else is to take for theirs.
fn forget(answer: c_int) {
    guard::thrown("", answer);
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: a range of this thread was begun.
        unsafe {
            if let Some(roctx) = ROCTX.get().and_then(Option::as_ref) {
                forget((roctx.roctxRangePop)());
            }
            if let Some(nvtx) = NVTX.get().and_then(Option::as_ref) {
                forget((nvtx.nvtxRangePop)());
            }
        }
    }
}
