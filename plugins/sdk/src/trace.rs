//! Reports the steps of executions to a host that traces them.
//!
//! A plugin that names `steps` in [`export_engine_plugin!`](crate::export_engine_plugin) can report its
//! steps. While no host asks, a step costs nothing and an execution one load.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use crate::os::clock::now;

/// The host's function: the name of a step, when it began and when it ended.
pub type Callback = Option<unsafe extern "C" fn(name: *const c_char, begin: u64, end: u64)>;

static CALLBACK: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// What an execution needs to report its steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps(unsafe extern "C" fn(name: *const c_char, begin: u64, end: u64));

/// Whether the host wants steps; query once per execution.
#[inline]
pub fn steps() -> Option<Steps> {
    let callback = CALLBACK.load(Ordering::Relaxed);
    if callback.is_null() {
        return None;
    }
    // SAFETY: only `set_callback` stores here, and it stores a callback or null; null was sorted out above.
    unsafe { std::mem::transmute::<*mut (), Callback>(callback) }.map(Steps)
}

impl Steps {
    /// Reports a step that began at `begin` (from [`now`]) and ends now. Returns the current time.
    pub fn tell(self, name: &CStr, begin: u64) -> u64 {
        let end = now();
        // SAFETY: the host promises that its callback takes a NUL terminated text and two times.
        unsafe { (self.0)(name.as_ptr(), begin, end) };
        end
    }
}

/// The trace's name for a step that computes these nodes.
pub fn name(what: &str, nodes: &[usize]) -> CString {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    CString::new(format!("{what} (nodes {})", nodes.join(" "))).unwrap_or_default()
}

/// The steps of one execution, one after the other.
#[derive(Debug)]
pub struct Execution<'a>(Option<(Steps, u64, std::slice::Iter<'a, CString>)>);

impl<'a> Execution<'a> {
    /// Begins the first step. `names` is only called if a host wants steps.
    #[inline]
    pub fn begin(names: impl FnOnce() -> &'a [CString]) -> Self {
        Self(steps().map(|steps| (steps, now(), names().iter())))
    }

    /// Ends a step and begins the next one.
    #[inline]
    pub fn end_step(&mut self) {
        if let Some((steps, begin, names)) = &mut self.0 {
            *begin = steps.tell(names.next().map_or(c"", CString::as_c_str), *begin);
        }
    }
}

/// Reports steps to this callback from now on; null stops it.
pub(crate) fn set_callback(callback: Callback) {
    CALLBACK.store(callback.map_or(null_mut(), |callback| callback as *mut ()), Ordering::Relaxed);
}
