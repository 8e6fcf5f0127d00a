//! Elements of any type that are replaced at indices, gathered one by one, or kept in a triangle. Tensors are packed.

use crate::lowering::{OnHost, Slab, packed};
use crate::model::Element;
use crate::threads::Parallel;

/// What an update does to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of ONNX's reductions")]
pub enum Update {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

/// How an index tensor names places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scatter {
    /// Updates elements of the first tensor: each index names the place of its element along an axis.
    Elements(usize, Update),
    /// Updates parts of the first tensor: each row of indices names a part.
    Parts(Update),
    /// Gathers elements of the first tensor: each index names the place of its element along an axis.
    GatherElements(usize),
    /// Gathers parts of the first tensor for each index of this many leading axes: each row of indices names a part.
    GatherParts(usize),
}

/// A type whose elements can be combined.
trait Combined: Copy + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

macro_rules! combined {
    ($type:ty, $add:expr, $mul:expr) => {
        impl Combined for $type {
            fn add(self, other: Self) -> Self {
                $add(self, other)
            }

            fn mul(self, other: Self) -> Self {
                $mul(self, other)
            }
        }
    };
}

combined!(f32, |x: f32, y| x + y, |x: f32, y| x * y);
combined!(f64, |x: f64, y| x + y, |x: f64, y| x * y);
combined!(i32, i32::wrapping_add, i32::wrapping_mul);
combined!(i64, i64::wrapping_add, i64::wrapping_mul);

impl Update {
    /// Combines elements side by side with those at an address.
    ///
    /// # Safety
    /// Both addresses have this many elements of the type.
    unsafe fn each<T: Combined>(self, to: *mut u8, from: *const u8, items: usize) {
        let (to, from) = (to.cast::<T>(), from.cast::<T>());
        for at in 0..items {
            let (to, from) = (to.wrapping_add(at), from.wrapping_add(at));
            // SAFETY: both addresses have this many elements of the type, as this function requires; they may begin anywhere.
            let (x, y) = unsafe { (to.read_unaligned(), from.read_unaligned()) };
            let result = match self {
                Self::Replace => y,
                Self::Add => x.add(y),
                Self::Mul => x.mul(y),
                Self::Max => {
                    if y > x {
                        y
                    } else {
                        x
                    }
                }
                Self::Min => {
                    if y < x {
                        y
                    } else {
                        x
                    }
                }
            };
            // SAFETY: the address is that of an element, as this function requires.
            unsafe { to.write_unaligned(result) };
        }
    }

    /// Updates elements side by side.
    ///
    /// # Safety
    /// Both addresses have this many elements of the type, which operators check to be one that can be combined.
    unsafe fn apply(self, element: Element, to: *mut u8, from: *const u8, items: usize) {
        // SAFETY: both addresses have this many elements of the type, as this function requires.
        unsafe {
            match (self, element) {
                (Self::Replace, _) => to.copy_from_nonoverlapping(from, items * element.size()),
                (_, Element::Float) => self.each::<f32>(to, from, items),
                (_, Element::Double) => self.each::<f64>(to, from, items),
                (_, Element::Int32) => self.each::<i32>(to, from, items),
                _ => self.each::<i64>(to, from, items),
            }
        }
    }
}

fn count(dims: &[i64]) -> usize {
    usize::try_from(dims.iter().product::<i64>()).unwrap_or(0)
}

/// An index that may count from the end.
fn place(index: i64, size: i64) -> Result<i64, String> {
    let from_start = if index < 0 { index.saturating_add(size) } else { index };
    if (0..size).contains(&from_start) {
        return Ok(from_start);
    }
    Err(format!("index {index}, expected one from {} to {}", -size, size - 1))
}

/// The offset of the part that a row of indices names.
fn part(row: &[i64], dims: &[i64], strides: &[i64]) -> Result<i64, String> {
    let mut offset = 0;
    for ((index, size), stride) in row.iter().zip(dims).zip(strides) {
        offset += place(*index, *size)? * stride;
    }
    Ok(offset)
}

/// The offsets at which lines of indices begin in the data, without the axis along which they name places.
struct Lines<'a> {
    dims: &'a [i64],
    strides: Vec<i64>,
    index: Vec<i64>,
    offset: i64,
}

impl<'a> Lines<'a> {
    fn new(dims: &'a [i64], strides: &[i64], axis: usize) -> Self {
        let own = strides.iter().take(dims.len()).enumerate();
        let strides = own.map(|(at, stride)| if at == axis { 0 } else { *stride }).collect();
        Self { dims, strides, index: vec![0; dims.len()], offset: 0 }
    }

    /// The offset of this line; the next call returns that of the next one.
    fn next(&mut self) -> i64 {
        let offset = self.offset;
        for ((index, dim), stride) in self.index.iter_mut().zip(self.dims).zip(&self.strides).rev() {
            *index += 1;
            self.offset += stride;
            if *index < *dim {
                break;
            }
            self.offset -= *index * stride;
            *index = 0;
        }
        offset
    }
}

impl OnHost for Scatter {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([data, indices, rest @ ..], [to]) = (reads, writes) else {
            return Err("indices of no tensor".to_owned());
        };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let list = unsafe { indices.integers() }?;
        let (size, dims) = (data.size().unsigned_abs(), &data.bound.dims);
        let strides = packed(dims);
        let update = rest.first();
        if matches!(self, Self::Elements(..) | Self::Parts(_)) {
            // SAFETY: the result has the first tensor's elements.
            unsafe { to.start.copy_from_nonoverlapping(data.start, data.count() * size) };
        }
        let copy = |from: &Slab<'_>, from_place: i64, to_place: i64, items: usize| {
            // SAFETY: the places are inside of both tensors, as the callers check.
            unsafe { to.at(to_place).copy_from_nonoverlapping(from.at(from_place), items * size) };
        };
        let change = |own: Update, from: &Slab<'_>, from_place: i64, to_place: i64, items: usize| {
            let element = data.bound.element;
            // SAFETY: the places are inside of both tensors, as the callers check.
            unsafe { own.apply(element, to.at(to_place), from.at(from_place), items) };
        };
        let number = |at: usize| i64::try_from(at).unwrap_or(0);
        match *self {
            Self::Elements(axis, _) | Self::GatherElements(axis) => {
                let own = indices.bound.dims.as_slice();
                let (outer, line) = own.split_at(own.len().saturating_sub(1));
                let line = count(line).max(1);
                let (along, size) = (strides.get(axis), dims.get(axis));
                let (along, size) = (along.copied().unwrap_or(1), size.copied().unwrap_or(1));
                let each = |first: usize, offset: i64, items: usize| match (self, update) {
                    (Self::Elements(_, own), Some(update)) => {
                        change(*own, update, number(first), offset, items);
                    }
                    _ => copy(data, offset, number(first), items),
                };
                let mut lines = Lines::new(outer, &strides, axis);
                for (at, row) in list.chunks_exact(line).enumerate() {
                    let (base, first) = (lines.next(), at * line);
                    match row {
                        // Rows of a graph's edges name one place for all features.
                        [index, rest @ ..] if axis < outer.len() && rest.iter().all(|of| of == index) => {
                            each(first, base + place(*index, size)? * along, line);
                        }
                        _ => {
                            let step = i64::from(axis < outer.len());
                            for (item, index) in row.iter().enumerate() {
                                each(
                                    first + item,
                                    base + place(*index, size)? * along + number(item) * step,
                                    1,
                                );
                            }
                        }
                    }
                }
            }
            Self::Parts(_) | Self::GatherParts(_) => {
                let leading = if let Self::GatherParts(leading) = *self { leading } else { 0 };
                let (outer, inner) = dims.split_at(leading.min(dims.len()));
                let inner_strides = strides.get(leading..).unwrap_or(&[]);
                let width = usize::try_from(indices.bound.dims.last().copied().unwrap_or(0)).unwrap_or(0);
                let items = count(inner.get(width..).unwrap_or(&[]));
                let rows = list.len() / width.max(1);
                let for_each = rows / count(outer).max(1);
                for (at, row) in list.chunks_exact(width.max(1)).enumerate() {
                    let first = number(at / for_each.max(1)) * number(count(inner));
                    let offset = first + part(row, inner, inner_strides)?;
                    match (self, update) {
                        (Self::Parts(own), Some(update)) => {
                            change(*own, update, number(at * items), offset, items)
                        }
                        _ => copy(data, offset, number(at * items), items),
                    }
                }
            }
        }
        Ok(())
    }
}

/// The upper or lower triangle of each matrix, with zeros elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Trilu {
    /// Whether it is the upper one.
    pub upper: bool,
    /// The diagonal at which it begins.
    pub diagonal: i64,
}

impl OnHost for Trilu {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([from], [to]) = (reads, writes) else { return Err("a triangle of no tensor".to_owned()) };
        let [.., height, width] = from.bound.dims.as_slice() else {
            return Err(format!("a triangle of dims {:?}", from.bound.dims));
        };
        let size = from.size().unsigned_abs();
        let bytes = |items: i64| usize::try_from(items).unwrap_or(0) * size;
        for line in 0..i64::try_from(from.count()).unwrap_or(0) / (*width).max(1) {
            let edge = (line % height).saturating_add(self.diagonal);
            // The first element on the other side.
            let edge = if self.upper { edge } else { edge.saturating_add(1) }.clamp(0, *width);
            let kept = if self.upper { edge..*width } else { 0..edge };
            let (source, target) = (from.at(line * width), to.at(line * width));
            // SAFETY: the ranges are inside of this line of both tensors.
            unsafe {
                target.write_bytes(0, bytes(*width));
                let begin = bytes(kept.start);
                let items = bytes(kept.end - kept.start);
                target.wrapping_add(begin).copy_from_nonoverlapping(source.wrapping_add(begin), items);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_where_their_first_elements_are() {
        // Indices [2, 2, n] of data [3, 4, 5], along the second axis.
        let mut lines = Lines::new(&[2, 2], &[20, 5, 1], 1);
        assert_eq!([(); 4].map(|()| lines.next()), [0, 0, 20, 20]);
        // Along the last one.
        let mut lines = Lines::new(&[2, 3], &[20, 5, 1], 2);
        assert_eq!([(); 6].map(|()| lines.next()), [0, 5, 10, 20, 25, 30]);
        assert_eq!(Lines::new(&[], &[1], 0).next(), 0);
    }
}
