//! The threads of ONNX Runtime's session, for the provider's own operations, and lent to CPU_ENGINE during an execution.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ort::{Ort, OrtKernelContext, OrtRunOptions};
use crate::terminate;

/// The function of the engine's plugin that accepts a pool, and the one that runs a loop on the engine's threads.
const LEND: &CStr = c"hipdnnCpuPluginLendThreads_ext";
const RUN: &CStr = c"hipdnnCpuPluginRunParallel_ext";

/// The plugin's file name.
const PLUGIN: &str = "libhipdnn_cpu_plugin.so";

/// A pool, as the plugin declares it.
#[repr(C)]
struct Pool {
    run: Option<unsafe extern "C" fn(*mut c_void, Work, *mut c_void, usize) -> c_int>,
    program: *mut c_void,
}

/// Calls a function with each index below a count, on several threads if available.
pub type Parallel<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync)) -> Result<(), String>;

type Work = unsafe extern "C" fn(*mut c_void, usize);
type Lend = Setter<Pool>;
type Loop = unsafe extern "C" fn(Work, *mut c_void, usize, usize) -> c_int;

/// The engine's functions, if its plugin has them.
#[derive(Clone, Copy)]
pub struct Threads {
    lend: Lend,
    run: Option<Loop>,
}

impl Threads {
    /// Looks for the plugin among the loaded libraries.
    pub fn find() -> Option<Self> {
        let lend = function(LEND)?;
        let run = function(RUN).unwrap_or(ptr::null_mut());
        // SAFETY: functions of these names have these types; a null pointer is `None`.
        unsafe {
            Some(Self {
                lend: std::mem::transmute::<*mut c_void, Lend>(lend),
                run: std::mem::transmute::<*mut c_void, Option<Loop>>(run),
            })
        }
    }

    /// Calls `work` with each index below `count` on up to `threads` of the threads that executions use; `None` if
    /// the plugin runs no loops.
    pub fn each(
        self,
        count: usize,
        threads: usize,
        work: &(dyn Fn(usize) + Sync),
    ) -> Option<Result<(), String>> {
        let call = Call { work, panicked: AtomicBool::new(false) };
        // SAFETY: the call object lives until all of its calls have returned.
        let status = unsafe { (self.run?)(one, (&raw const call).cast_mut().cast(), count, threads) };
        Some(call.result(status == 0))
    }

    /// Runs `f` while this thread's executions may use the session's threads, through a kernel's context.
    ///
    /// # Safety
    /// The context is that of a call on this thread, which does not return before `f` does.
    pub unsafe fn lend<R>(self, ort: Ort, context: *mut OrtKernelContext, f: impl FnOnce() -> R) -> R {
        let lender = Lender { ort, context, options: terminate::run() };
        let pool = Pool { run: Some(run), program: (&raw const lender).cast_mut().cast() };
        // SAFETY: pool and lender outlive the guard, which restores the former pool.
        let _end = unsafe { Set::new(self.lend, &raw const pool) };
        f()
    }
}

/// Calls `work` with each index below `count` on the session's threads, through a kernel's context.
///
/// # Safety
/// The context is that of a call on this thread.
pub unsafe fn each(
    ort: Ort,
    context: *mut OrtKernelContext,
    count: usize,
    work: &(dyn Fn(usize) + Sync),
) -> Result<(), String> {
    let call = Call { work, panicked: AtomicBool::new(false) };
    // SAFETY: the context is that of a call on this thread, as this function requires; the call object lives until all of its calls have
    // returned.
    let status = unsafe {
        let data = (&raw const call).cast_mut().cast();
        ort.api.KernelContext_ParallelFor(context, one, count, count, data)
    };
    ort.check(status, "ParallelFor").map_err(|failure| failure.text)?;
    call.result(true)
}

struct Call<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    panicked: AtomicBool,
}

impl Call<'_> {
    fn result(&self, has_run: bool) -> Result<(), String> {
        let is_right = has_run && !self.panicked.load(Ordering::Relaxed);
        if is_right { Ok(()) } else { Err("a thread panicked".to_owned()) }
    }
}

/// # Safety
/// `call` is the one that `run` passes, and waits for this.
unsafe extern "C" fn one(call: *mut c_void, at: usize) {
    // SAFETY: `each` passed this pointer, and waits for this call.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    if catch_unwind(AssertUnwindSafe(|| (call.work)(at))).is_err() {
        call.panicked.store(true, Ordering::Relaxed);
    }
}

struct Lender {
    ort: Ort,
    context: *mut OrtKernelContext,
    options: *const OrtRunOptions,
}

/// A function of the engine's plugin that sets what this thread's calls use, and returns what was set before.
pub type Setter<T> = unsafe extern "C" fn(*const T) -> *const T;

/// What is set for this thread. Restores the former on drop.
pub struct Set<T> {
    set: Setter<T>,
    before: *const T,
}

impl<T> Set<T> {
    /// Sets it.
    ///
    /// # Safety
    /// The function may be called with `now`, which outlives this.
    pub unsafe fn new(set: Setter<T>, now: *const T) -> Self {
        // SAFETY: this function requires that it may be called so.
        Self { set, before: unsafe { set(now) } }
    }
}

impl<T> Drop for Set<T> {
    fn drop(&mut self) {
        // SAFETY: the former is null, or that of an outer call on this thread.
        unsafe { (self.set)(self.before) };
    }
}

/// Runs work on ONNX Runtime's threads.
///
/// # Safety
/// `lender` is the one that was lent with this function; `work` may be called with `data` until this returns.
unsafe extern "C" fn run(lender: *mut c_void, work: Work, data: *mut c_void, count: usize) -> c_int {
    // SAFETY: the plugin passes back the lent pool, while it is lent.
    let Lender { ort, context, options } = unsafe { &*lender.cast::<Lender>() };
    // The engine ends an execution whose pool fails: a run that was told to end does so inside of a graph, too. Between steps it
    // asks with a count of 0, from any of the threads.
    if terminate::check_run(*options).is_err() {
        return 1;
    }
    if count == 0 {
        return 0;
    }
    // SAFETY: the context belongs to the call that lends its threads; the data lives until all calls have returned.
    let status = unsafe { ort.api.KernelContext_ParallelFor(*context, work, count, count, data) };
    c_int::from(ort.check(status, "ParallelFor").is_err())
}

/// A function of the engine's plugin, if the plugin is among the loaded libraries and has it.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    let mut path: Option<CString> = None;
    // SAFETY: the callback gets the data that it expects, during the call only.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut path).cast()) };
    // SAFETY: the library is loaded already, so none of its code runs now; plugins stay loaded as long as the process.
    let function = unsafe {
        let plugin = libc::dlopen(path?.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if plugin.is_null() { ptr::null_mut() } else { libc::dlsym(plugin, name.as_ptr()) }
    };
    (!function.is_null()).then_some(function)
}

/// Copies the path of a library if it is the plugin.
///
/// # Safety
/// The loader calls this with a library and the path that it was given.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, path: *mut c_void) -> c_int {
    // SAFETY: the loader's description is alive during the call.
    let name: *const c_char = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the loader's string ends with a NUL.
    let name = unsafe { CStr::from_ptr(name) };
    let is_plugin = name.to_bytes().rsplit(|byte| *byte == b'/').next() == Some(PLUGIN.as_bytes());
    if is_plugin {
        // SAFETY: `find` passes its option.
        unsafe { *path.cast::<Option<CString>>() = Some(name.to_owned()) };
    }
    c_int::from(is_plugin)
}
