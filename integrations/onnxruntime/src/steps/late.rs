//! Elements that fulfil a condition, whose number is known at the end.

use std::ops::Range;

use crate::lowering::{OnHost, Slab};
use crate::model::Element;
use crate::threads::Parallel;

/// The elements of a packed tensor that are not 0, by their indices along all axes.
///
/// # Safety
/// The tensor is readable.
unsafe fn nonzero(from: &Slab<'_>) -> Result<Vec<usize>, String> {
    fn found<T: Copy + PartialEq + Default>(start: *const u8, count: usize) -> Vec<usize> {
        let is_there = |at: &usize| {
            // SAFETY: the tensor has this many elements of this size, and is readable.
            unsafe { start.cast::<T>().wrapping_add(*at).read_unaligned() != T::default() }
        };
        (0..count).filter(is_there).collect()
    }
    let (start, count) = (from.start.cast_const(), from.count());
    Ok(match from.bound.element {
        Element::Bool | Element::Uint8 | Element::Int8 => found::<u8>(start, count),
        Element::Int32 => found::<i32>(start, count),
        Element::Int64 => found::<i64>(start, count),
        Element::Float => found::<f32>(start, count),
        Element::Double => found::<f64>(start, count),
        other => return Err(format!("elements are {}", other.name())),
    })
}

pub(super) fn number(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(0)
}

/// Writes the indices of elements that are not 0, one row for each axis, and their number.
#[derive(Clone, Copy, Debug)]
pub struct NonZero;

impl OnHost for NonZero {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([from], [to, size]) = (reads, writes) else { return Err("elements of no tensor".to_owned()) };
        // SAFETY: the tensor is readable, as this function requires.
        let found = unsafe { nonzero(from) }?;
        for (axis, stride) in crate::lowering::packed(&from.bound.dims).iter().enumerate() {
            let (stride, dim) = ((*stride).max(1), from.dim(axis).max(1));
            let row: Vec<i64> = found.iter().map(|at| number(*at) / stride % dim).collect();
            // SAFETY: the result has room for all elements in each row, and only this thread writes it.
            unsafe { to.put(axis * row.len(), &row) };
        }
        // SAFETY: the result has room for an integer, and only this thread writes it.
        unsafe { size.put(0, &[number(found.len())]) };
        Ok(())
    }
}

/// Copies the parts of a tensor along an axis for which a condition holds, and writes their number.
#[derive(Clone, Copy, Debug)]
pub struct Compress {
    /// The axis.
    pub axis: usize,
}

impl OnHost for Compress {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([from, condition], [to, size]) = (reads, writes) else {
            return Err("parts of no tensor".to_owned());
        };
        let dim = |axis: usize| usize::try_from(from.dim(axis)).unwrap_or(0);
        let product = |axes: Range<usize>| axes.map(dim).product::<usize>();
        let (outer, along) = (product(0..self.axis), dim(self.axis));
        let bytes = product(self.axis + 1..from.bound.dims.len()) * from.bound.element.size();
        // SAFETY: the condition is readable, as this function requires.
        let mut chosen = unsafe { nonzero(condition) }?;
        chosen.retain(|at| *at < along);
        for row in 0..outer {
            for (place, at) in chosen.iter().enumerate() {
                let source = from.start.wrapping_add((row * along + at) * bytes);
                let target = to.start.wrapping_add((row * chosen.len() + place) * bytes);
                // SAFETY: the part is one of the packed tensor, and the result has room for as many as that has.
                unsafe { target.copy_from_nonoverlapping(source, bytes) };
            }
        }
        // SAFETY: the result has room for an integer, and only this thread writes it.
        unsafe { size.put(0, &[number(chosen.len())]) };
        Ok(())
    }
}
