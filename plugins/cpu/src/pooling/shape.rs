//! The shape of a pooling, and the positions of its windows.

use crate::dtype::element::ComputeType;
use crate::problem::resample::{Pooling, Resample};
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, MAX_LANES, Vector};
use crate::tensor::image::{Image, two};

/// The index tensor.
#[derive(Clone, Copy)]
pub(crate) struct Index {
    pub(crate) slot: usize,
    /// Strides of images, channels, rows and columns.
    pub(crate) strides: [usize; 4],
}

impl Index {
    /// The address of an element.
    ///
    /// # Safety
    /// The tensors are those of the kernel; the element exists.
    #[inline(always)]
    pub(crate) unsafe fn at(
        &self,
        tensors: &[*mut u8],
        [image, channel, row, column]: [usize; 4],
    ) -> *mut i32 {
        let [images, channels, rows, columns] = self.strides;
        let offset = image * images + channel * channels + row * rows + column * columns;
        // SAFETY: the element is valid, as this function requires.
        unsafe { tensors[self.slot].cast::<i32>().add(offset) }
    }
}

/// The operands of both directions and all layouts.
pub(crate) struct PoolPlan<T> {
    pub(crate) shape: Shape,
    pub(crate) isa: Isa,
    /// x or its gradient.
    pub(crate) x: Image<T>,
    /// y or its gradient.
    pub(crate) y: Image<T>,
    pub(crate) index: Option<Index>,
}

impl<T: Float> PoolPlan<T> {
    /// Whether both images are channels last in the compute type.
    pub(crate) fn is_last(&self) -> bool {
        let last = |image: &Image<T>| image.run.same && image.strides[1] == 1;
        self.shape.channels >= 4 && last(&self.x) && last(&self.y)
    }

    /// Estimated nanoseconds on one thread.
    pub(crate) fn work(&self) -> f64 {
        let planes = (self.shape.batch * self.shape.channels) as f64;
        let [inputs, outputs] = [self.shape.input, self.shape.output].map(|size| (size[0] * size[1]) as f64);
        let window = (0..2).map(|i| self.shape.window[i].min(self.shape.input[i]) as f64).product::<f64>();
        planes * (20.0 + inputs * 0.2 + outputs * (0.3 + 0.06 * window)) * size_of::<T>() as f64 / 4.0
    }
}

/// A pooling with two spatial dimensions; the first is 1 if there is only one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) pooling: Pooling,
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) input: [usize; 2],
    pub(crate) output: [usize; 2],
    pub(crate) window: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
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
    ChannelsLast,
}

impl Shape {
    pub(crate) fn of(problem: &Resample) -> Self {
        let s = problem.spatial;
        let dims = problem.x.layout.dims();
        Self {
            pooling: problem.pooling,
            batch: dims[0],
            channels: dims[1],
            input: two(s, 1, &problem.input),
            output: two(s, 1, &problem.output),
            window: two(s, 1, &problem.window),
            stride: two(s, 1, &problem.stride),
            padding: two(s, 0, &problem.pre_padding),
        }
    }

    /// The positions of the windows of one row or column of y.
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
        let (stride, end) = (self.stride[1], self.padding[1] + self.input[1]);
        let high = if end < self.window[1] { 0 } else { (end - self.window[1]) / stride + 1 };
        let high = high.min(self.output[1]);
        self.padding[1].div_ceil(stride).min(high)..high
    }

    /// When the zeros of a window are compared.
    #[inline(always)]
    pub(crate) fn zero(&self, rows: &Span, columns: &Span) -> Zero {
        if self.pooling != (Pooling::Maximum { zeros: true }) {
            Zero::Never
        } else if rows.before || columns.before {
            Zero::First
        } else if columns.after {
            Zero::AfterRow
        } else if rows.after {
            Zero::ChannelsLast
        } else {
            Zero::Never
        }
    }

    /// The divisor of a sum.
    #[inline(always)]
    pub(crate) fn divisor<T: Float>(&self, rows: &Span, columns: &Span) -> T {
        T::from_f64(match self.pooling {
            Pooling::MeanInside => (rows.len * columns.len).max(1) as f64,
            // The window may be larger than any tensor.
            _ => self.window[0] as f64 * self.window[1] as f64,
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
pub(crate) unsafe fn store_indices<V: Vector>(indices: V, count: usize, to: *mut i32, stride: usize) {
    let mut values = [V::Scalar::ZERO; MAX_LANES];
    // SAFETY: the instructions and elements are valid, as this function requires; no vector has more lanes than there are values.
    unsafe {
        indices.store(values.as_mut_ptr());
        for (i, value) in values[..count].iter().enumerate() {
            to.add(i * stride).write_unaligned(value.to_f64() as i32);
        }
    }
}
