//! The machine's memory.

/// Does nothing: the system chooses page sizes itself.
pub fn advise_large_pages(_: *mut u8, _: usize) {}

/// Bytes that programs can still allocate: unknown.
pub fn available() -> Option<usize> {
    None
}

/// Does nothing: the C library decides when freed memory is returned to the system.
pub fn give_back() {}
