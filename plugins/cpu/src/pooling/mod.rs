//! Pooling and its gradient.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod backward;
pub(crate) mod channels_last;
pub(crate) mod planar;

#[cfg(test)]
mod tests;

use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::pooling::backward::Backward;
use crate::pooling::channels_last::ChannelsLast;
use crate::pooling::planar::ChannelsFirst;
use crate::problem::resample::{Pooling, Resample};
use crate::simd::isa::Isa;
use crate::simd::real::Float;
use crate::tensor::image::{Image, two};
use crate::threading::partition::Threads;

/// Spatial dimensions that the kernels know.
const SPATIAL: usize = 2;
/// Parts for each lane: few enough to be worth a turn, enough that lanes end together.
const PARTS: usize = 6;

/// Plans a pooling or its gradient for a level of the processor.
pub(crate) fn plan(
    problem: &Resample,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    match compute {
        Compute::Single => plan_in::<f32>(problem, isa, threads, 1 << 24),
        Compute::Double => plan_in::<f64>(problem, isa, threads, 1 << 31),
    }
}

/// `most` is how many elements of a plane can be told apart by a number.
fn plan_in<T: Float>(
    problem: &Resample,
    isa: Isa,
    threads: Threads,
    most: usize,
) -> Result<Box<dyn Kernel>, Refusal> {
    if problem.spatial > SPATIAL {
        return Err(format!("{} spatial dimensions, expected at most {SPATIAL}", problem.spatial));
    }
    let shape = Shape::of(problem);
    let plane = shape.input[0].saturating_mul(shape.input[1]);
    if plane > most {
        return Err(format!("a plane has {plane} elements, expected at most {most}"));
    }
    let (x, y) = (Image::<T>::of(&problem.x, problem.spatial)?, Image::<T>::of(&problem.y, problem.spatial)?);
    let index = problem.index.map(|index| {
        let strides = index.layout.strides();
        let [rows, columns] = two(problem.spatial, 0, &strides[2..]);
        Index { slot: index.slot, strides: [strides[0], strides[1], rows, columns] }
    });
    let pool = PoolPlan { shape, isa, x, y, index };
    Ok(if problem.backward {
        Box::new(Backward::plan(pool, threads))
    } else if pool.is_last() {
        Box::new(ChannelsLast::plan(pool, threads))
    } else {
        Box::new(ChannelsFirst::plan(pool, threads))
    })
}

/// The tensor of places.
#[derive(Clone, Copy)]
struct Index {
    slot: usize,
    /// Of images, channels, rows and columns.
    strides: [usize; 4],
}

impl Index {
    /// The place of an element.
    ///
    /// # Safety
    /// The tensors are those of the kernel; the element exists.
    #[inline(always)]
    unsafe fn at(&self, tensors: &[*mut u8], [image, channel, row, column]: [usize; 4]) -> *mut i32 {
        let [images, channels, rows, columns] = self.strides;
        let offset = image * images + channel * channels + row * rows + column * columns;
        // SAFETY: the caller promises the element.
        unsafe { tensors[self.slot].cast::<i32>().add(offset) }
    }
}

/// What both directions and all layouts have.
pub(crate) struct PoolPlan<T> {
    shape: Shape,
    isa: Isa,
    /// x or its gradient.
    x: Image<T>,
    /// y or its gradient.
    y: Image<T>,
    index: Option<Index>,
}

impl<T: Float> PoolPlan<T> {
    /// Whether both images are numbers with the channels of an element side by side.
    fn is_last(&self) -> bool {
        let last = |image: &Image<T>| image.run.same && image.strides[1] == 1;
        self.shape.channels >= 4 && last(&self.x) && last(&self.y)
    }

    /// Nanoseconds that one thread takes, about.
    fn work(&self) -> f64 {
        let planes = (self.shape.batch * self.shape.channels) as f64;
        let [inputs, outputs] = [self.shape.input, self.shape.output].map(|size| (size[0] * size[1]) as f64);
        let window = (0..2).map(|i| self.shape.window[i].min(self.shape.input[i]) as f64).product::<f64>();
        planes * (20.0 + inputs * 0.2 + outputs * (0.3 + 0.06 * window)) * size_of::<T>() as f64 / 4.0
    }
}

/// A pooling with two spatial dimensions, the first 1 where it has but one.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pooling: Pooling,
    batch: usize,
    channels: usize,
    input: [usize; 2],
    output: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

/// The positions of a window along one dimension.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The first that lies inside of x, and how many do.
    first: usize,
    len: usize,
    /// Whether some lie before x, or behind.
    before: bool,
    after: bool,
}

/// When zeros outside of x are compared with what is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zero {
    Never,
    First,
    /// After the first row that is inside.
    AfterRow,
    ChannelsLast,
}

impl Shape {
    fn of(problem: &Resample) -> Self {
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
    fn span(&self, axis: usize, at: usize) -> Span {
        // Both are counted from the first element of the padding.
        let begin = at * self.stride[axis];
        let end = begin + self.window[axis];
        let (pre, input) = (self.padding[axis], self.input[axis]);
        let first = begin.max(pre);
        let len = end.min(pre + input).saturating_sub(first);
        Span { first: first - pre, len, before: begin < pre, after: end > pre + input }
    }

    /// The columns of y whose windows lie inside of x.
    fn inner(&self) -> std::ops::Range<usize> {
        let (stride, end) = (self.stride[1], self.padding[1] + self.input[1]);
        let high = if end < self.window[1] { 0 } else { (end - self.window[1]) / stride + 1 };
        let high = high.min(self.output[1]);
        self.padding[1].div_ceil(stride).min(high)..high
    }

    /// When zeros come in a window.
    #[inline(always)]
    fn zero(&self, rows: &Span, columns: &Span) -> Zero {
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

    /// What a sum is divided by.
    #[inline(always)]
    fn divisor<T: Float>(&self, rows: &Span, columns: &Span) -> T {
        T::from_f64(match self.pooling {
            Pooling::MeanInside => (rows.len * columns.len).max(1) as f64,
            // The window may be larger than any tensor.
            _ => self.window[0] as f64 * self.window[1] as f64,
        })
    }

    fn is_maximum(&self) -> bool {
        matches!(self.pooling, Pooling::Maximum { .. })
    }
}
