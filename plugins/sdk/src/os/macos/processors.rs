//! The machine's processors, and those that a thread may use.

use std::ffi::{CStr, c_void};
use std::ptr;

/// Number of processors in the machine.
pub fn count() -> usize {
    // SAFETY: the call has no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(0)
}

/// Number of processors this process may use.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Model name of the processor.
pub fn model() -> Option<String> {
    let mut text = [0_u8; 128];
    let mut length = text.len();
    // SAFETY: the name ends with a NUL, and the buffer has the stated length.
    let status = unsafe {
        let name = c"machdep.cpu.brand_string";
        libc::sysctlbyname(name.as_ptr(), text.as_mut_ptr().cast::<c_void>(), &mut length, ptr::null_mut(), 0)
    };
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().trim().to_owned();
    (status == 0 && !text.is_empty()).then_some(text)
}

/// The processor that this thread is running on: unknown.
pub fn current() -> Option<usize> {
    None
}

/// Whether the system saves AMX tile state for this process: not queried.
pub fn allow_tiles() -> bool {
    false
}

/// A set of processors; programs cannot choose on this system.
#[derive(Clone, Copy, PartialEq)]
pub struct Set(());

impl Set {
    /// The processors that the calling thread may use.
    pub fn of_thread() -> Option<Self> {
        None
    }

    /// Number of processors in the set.
    pub fn count(&self) -> usize {
        available()
    }

    /// Whether a processor is in the set.
    pub fn has(&self, processor: usize) -> bool {
        processor < available()
    }

    /// The set, unchanged.
    #[must_use]
    pub fn without(self, _: usize) -> Self {
        self
    }

    /// Does nothing.
    pub fn give_to(&self, _: i32) {}
}
