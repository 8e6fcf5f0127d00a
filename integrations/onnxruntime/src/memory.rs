//! Memory of the program's own.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::failure::{Failure, Result};

/// Vectors of every instruction set, and pages of what is cached, begin here.
const ALIGNMENT: usize = 64;

/// Bytes that begin at a multiple of 64.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are this object's alone; who writes them holds it.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference only the address is had.
unsafe impl Sync for Memory {}

impl Memory {
    /// So many bytes, all 0, or an error where there are not as many.
    pub fn new(bytes: usize) -> Result<Self> {
        let none = || Failure::ep(format!("hipDNN: {bytes} bytes of scratch memory cannot be allocated"));
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).map_err(|_| none())?;
        // SAFETY: the layout has a size above 0.
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
        // SAFETY: all bytes were written when the memory was made; constants, which alone are read this way, are not written again.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// How many bytes it has.
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
