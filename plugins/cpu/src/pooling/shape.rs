//! The shape of a pooling, and the positions of its windows.

use crate::kernel::Refusal;
use crate::problem::Operand;
use crate::problem::resample::{Pooling, Resample};
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, MAX_LANES, Vector};
use crate::tensor::image::Image;
use crate::tensor::row_converter::RowConverter;

/// Spatial dimensions: depth, rows and columns. Missing ones have size 1.
pub(crate) const DEPTH: usize = 0;
pub(crate) const ROWS: usize = 1;
pub(crate) const COLUMNS: usize = 2;

/// An array with an entry for each of three spatial dimensions; `fill` for missing ones.
pub(crate) fn three(spatial: usize, fill: usize, values: &[usize]) -> [usize; 3] {
    let mut all = [fill; 3];
    all[3 - spatial..].copy_from_slice(&values[..spatial]);
    all
}

/// Bytes of the rows of a window above which they are not converted together.
const MOST_CONVERTED: usize = 1 << 20;

/// The index tensor.
#[derive(Clone, Copy)]
pub(crate) struct Index {
    pub(crate) slot: usize,
    /// Strides of images, channels, depth, rows and columns.
    pub(crate) strides: [usize; 5],
}

impl Index {
    pub(crate) fn of(operand: &Operand, spatial: usize) -> Self {
        let strides = operand.layout.strides();
        let [depth, rows, columns] = three(spatial, 0, &strides[2..]);
        Self { slot: operand.slot, strides: [strides[0], strides[1], depth, rows, columns] }
    }

    /// The address of an element.
    ///
    /// # Safety
    /// The tensors are those of the kernel; the element exists.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, tensors: &[*mut u8], position: [usize; 5]) -> *mut i32 {
        let offset = position.iter().zip(self.strides).map(|(at, stride)| at * stride).sum();
        // SAFETY: the element is valid, as this function requires.
        unsafe { tensors[self.slot].cast::<i32>().add(offset) }
    }
}

/// A tensor of images that may have a depth.
#[derive(Clone, Copy)]
pub(crate) struct Volume<T> {
    /// The images at depth 0.
    pub(crate) image: Image<T>,
    /// The stride of the depth, in elements.
    pub(crate) depth: usize,
}

impl<T: Float> Volume<T> {
    pub(crate) fn of(operand: &Operand, spatial: usize) -> Result<Self, Refusal> {
        let strides = operand.layout.strides();
        let [depth, rows, columns] = three(spatial, 0, &strides[2..]);
        let image = Image {
            slot: operand.slot,
            run: RowConverter::of(operand.data_type)?,
            strides: [strides[0], strides[1], rows, columns],
        };
        Ok(Self { image, depth })
    }

    /// The address of an element: image, channel, depth, row, column.
    ///
    /// # Safety
    /// The tensors are those of the kernel; the element exists.
    #[inline(always)]
    pub(crate) unsafe fn at(
        &self,
        tensors: &[*mut u8],
        [image, channel, depth, row, column]: [usize; 5],
    ) -> *mut u8 {
        let first = self.image.at(tensors[self.image.slot], [image, channel, row, column]);
        // SAFETY: the element is inside the tensor, as this function requires.
        unsafe { first.add(depth * self.depth * self.image.run.size) }
    }

    /// Whether the elements of a channel are contiguous.
    pub(crate) fn is_run(&self, [depth, rows, columns]: [usize; 3]) -> bool {
        let [_, _, row, column] = self.image.strides;
        (columns == 1 || column == 1)
            && (rows == 1 || row == columns)
            && (depth == 1 || self.depth == rows * columns)
    }
}

/// The operands of both directions and all layouts.
pub(crate) struct PoolPlan<T> {
    pub(crate) shape: Shape,
    pub(crate) isa: Isa,
    /// x or its gradient.
    pub(crate) x: Volume<T>,
    /// y or its gradient.
    pub(crate) y: Volume<T>,
    pub(crate) index: Option<Index>,
}

impl<T: Float> PoolPlan<T> {
    /// Whether both images are channels last.
    fn are_last(&self) -> bool {
        self.shape.channels >= 4 && [&self.x, &self.y].iter().all(|volume| volume.image.strides[1] == 1)
    }

    /// Whether both images are channels last in the compute type.
    pub(crate) fn is_last(&self) -> bool {
        self.are_last() && self.x.image.run.same && self.y.image.run.same
    }

    /// Whether both images are channels last in any dtype, with rows of x that can be converted as runs.
    pub(crate) fn is_convertible(&self) -> bool {
        let Shape { input, output, window, channels, .. } = &self.shape;
        let row = input[COLUMNS].saturating_mul(*channels).saturating_mul(size_of::<T>());
        self.are_last()
            && [input[DEPTH], output[DEPTH], window[DEPTH]] == [1; 3]
            && self.x.image.strides[3] == *channels
            && window[ROWS].min(input[ROWS]).saturating_mul(row) <= MOST_CONVERTED
    }

    /// Estimated nanoseconds on one thread.
    pub(crate) fn work(&self) -> f64 {
        let planes = (self.shape.batch * self.shape.channels) as f64;
        let [inputs, outputs] =
            [self.shape.input, self.shape.output].each(|size| size.iter().product::<usize>() as f64);
        let window = (0..3).map(|i| self.shape.window[i].min(self.shape.input[i]) as f64).product::<f64>();
        planes * (20.0 + inputs * 0.2 + outputs * (0.3 + 0.06 * window)) * size_of::<T>() as f64 / 4.0
    }
}

/// A pooling with three spatial dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) pooling: Pooling,
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) input: [usize; 3],
    pub(crate) output: [usize; 3],
    pub(crate) window: [usize; 3],
    pub(crate) stride: [usize; 3],
    pub(crate) padding: [usize; 3],
}

/// The depths and rows of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) depth: Span,
    pub(crate) rows: Span,
}

impl Lines {
    /// The number of lines.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.depth.len * self.rows.len
    }
}

/// The positions of a window along one dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The first position inside x, and the number of positions inside.
    pub(crate) first: usize,
    pub(crate) len: usize,
    /// Whether there are positions before x, or after it.
    pub(crate) before: bool,
    pub(crate) after: bool,
}

/// When zeros of the padding are compared with elements of x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    Never,
    First,
    /// After the first row inside.
    AfterRow,
    /// After the rows of the first depth inside.
    AfterRows,
    Last,
}

impl Shape {
    pub(crate) fn of(problem: &Resample) -> Self {
        let s = problem.spatial;
        let dims = problem.x.layout.dims();
        Self {
            pooling: problem.pooling,
            batch: dims[0],
            channels: dims[1],
            input: three(s, 1, &problem.input),
            output: three(s, 1, &problem.output),
            window: three(s, 1, &problem.window),
            stride: three(s, 1, &problem.stride),
            padding: three(s, 0, &problem.pre_padding),
        }
    }

    /// How many rows y has in all depths.
    pub(crate) fn rows(&self) -> usize {
        self.output[DEPTH] * self.output[ROWS]
    }

    /// The depth of a row of y, and its index there.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> [usize; 2] {
        [row / self.output[ROWS], row % self.output[ROWS]]
    }

    /// The depths and rows of the windows of one row of y, numbered across depths.
    #[inline(always)]
    pub(crate) fn lines(&self, row: usize) -> Lines {
        let [depth, row] = self.place(row);
        Lines { depth: self.span(DEPTH, depth), rows: self.span(ROWS, row) }
    }

    /// The index of a position in a dense plane.
    #[inline(always)]
    pub(crate) fn index(&self, depth: usize, row: usize, column: usize) -> usize {
        (depth * self.input[ROWS] + row) * self.input[COLUMNS] + column
    }

    /// The positions of the windows of one depth, row or column of y.
    #[inline(always)]
    pub(crate) fn span(&self, axis: usize, at: usize) -> Span {
        // Both are counted from the first element of the padding.
        let begin = at * self.stride[axis];
        let end = begin + self.window[axis];
        let (pre, input) = (self.padding[axis], self.input[axis]);
        let first = begin.max(pre);
        let len = end.min(pre + input).saturating_sub(first);
        Span { first: first - pre, len, before: begin < pre, after: end > pre + input }
    }

    /// The columns of y whose windows are inside x.
    pub(crate) fn inner(&self) -> std::ops::Range<usize> {
        let [input, window, stride, padding, output] =
            [&self.input, &self.window, &self.stride, &self.padding, &self.output].each(|of| of[COLUMNS]);
        let end = padding + input;
        let high = if end < window { 0 } else { (end - window) / stride + 1 };
        let high = high.min(output);
        padding.div_ceil(stride).min(high)..high
    }

    /// When the zeros of a window are compared.
    #[inline(always)]
    pub(crate) fn zero(&self, lines: &Lines, columns: &Span) -> Zero {
        let Lines { depth, rows } = lines;
        if self.pooling != (Pooling::Maximum { zeros: true }) {
            Zero::Never
        } else if depth.before || rows.before || columns.before {
            Zero::First
        } else if columns.after {
            Zero::AfterRow
        } else if rows.after {
            Zero::AfterRows
        } else if depth.after {
            Zero::Last
        } else {
            Zero::Never
        }
    }

    /// The divisor of a sum.
    #[inline(always)]
    pub(crate) fn divisor<T: Float>(&self, lines: &Lines, columns: &Span) -> T {
        T::from_f64(match self.pooling {
            Pooling::MeanInside => (lines.count() * columns.len).max(1) as f64,
            // The window may be larger than any tensor.
            _ => self.window.iter().map(|side| *side as f64).product(),
        })
    }

    pub(crate) fn is_maximum(&self) -> bool {
        matches!(self.pooling, Pooling::Maximum { .. })
    }
}

/// Writes the first `count` lanes, which are indices, to an index tensor.
///
/// # Safety
/// The processor has the vector's instructions; the elements from `to` on are writable.
#[inline(always)]
pub(crate) unsafe fn store_indices<T: Float, V: Vector<Scalar = T>>(
    indices: V,
    count: usize,
    to: *mut i32,
    stride: usize,
) {
    let mut values = [T::ZERO; MAX_LANES];
    let mut whole = [0; MAX_LANES];
    // SAFETY: the instructions and elements are valid, as this function requires; no vector has more lanes than there are values.
    unsafe {
        indices.store(values.as_mut_ptr());
        // All lanes, so that the conversion is vectorized.
        for (whole, value) in whole.iter_mut().zip(&values) {
            *whole = value.into_whole();
        }
        let (from, to_bytes) = (whole.as_ptr().cast::<u8>(), to.cast::<u8>());
        if stride == 1 {
            // A copy of constant size compiles to a store.
            match count == V::LANES {
                true => to_bytes.copy_from_nonoverlapping(from, V::LANES * size_of::<i32>()),
                false => to_bytes.copy_from_nonoverlapping(from, count * size_of::<i32>()),
            }
            return;
        }
        for (i, value) in whole[..count].iter().enumerate() {
            to.add(i * stride).write_unaligned(*value);
        }
    }
}
