//! The program's own memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::failure::{Failure, Result};

/// The alignment: of the largest vector registers and of cache lines.
const ALIGNMENT: usize = 64;

/// Bytes aligned to 64.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes belong to this object; only its owner writes them.
unsafe impl Send for Memory {}
// SAFETY: a shared reference only gives the address.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates zeroed bytes, or fails if memory is short.
    pub fn new(bytes: usize) -> Result<Self> {
        let none = || Failure::ep(format!("hipDNN: {bytes} bytes of scratch memory cannot be allocated"));
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).map_err(|_| none())?;
        // SAFETY: the layout has a nonzero size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        Ok(Self { start, layout })
    }

    /// A copy of bytes.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let memory = Self::new(bytes.len())?;
        // SAFETY: the memory is new and has room for the bytes.
        unsafe { memory.start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(memory)
    }

    /// Its first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: all bytes were initialized; only constants are read this way, and they are not written again.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and this is its last use.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept() {
        let memory = Memory::of(&[1, 2, 3]).unwrap();
        assert!(memory.as_ptr().addr().is_multiple_of(64) && memory.bytes() >= 3);
    }
}
