//! The machine's memory.

/// Does nothing: the system chooses the size of pages itself.
///
/// # Safety
/// The bytes are allocated.
pub unsafe fn advise_large_pages(_: *mut u8, _: usize) {}

/// The bytes that programs may still allocate: not known.
pub fn available() -> Option<usize> {
    None
}

/// Leaves it to the C library when memory that was freed goes back to the system.
pub fn give_back() {}
