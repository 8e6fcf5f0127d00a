//! The machine's memory.

use super::api;

/// Does nothing: large pages require a special privilege on Windows.
pub fn advise_large_pages(_: *mut u8, _: usize) {}

/// Bytes that programs can still allocate.
pub fn available() -> Option<usize> {
    let mut memory = api::Memory { size: size_of::<api::Memory>() as u32, ..api::Memory::default() };
    // SAFETY: the struct says its size and is written.
    let asked = unsafe { api::GlobalMemoryStatusEx(&mut memory) };
    usize::try_from(memory.available).ok().filter(|_| asked != 0)
}

/// Does nothing: the C library decides when freed memory is returned to the system.
pub fn give_back() {}
