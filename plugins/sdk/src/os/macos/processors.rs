//! The machine's processors, and those that a thread may use.

use std::ffi::{CStr, c_void};
use std::ptr;

/// How many processors the machine has.
pub fn count() -> usize {
    // SAFETY: the call has no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(0)
}

/// How many this process may use.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the processor calls itself.
pub fn model() -> Option<String> {
    let mut text = [0_u8; 128];
    let mut length = text.len();
    // SAFETY: the name ends with a NUL, and the buffer is as long as is said.
    let status = unsafe {
        let name = c"machdep.cpu.brand_string";
        libc::sysctlbyname(name.as_ptr(), text.as_mut_ptr().cast::<c_void>(), &mut length, ptr::null_mut(), 0)
    };
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().trim().to_owned();
    (status == 0 && !text.is_empty()).then_some(text)
}

/// The processor that this thread runs on now: not told.
pub fn current() -> Option<usize> {
    None
}

/// Whether the system saves the tiles of AMX for this process: not asked.
pub fn allow_tiles() -> bool {
    false
}

/// Processors that a thread may use: the system does not let programs choose.
#[derive(Clone, Copy, PartialEq)]
pub struct Set(());

impl Set {
    /// Those of the calling thread.
    pub fn of_thread() -> Option<Self> {
        None
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        available()
    }

    /// Whether a processor is one of them.
    pub fn has(&self, processor: usize) -> bool {
        processor < available()
    }

    /// The same.
    #[must_use]
    pub fn without(self, _: usize) -> Self {
        self
    }

    /// Leaves a thread where it is.
    pub fn give_to(&self, _: i32) {}
}
