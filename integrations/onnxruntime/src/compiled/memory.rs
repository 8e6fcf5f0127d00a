//! Memory of the program's own, and copies of elements.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use crate::failure::{Failure, Result};

/// Vectors of every instruction set, and pages of what is cached, begin here.
const ALIGNMENT: usize = 64;

/// Bytes that begin at a multiple of 64.
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are this object's alone; who writes them holds it.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference only the address is had.
unsafe impl Sync for Memory {}

impl Memory {
    /// So many bytes, or an error where there are not as many.
    pub fn new(bytes: usize) -> Result<Self> {
        let none = || Failure::ep(format!("hipDNN: {bytes} bytes of scratch memory cannot be allocated"));
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).map_err(|_| none())?;
        // SAFETY: the layout has a size above 0.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(none)?;
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

/// Copies elements of a size between layouts of the same dimensions; strides count elements.
///
/// # Safety
/// Both layouts lie in memory that may be read and written, and do not overlap.
pub unsafe fn copy(size: usize, dims: &[i64], from: (*const u8, &[i64]), to: (*mut u8, &[i64])) {
    let (Some((dim, dims)), Some((from_stride, from_strides)), Some((to_stride, to_strides))) =
        (dims.split_first(), from.1.split_first(), to.1.split_first())
    else {
        // SAFETY: the caller vouches for one element on both sides.
        unsafe { to.0.copy_from_nonoverlapping(from.0, size) };
        return;
    };
    let count = usize::try_from(*dim).unwrap_or(0);
    if dims.is_empty() && *from_stride == 1 && *to_stride == 1 {
        // SAFETY: the caller vouches for `count` elements side by side.
        unsafe { to.0.copy_from_nonoverlapping(from.0, count * size) };
        return;
    }
    let bytes = |stride: &i64| usize::try_from(*stride).unwrap_or(0).wrapping_mul(size);
    let (from_step, to_step) = (bytes(from_stride), bytes(to_stride));
    for at in 0..count {
        let source = from.0.wrapping_add(at * from_step);
        let target = to.0.wrapping_add(at * to_step);
        // SAFETY: the caller vouches for every element of both layouts.
        unsafe { copy(size, dims, (source, from_strides), (target, to_strides)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_copied_between_layouts() {
        let source: Vec<i64> = (0..6).collect();
        let mut target = [9_i64; 8];
        // 2 × 3, transposed into rows of 4.
        let (from, to) = (source.as_ptr().cast(), target.as_mut_ptr().cast());
        // SAFETY: the layouts lie in the arrays: the last elements are 5 and 6.
        unsafe { copy(8, &[2, 3], (from, &[3, 1]), (to, &[4, 1])) };
        assert_eq!(target, [0, 1, 2, 9, 3, 4, 5, 9]);
        let mut one = 0_i64;
        // SAFETY: a scalar is one element.
        unsafe { copy(8, &[], (from, &[]), ((&raw mut one).cast(), &[])) };
        assert_eq!(one, 0);
        let memory = Memory::of(&[1, 2, 3]).unwrap();
        assert!(memory.as_ptr().addr().is_multiple_of(64) && memory.bytes() >= 3);
    }
}
