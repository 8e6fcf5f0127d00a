//! The process: its id, exit and forks.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::api;

/// The id of this process.
pub fn id() -> u32 {
    std::process::id()
}

/// Functions to call at exit, last first; each is removed before its call.
static ENDS: [AtomicPtr<()>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

extern "C" fn end() -> c_int {
    for end in ENDS.iter().rev() {
        let end = end.swap(ptr::null_mut(), Ordering::AcqRel);
        if !end.is_null() {
            // SAFETY: only `at_exit` stores here, and it stores functions of this type.
            unsafe { std::mem::transmute::<*mut (), extern "C" fn()>(end)() };
        }
    }
    0
}

/// Calls `end` when the process exits normally, by `exit` or the end of `main`, while other threads still
/// run.
///
/// A library's own exit handlers run after the system has ended all other threads. So this registers with the
/// C runtimes that programs link to; the first one that exits calls all.
pub fn at_exit(function: extern "C" fn()) {
    let takes = |slot: &AtomicPtr<()>| {
        let function = function as *mut ();
        slot.compare_exchange(ptr::null_mut(), function, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    if ENDS.iter().position(takes) != Some(0) {
        return;
    }
    register(c"ucrtbase.dll", c"_crt_atexit");
    register(c"msvcrt.dll", c"_onexit");
}

/// Registers with a runtime, if the process has loaded it.
fn register(runtime: &CStr, function: &CStr) {
    // SAFETY: both names end with a NUL. The functions take a function without arguments, of which one runtime looks at the
    // result, and keep it; this library stays in memory until the process has ended.
    unsafe {
        let module = api::GetModuleHandleA(runtime.as_ptr());
        let address =
            if module.is_null() { ptr::null() } else { api::GetProcAddress(module, function.as_ptr()) };
        if !address.is_null() {
            type Register = unsafe extern "C" fn(extern "C" fn() -> c_int) -> usize;
            std::mem::transmute::<*const (), Register>(address)(end);
        }
    }
}

/// Does nothing: Windows does not fork.
pub fn at_fork(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}

/// Keeps the library with this address loaded until the process ends.
pub fn keep_loaded(address: *const c_void) {
    let mut module = ptr::null_mut();
    // SAFETY: the address is one of a library that is loaded, and the function writes only to the local `module`.
    unsafe {
        api::GetModuleHandleExW(api::MODULE_FROM_ADDRESS | api::MODULE_PIN, address.cast(), &mut module)
    };
}

/// None, as Windows does not fork.
#[doc(hidden)]
pub fn in_fork<T>(_: T, _: impl FnOnce() -> bool) -> Option<bool> {
    None
}
