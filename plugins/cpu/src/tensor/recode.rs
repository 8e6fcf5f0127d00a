//! Copies a tensor to another dtype and layout, optionally scaled by blocks.

use std::ops::Range;

use crate::kernel::{Facts, Kernel, Refusal};
use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::simd::vector::Float;
use crate::tensor::row_codec::RowCodec;
use crate::tensor::scratch::Tensors;
use crate::threading::partition::{Threads, Workers};

/// Elements that are converted at once, and the elements per unit of work.
const TOGETHER: usize = 256;
const PART: usize = 4096;

/// Estimated nanoseconds of an element.
const TIME: f64 = 0.5;

/// Scales of blocks.
pub(crate) struct Scales<'a> {
    pub(crate) operand: &'a Operand,
    /// Elements per block along each dimension.
    pub(crate) block: &'a [usize; MAX_RANK],
    /// Whether the factor is 2 to the power of the negated scale.
    pub(crate) is_negative: bool,
}

/// A dimension: its size, its strides, and the number of elements that share a scale.
#[derive(Clone, Copy)]
struct Axis {
    dim: usize,
    from: usize,
    to: usize,
    scale: usize,
    block: usize,
}

/// A planned conversion that passes through values of type `T`.
pub(crate) struct Recode<T> {
    from: (usize, RowCodec<T>),
    to: (usize, RowCodec<T>),
    scale: Option<(usize, RowCodec<T>, bool)>,
    /// The dimensions across rows, and the one along a row.
    rows: Vec<Axis>,
    row: Axis,
    /// Rows per part.
    together: usize,
    workers: Workers,
}

impl<T: Float> Recode<T> {
    /// Plans the conversion of a tensor to another of the same shape.
    pub(crate) fn plan(
        [from, to]: [&Operand; 2],
        scales: Option<&Scales<'_>>,
        threads: Threads,
    ) -> Result<Self, Refusal> {
        let dims = from.layout.dims();
        let axis = |axis: usize| {
            let (dim, from, to) = (dims[axis], from.layout.strides()[axis], to.layout.strides()[axis]);
            let (scale, block) =
                scales.map_or((0, dim), |s| (s.operand.layout.strides()[axis], s.block[axis]));
            Axis { dim, from, to, scale, block }
        };
        // Dimensions that both tensors broadcast have one element.
        let is_walked = |axis: &Axis| axis.dim > 1 && (axis.from, axis.to) != (0, 0);
        let mut axes: Vec<Axis> = (0..dims.len()).map(axis).filter(is_walked).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse((axis.to, axis.from)));
        let mut rows: Vec<Axis> = Vec::with_capacity(axes.len());
        for axis in axes {
            if !rows.last_mut().is_some_and(|outer| outer.merge(&axis)) {
                rows.push(axis);
            }
        }
        let row = rows.pop().unwrap_or(Axis { dim: 1, from: 1, to: 1, scale: 0, block: 1 });
        let codec =
            |operand: &Operand| Ok::<_, Refusal>((operand.slot, RowCodec::<T>::of(operand.data_type)?));
        let scale = match scales {
            None => None,
            Some(scales) => {
                let (slot, codec) = codec(scales.operand)?;
                Some((slot, codec, scales.is_negative))
            }
        };
        let mut planned = Self {
            from: codec(from)?,
            to: codec(to)?,
            scale,
            together: (PART / row.dim).max(1),
            workers: threads.workers(0.0, 1),
            rows,
            row,
        };
        // Workers must not write the same byte: four elements are whole bytes in every dtype.
        let are_disjoint = row.to == 1 && planned.rows.iter().all(|axis| axis.to.is_multiple_of(4));
        if are_disjoint || planned.to.1.bits >= 8 {
            let time = TIME * from.layout.elements() as f64;
            planned.workers = threads.workers(time, planned.row_parts() * planned.parts_of_row());
        }
        Ok(planned)
    }

    fn parts_of_row(&self) -> usize {
        self.row.dim.div_ceil(PART)
    }

    fn row_parts(&self) -> usize {
        self.count().div_ceil(self.together)
    }

    fn count(&self) -> usize {
        self.rows.iter().map(|axis| axis.dim).product()
    }

    /// Converts elements of a row, given the offsets of its first elements in both tensors and of its first
    /// scale.
    ///
    /// # Safety
    /// The tensors are those of the kernel.
    unsafe fn convert(&self, tensors: &[*mut u8], [from, to, scale]: [usize; 3], elements: Range<usize>) {
        let Axis { from: from_stride, to: to_stride, scale: scale_stride, block, .. } = self.row;
        let (mut values, mut scales) = ([T::ZERO; TOGETHER], [T::ZERO; TOGETHER]);
        for first in elements.clone().step_by(TOGETHER) {
            let end = elements.end.min(first + TOGETHER);
            let values = &mut values[..end - first];
            let (slot, codec) = self.from;
            // SAFETY: this function requires the tensor, which has the elements.
            unsafe {
                let at = from + first * from_stride;
                codec.load(tensors[slot], at, from_stride, values.as_mut_ptr(), values.len());
            }
            if let Some((slot, codec, is_negative)) = self.scale {
                let blocks = first / block..(end - 1) / block + 1;
                let scales = &mut scales[..blocks.len()];
                let at = scale + blocks.start * scale_stride;
                // SAFETY: the tensor has a scale for each block.
                unsafe { codec.load(tensors[slot], at, scale_stride, scales.as_mut_ptr(), scales.len()) };
                if is_negative {
                    scales.iter_mut().for_each(|scale| *scale = T::from_f64((-scale.to_f64()).exp2()));
                }
                if block == 1 {
                    values.iter_mut().zip(scales).for_each(|(value, scale)| *value = *value * *scale);
                } else {
                    let mut at = first;
                    for (block_number, scale) in blocks.zip(scales) {
                        let next = end.min((block_number + 1) * block);
                        let of_block = &mut values[at - first..next - first];
                        of_block.iter_mut().for_each(|value| *value = *value * *scale);
                        at = next;
                    }
                }
            }
            let (slot, codec) = self.to;
            // SAFETY: the tensor has the elements, which only this worker writes.
            unsafe {
                codec.store(values.as_ptr(), tensors[slot], to + first * to_stride, to_stride, values.len());
            }
        }
    }
}

impl Axis {
    /// Merges the next dimension into this one, if they are contiguous in all tensors.
    fn merge(&mut self, inner: &Self) -> bool {
        let follows = self.from == inner.from * inner.dim && self.to == inner.to * inner.dim;
        if inner.block >= inner.dim {
            // The inner dimension has a single scale.
            if follows {
                (self.block, self.dim) = (self.block * inner.dim, self.dim * inner.dim);
                (self.from, self.to) = (inner.from, inner.to);
            }
            return follows;
        }
        let blocks = inner.dim / inner.block;
        let is_whole = self.block == 1 && inner.dim.is_multiple_of(inner.block);
        let merges = follows && is_whole && self.scale == inner.scale * blocks;
        if merges {
            *self = Self { dim: self.dim * inner.dim, ..*inner };
        }
        merges
    }
}

impl<T: Float> Kernel for Recode<T> {
    fn facts(&self) -> Facts {
        Facts::new("recode", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _: *mut u8) {
        let (parts, count) = (self.parts_of_row(), self.count());
        let all = Tensors(tensors);
        self.workers.for_each_part(self.row_parts() * parts, |_, part| {
            let first = part % parts * PART;
            let elements = first..self.row.dim.min(first + PART);
            let rows = part / parts * self.together;
            for row in rows..count.min(rows + self.together) {
                let (mut offsets, mut rest) = ([0; 3], row);
                for axis in self.rows.iter().rev() {
                    let index = rest % axis.dim;
                    rest /= axis.dim;
                    let of_axis = [index * axis.from, index * axis.to, index / axis.block * axis.scale];
                    offsets.iter_mut().zip(of_axis).for_each(|(offset, of_axis)| *offset += of_axis);
                }
                // SAFETY: this function requires the tensors, which have the row; only this worker writes its
                // elements.
                unsafe { self.convert(all.all(), offsets, elements.clone()) };
            }
        });
    }
}
