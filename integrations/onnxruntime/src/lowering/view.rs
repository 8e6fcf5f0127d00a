//! Views: the layout of a value's elements in a buffer.

use super::{Dims, Lowered, refuse};
use crate::model::Element;

/// A buffer seen as a tensor. Offset and strides count elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The buffer's index in the program.
    pub buffer: usize,
    /// The type of an element.
    pub element: Element,
    /// The offset of the first element.
    pub offset: i64,
    /// The dimensions; none for a scalar.
    pub dims: Dims,
    /// The stride of each dimension.
    pub strides: Dims,
}

impl View {
    /// A whole packed buffer.
    pub fn packed(buffer: usize, element: Element, dims: &[i64]) -> Self {
        Self { buffer, element, offset: 0, dims: dims.into(), strides: packed(dims) }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> i64 {
        elements(&self.dims)
    }

    /// Whether the elements are packed in order.
    pub fn is_packed(&self) -> bool {
        self.is_packed_in(0..self.rank())
    }

    /// Whether the elements are packed, with the dimensions in this order.
    fn is_packed_in(&self, order: impl DoubleEndedIterator<Item = usize>) -> bool {
        let mut stride = 1_i64;
        order.rev().all(|axis| {
            let (dim, have) = (self.dims.get(axis).copied(), self.strides.get(axis).copied());
            let want = stride;
            stride = stride.saturating_mul(dim.unwrap_or(1).max(1));
            dim == Some(1) || have == Some(want)
        })
    }

    /// The same elements in another layout.
    fn with(&self, dims: Dims, strides: Dims) -> Self {
        Self { buffer: self.buffer, element: self.element, offset: self.offset, dims, strides }
    }

    /// Whether it is a packed image with channels last.
    pub fn is_channels_last(&self) -> bool {
        let rank = self.rank();
        rank > 2 && self.is_packed_in(std::iter::once(0).chain(2..rank).chain([1])) && !self.is_packed()
    }

    /// The dimensions permuted.
    pub fn permuted(&self, order: &[usize]) -> Option<Self> {
        let pick = |of: &[i64]| order.iter().map(|axis| of.get(*axis).copied()).collect::<Option<Dims>>();
        Some(self.with(pick(&self.dims)?, pick(&self.strides)?))
    }

    /// The last two dimensions exchanged.
    pub fn transposed(&self) -> Option<Self> {
        let rank = self.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank.checked_sub(2)?, rank.checked_sub(1)?);
        self.permuted(&order)
    }

    /// Reshaped, if strides can express it.
    pub fn reshaped(&self, dims: &[i64]) -> Option<Self> {
        if elements(dims) != self.elements() {
            return None;
        }
        // Dimensions of 1 keep their strides, so that the same tensor does not become another one.
        if self.dims == dims {
            return Some(self.clone());
        }
        let strides = if self.elements() == 0 { packed(dims) } else { split(self, dims)? };
        Some(self.with(dims.into(), strides))
    }

    /// Broadcast along dimensions of one element, after adding leading ones.
    pub fn expanded(&self, dims: &[i64]) -> Option<Self> {
        let more = dims.len().checked_sub(self.rank())?;
        let mut strides = Dims::repeated(0, dims.len());
        let own = std::iter::repeat_n(&1, more).chain(&self.dims);
        for (at, (have, want)) in own.zip(dims).enumerate() {
            if have == want {
                let stride = at.checked_sub(more).and_then(|at| self.strides.get(at)).copied().unwrap_or(0);
                *strides.get_mut(at)? = stride;
            } else if *have != 1 {
                return None;
            }
        }
        Some(self.with(dims.into(), strides))
    }

    /// Elements `from`, `from` + `step`, ... along a dimension, `count` of them.
    pub fn sliced(&self, axis: usize, from: i64, step: i64, count: i64) -> Option<Self> {
        let mut part = self.clone();
        let stride = *self.strides.get(axis)?;
        part.offset += from * stride;
        *part.dims.get_mut(axis)? = count;
        *part.strides.get_mut(axis)? = stride * step;
        Some(part)
    }

    /// The elements whose indices along two dimensions are equal, along the first of these; none if their sizes differ.
    pub fn diagonal(&self, first: usize, second: usize) -> Option<Self> {
        let mut part = self.clone();
        if first >= second || self.dims.get(first) != self.dims.get(second) {
            return None;
        }
        part.dims.remove(second);
        *part.strides.get_mut(first)? += self.strides.get(second)?;
        part.strides.remove(second);
        Some(part)
    }

    /// The number of elements from the beginning of the buffer to the last one used.
    pub fn end(&self) -> i64 {
        if self.elements() == 0 {
            return self.offset;
        }
        let last: i64 = self.dims.iter().zip(&self.strides).map(|(dim, stride)| (dim - 1) * stride).sum();
        self.offset + last + 1
    }
}

/// Packed strides, the last dimension innermost.
pub fn packed(dims: &[i64]) -> Dims {
    let mut strides: Dims = dims.into();
    let mut next = 1_i64;
    for stride in strides.iter_mut().rev() {
        let dim = std::mem::replace(stride, next);
        next = next.saturating_mul(dim.max(1));
    }
    strides
}

/// The number of elements.
pub fn elements(dims: &[i64]) -> i64 {
    dims.iter().fold(1_i64, |product, dim| product.saturating_mul(*dim))
}

/// The strides of a reshaped view: each run of dimensions without gaps is divided anew.
fn split(view: &View, dims: &[i64]) -> Option<Dims> {
    // Runs of the old dimensions, innermost last: number of elements and the stride of the innermost.
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for (dim, stride) in view.dims.iter().zip(&view.strides).filter(|(dim, _)| **dim != 1) {
        match runs.last_mut() {
            Some((count, inner)) if *inner == dim * stride => (*count, *inner) = (*count * dim, *stride),
            _ => runs.push((*dim, *stride)),
        }
    }
    let mut strides = Dims::repeated(1, dims.len());
    let mut left = runs.pop().unwrap_or((1, 1));
    let mut stride = left.1;
    for (to, dim) in strides.iter_mut().zip(dims).rev() {
        if *dim == 1 {
            *to = stride;
            continue;
        }
        if left.0 == 1 {
            left = runs.pop()?;
            stride = left.1;
        }
        if left.0 % dim != 0 {
            return None;
        }
        *to = stride;
        stride *= dim;
        left.0 /= dim;
    }
    (left.0 == 1 && runs.is_empty()).then_some(strides)
}

/// The broadcast dimensions of operands, aligned at the last one.
pub fn broadcast(operands: &[&View]) -> Lowered<Vec<i64>> {
    let shapes: Vec<&[i64]> = operands.iter().map(|view| view.dims.as_slice()).collect();
    broadcast_dims(&shapes)
}

/// The same for dimensions.
pub fn broadcast_dims(shapes: &[&[i64]]) -> Lowered<Vec<i64>> {
    let rank = shapes.iter().map(|dims| dims.len()).max().unwrap_or(0);
    let mut dims = vec![1; rank];
    for shape in shapes {
        for (to, dim) in dims.iter_mut().rev().zip(shape.iter().rev()) {
            if *to == 1 {
                *to = *dim;
            } else if *dim != 1 && dim != to {
                return refuse(format!("{shapes:?} do not broadcast"));
            }
        }
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(dims: &[i64]) -> View {
        View::packed(0, Element::Float, dims)
    }

    #[test]
    fn dimensions_are_divided_and_merged() {
        let x = view(&[2, 3, 8]);
        assert_eq!(x.reshaped(&[2, 3, 2, 4]).unwrap().strides, [24, 8, 4, 1]);
        assert_eq!(x.reshaped(&[48]).unwrap().strides, [1]);
        assert_eq!(x.reshaped(&[6, 1, 8]).unwrap().strides, [8, 8, 1]);
        assert_eq!(x.reshaped(&[5]), None);
        // [B, S, H·D] as [B, S, H, D] as [B, H, S, D], and back only by copying.
        let heads = x.reshaped(&[2, 3, 4, 2]).unwrap().permuted(&[0, 2, 1, 3]).unwrap();
        assert_eq!(
            (heads.dims.as_slice(), heads.strides.as_slice()),
            (&[2, 4, 3, 2][..], &[24, 2, 8, 1][..])
        );
        assert_eq!(heads.reshaped(&[2, 12, 2]), None);
        assert_eq!(heads.reshaped(&[8, 3, 2]), None);
        assert!(!heads.is_packed() && x.is_packed());
    }

    #[test]
    fn the_same_dimensions_are_the_same_view() {
        let image = view(&[1, 4, 5, 3]).permuted(&[0, 3, 1, 2]).unwrap();
        assert!(image.is_channels_last());
        assert_eq!(image.reshaped(&[1, 3, 4, 5]).unwrap(), image);
    }

    #[test]
    fn parts_and_repetitions_keep_the_buffer() {
        let part = view(&[4, 6]).sliced(1, 1, 2, 2).unwrap();
        assert_eq!(
            (part.offset, part.dims.as_slice(), part.strides.as_slice()),
            (1, &[4, 2][..], &[6, 2][..])
        );
        assert_eq!(part.end(), 1 + 18 + 2 + 1);
        let wide = view(&[3, 1]).expanded(&[2, 3, 5]).unwrap();
        assert_eq!(wide.strides, [0, 1, 0]);
        assert_eq!(view(&[3]).expanded(&[4]), None);
        assert_eq!(wide.reshaped(&[6, 5]), None);
    }

    #[test]
    fn scalars_and_empty_tensors_have_a_place() {
        assert_eq!(view(&[]).elements(), 1);
        assert_eq!(view(&[]).reshaped(&[1, 1]).unwrap().dims, [1, 1]);
        assert_eq!(view(&[0, 3]).reshaped(&[3, 0]).unwrap().elements(), 0);
        assert_eq!(view(&[0, 3]).end(), 0);
    }
}
