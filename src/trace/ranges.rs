//! Ranges for profilers: ROCTx and NVTX, if the process has loaded their libraries or runs under an NVIDIA profiler.

use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::dynlib::guard;
use hipdnn_plugin_sdk::dynlib::loaded::{Table, table_of_loaded};
use hipdnn_plugin_sdk::function_table;

use super::nvtx;
use super::profiler::Profiler;
use crate::lock::OnceLock;
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
    struct Nvtx: "NVTX", ["libnvToolsExt.so.1", "libnvtx3interop.so.1"] {
        required {
            fn nvtxRangePushA(name: *const c_char) -> c_int;
            fn nvtxRangePop() -> c_int;
        }
        optional {}
    }
}

/// AMD's and NVIDIA's profilers, if present.
static PROFILERS: [OnceLock<&'static Profiler>; 2] = [OnceLock::new(), OnceLock::new()];
static ANY: AtomicBool = AtomicBool::new(false);

/// Looks for loaded range libraries. Do not call it on a thread that a plugin may wait for.
pub fn look() {
    if std::env::var_os("HIPDNN_TRACE_RANGES").is_some_and(|word| word == "0") {
        return;
    }
    for (kept, find) in PROFILERS.iter().zip([roctx, nvtx]) {
        if kept.get().is_none()
            && let Some(profiler) = find()
        {
            kept.get_or_init(|| profiler);
            ANY.store(true, Ordering::Relaxed);
            log::watch();
        }
    }
}

fn roctx() -> Option<&'static Profiler> {
    static LIBRARY: Table<Roctx> = Table::new();
    static FUNCTIONS: OnceLock<Profiler> = OnceLock::new();
    let library = table_of_loaded(&LIBRARY, Roctx::LIBRARIES, |library| Roctx::load_from(&[library]))?;
    let functions = || Profiler { push: library.roctxRangePushA, pop: library.roctxRangePop };
    Some(FUNCTIONS.get_or_init(functions))
}

/// Prefers the library, which itself passes ranges to the profiler.
fn nvtx() -> Option<&'static Profiler> {
    static LIBRARY: Table<Nvtx> = Table::new();
    static FUNCTIONS: OnceLock<Profiler> = OnceLock::new();
    match table_of_loaded(&LIBRARY, Nvtx::LIBRARIES, |library| Nvtx::load_from(&[library])) {
        Some(library) => {
            let functions = || Profiler { push: library.nvtxRangePushA, pop: library.nvtxRangePop };
            Some(FUNCTIONS.get_or_init(functions))
        }
        None => nvtx::profiler(),
    }
}

/// A range that ends on drop, on the same thread, with the profilers that it began with.
pub struct Range([Option<&'static Profiler>; 2]);

/// Begins a range, if a profiler is present.
pub fn push(name: impl FnOnce() -> String) -> Option<Range> {
    if ANY.load(Ordering::Relaxed) { begin(&name()) } else { None }
}

#[cold]
fn begin(name: &str) -> Option<Range> {
    let name = CString::new(name.replace('\0', " ")).ok()?;
    let profilers = PROFILERS.each_ref().map(|profiler| profiler.get().copied());
    for profiler in profilers.iter().flatten() {
        // SAFETY: the text ends with a NUL, and profilers copy it.
        forget(unsafe { (profiler.push)(name.as_ptr()) });
    }
    Some(Range(profilers))
}

/// Drops failures and exceptions, so that the caller does not mistake them for its own.
fn forget(answer: c_int) {
    guard::thrown("", answer);
}

impl Drop for Range {
    fn drop(&mut self) {
        for profiler in self.0.iter().flatten() {
            // SAFETY: this thread has begun a range.
            forget(unsafe { (profiler.pop)() });
        }
    }
}
