//! Threads and their ids and names in the system.

use std::ffi::{CStr, OsString, c_void};
use std::os::windows::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::api;
pub use super::key::Key;

/// Starts a named thread, and returns whether that was possible. A panic ends it.
pub fn start(name: &CStr, work: impl FnOnce() + Send + 'static) -> bool {
    type Work = Box<dyn FnOnce() + Send>;
    /// # Safety
    /// `work` is a `Work` that was made of a box, and that nothing else uses.
    unsafe extern "system" fn run(work: *mut c_void) -> u32 {
        // SAFETY: it was made of a box below, for this thread alone.
        let work = unsafe { Box::from_raw(work.cast::<Work>()) };
        // A failure cannot be reported from here.
        let _ = catch_unwind(AssertUnwindSafe(work));
        0
    }
    let work: *mut Work = Box::into_raw(Box::new(Box::new(work)));
    // SAFETY: the function takes what it is given; the rest are the defaults.
    let thread = unsafe { api::CreateThread(ptr::null(), 0, run, work.cast(), 0, ptr::null_mut()) };
    if thread.is_null() {
        // SAFETY: no thread could have taken it.
        drop(unsafe { Box::from_raw(work) });
        return false;
    }
    if let Some(set) = function::<SetName>(c"SetThreadDescription") {
        let name: Vec<u16> = name.to_string_lossy().encode_utf16().chain([0]).collect();
        // SAFETY: the thread's handle is open, and the name ends with a NUL.
        unsafe { set(thread, name.as_ptr()) };
    }
    // SAFETY: this function owns the handle.
    unsafe { api::CloseHandle(thread) };
    true
}

type SetName = unsafe extern "system" fn(api::Handle, *const u16) -> i32;
type GetName = unsafe extern "system" fn(api::Handle, *mut *mut u16) -> i32;

/// A function that Windows 10 has only since version 1607.
fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<fn()>(), "F is a function pointer") };
    // SAFETY: the names end with a NUL, and every process has this library.
    let address =
        unsafe { api::GetProcAddress(api::GetModuleHandleA(c"kernel32.dll".as_ptr()), name.as_ptr()) };
    // SAFETY: the type is that of the function of this name.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy::<*const (), F>(&address) })
}

/// An id of this thread.
#[inline]
pub fn own() -> usize {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { api::GetCurrentThreadId() as usize }
}

/// The system's id of this thread.
pub fn number() -> i32 {
    own() as i32
}

/// The name of a thread of this process; empty if it has none.
pub fn name(number: i32) -> String {
    let Some(get) = function::<GetName>(c"GetThreadDescription") else { return String::new() };
    // SAFETY: the handle is opened, used and closed here; the text is written where the call succeeds, and freed.
    unsafe {
        let thread = api::OpenThread(api::THREAD_QUERY_LIMITED_INFORMATION, 0, number as u32);
        if thread.is_null() {
            return String::new();
        }
        let mut text: *mut u16 = ptr::null_mut();
        let status = get(thread, &mut text);
        api::CloseHandle(thread);
        if status < 0 || text.is_null() {
            return String::new();
        }
        let length = (0..).take_while(|i| *text.add(*i) != 0).count();
        let name = OsString::from_wide(std::slice::from_raw_parts(text, length));
        api::LocalFree(text.cast());
        name.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done_and_a_panic_is_contained() {
        let (to, from) = std::sync::mpsc::channel();
        assert!(start(c"panics", || panic!("meant for the test")));
        assert!(start(c"works", move || to.send((own(), name(number()))).unwrap()));
        let (other, name) = from.recv().unwrap();
        assert_ne!(other, own());
        // If the system supports thread names.
        assert!(name.is_empty() || name == "works", "{name:?}");
    }
}
