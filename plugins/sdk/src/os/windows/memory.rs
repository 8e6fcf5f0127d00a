//! The machine's memory.

use super::api;

/// Does nothing: Windows gives large pages only to users with a right of its own.
///
/// # Safety
/// The bytes are allocated.
pub unsafe fn advise_large_pages(_: *mut u8, _: usize) {}

/// The bytes that programs may still allocate.
pub fn available() -> Option<usize> {
    let mut memory = api::Memory { size: size_of::<api::Memory>() as u32, ..api::Memory::default() };
    // SAFETY: the struct says its size and is written.
    let asked = unsafe { api::GlobalMemoryStatusEx(&mut memory) };
    usize::try_from(memory.available).ok().filter(|_| asked != 0)
}

/// Leaves it to the C library when memory that was freed goes back to the system.
pub fn give_back() {}
