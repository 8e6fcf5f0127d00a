//! Tensors in memory, for the provider's own operations.

use std::borrow::Cow;
use std::fmt::Debug;
use std::slice;

use super::{Bound, Place, elements};
use crate::model::Element;
use crate::threads::Parallel;

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

    /// Tensors whose addresses follow from their places.
    pub fn all(bounds: &'a [Bound], address: &dyn Fn(&Place) -> Option<*mut u8>) -> Option<Vec<Self>> {
        bounds.iter().map(|bound| Self::new(address(&bound.place)?, bound)).collect()
    }

    /// The address of an element.
    pub fn at(&self, offset: i64) -> *mut u8 {
        let bytes = isize::try_from(offset).unwrap_or(0).wrapping_mul(self.size());
        self.start.wrapping_offset(bytes)
    }

    /// The elements of a packed tensor, copied if they are unaligned.
    ///
    /// # Safety
    /// The tensor is readable, and nothing writes it while the result lives.
    pub unsafe fn items<T: Item>(&self) -> Result<Cow<'a, [T]>, String> {
        if self.bound.element != T::ELEMENT {
            let (have, want) = (self.bound.element.name(), T::ELEMENT.name());
            return Err(format!("elements are {have}, expected {want}"));
        }
        let start = self.start.cast::<T>().cast_const();
        if start.is_null() || self.count() == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        if start.is_aligned() {
            // SAFETY: the tensor is readable, and nothing writes it while the result lives, as this function requires; the address was
            // checked to be aligned.
            return Ok(Cow::Borrowed(unsafe { slice::from_raw_parts(start, self.count()) }));
        }
        // SAFETY: the tensor is readable, and nothing writes it while the result lives, as this function requires.
        Ok((0..self.count()).map(|at| unsafe { start.wrapping_add(at).read_unaligned() }).collect())
    }

    /// Writes elements side by side from a place on.
    ///
    /// # Safety
    /// The packed tensor has these elements, and only this thread uses them.
    pub unsafe fn put<T: Copy>(&self, place: usize, items: &[T]) {
        let to = self.start.wrapping_add(place * size_of::<T>());
        // SAFETY: the packed tensor has these elements, and only this thread uses them, as this function requires; they are no part of
        // the others.
        unsafe { to.copy_from_nonoverlapping(items.as_ptr().cast(), size_of_val(items)) };
    }

    /// The integers of a packed tensor of 32 or 64 bits.
    ///
    /// # Safety
    /// The tensor is readable.
    pub unsafe fn integers(&self) -> Result<Vec<i64>, String> {
        let count = self.count();
        // SAFETY: the tensor is readable, as this function requires.
        unsafe {
            match self.bound.element {
                Element::Int32 => {
                    let start = self.start.cast::<i32>();
                    Ok((0..count).map(|at| i64::from(start.wrapping_add(at).read_unaligned())).collect())
                }
                Element::Int64 => {
                    let start = self.start.cast::<i64>();
                    Ok((0..count).map(|at| start.wrapping_add(at).read_unaligned()).collect())
                }
                other => Err(format!("elements are {}, expected int32 or int64", other.name())),
            }
        }
    }

    /// The bytes of an element.
    pub fn size(&self) -> isize {
        isize::try_from(self.bound.element.size()).unwrap_or(1)
    }

    /// The number of its elements.
    pub fn count(&self) -> usize {
        usize::try_from(elements(&self.bound.dims)).unwrap_or(0)
    }

    /// A stride; 0 if the tensor lacks the axis.
    pub fn stride(&self, axis: usize) -> i64 {
        self.bound.strides.get(axis).copied().unwrap_or(0)
    }

    /// A dimension; 1 if the tensor lacks the axis.
    pub fn dim(&self, axis: usize) -> i64 {
        self.bound.dims.get(axis).copied().unwrap_or(1)
    }
}

/// A type of elements.
pub trait Item: Copy + Send + Sync + PartialOrd + 'static {
    /// Its name.
    const ELEMENT: Element;
}

impl Item for f32 {
    const ELEMENT: Element = Element::Float;
}

impl Item for f64 {
    const ELEMENT: Element = Element::Double;
}

impl Item for u8 {
    const ELEMENT: Element = Element::Uint8;
}

impl Item for i32 {
    const ELEMENT: Element = Element::Int32;
}

impl Item for i64 {
    const ELEMENT: Element = Element::Int64;
}

/// An operation that the provider computes itself, between hipDNN's graphs.
pub trait OnHost: Debug + Send + Sync {
    /// The estimated number of operations, where the largest result has so many elements.
    fn work(&self, elements: i64) -> i64 {
        elements
    }

    /// Computes it, with `parallel` for large ones.
    ///
    /// # Safety
    /// Tensors are readable, and results writable, as their layouts say; results overlap nothing else.
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String>;
}

/// Tensors that several threads use, each of which writes its own elements.
#[derive(Clone, Copy)]
pub struct Shared<'a>(pub &'a [Slab<'a>]);

// SAFETY: threads read the same elements and write different ones, which those that share the tensors see to.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    /// The tensor at an index; the last one if there are fewer.
    pub fn get(&self, at: usize) -> Option<&'a Slab<'a>> {
        self.0.get(at)
    }
}
