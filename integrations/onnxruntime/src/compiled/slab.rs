//! Tensors in memory, for the provider's own operations.

use crate::lowering::{Bound, elements};

/// A tensor with the address of its first element.
#[derive(Clone, Copy)]
pub struct Slab<'a> {
    /// The address.
    pub start: *mut u8,
    /// Its layout.
    pub bound: &'a Bound,
}

impl<'a> Slab<'a> {
    /// The tensor at an address, which may be null if it has no elements.
    pub fn new(start: *mut u8, bound: &'a Bound) -> Option<Self> {
        (!start.is_null() || bound.dims.contains(&0)).then_some(Self { start, bound })
    }

    pub(super) fn at(&self, offset: i64) -> *mut u8 {
        let bytes = isize::try_from(offset).unwrap_or(0).wrapping_mul(self.size());
        self.start.wrapping_offset(bytes)
    }

    pub(super) fn size(&self) -> isize {
        isize::try_from(self.bound.element.size()).unwrap_or(1)
    }

    /// The number of its elements.
    pub(super) fn count(&self) -> usize {
        usize::try_from(elements(&self.bound.dims)).unwrap_or(0)
    }

    pub(super) fn stride(&self, axis: usize) -> i64 {
        self.bound.strides.get(axis).copied().unwrap_or(0)
    }

    pub(super) fn dim(&self, axis: usize) -> i64 {
        self.bound.dims.get(axis).copied().unwrap_or(1)
    }
}
