//! Convolutions whose channels do not meet: each channel of the output is made of one channel of the input.
//!
//! There is no matrix product in them, and little to compute for each number that is read: the kernels read images in place
//! where they can and keep rows of the output in registers until everything that is added to them is.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod backward_weights;
pub(crate) mod channels_last;
pub(crate) mod epilogue;
pub(crate) mod gaps;
pub(crate) mod pixels;
pub(crate) mod planar;
pub(crate) mod rows;
pub(crate) mod sums;
pub(crate) mod tiles;

#[cfg(test)]
mod tests;

use crate::depthwise::backward_weights::BackwardWeights;
use crate::depthwise::channels_last::{ChannelsLast, Transposition};
use crate::depthwise::epilogue::AffineEpilogue;
use crate::depthwise::planar::ChannelsFirst;
use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::problem::convolution::{Convolution, Direction};
use crate::simd::isa::Isa;
use crate::simd::real::{Float, RowConverter};
use crate::tensor::image::{Image, two};
use crate::threading::partition::Threads;

/// Spatial dimensions that the kernels know.
const SPATIAL: usize = 2;
/// Elements of a window above which the general kernel computes.
const MAX_TAPS: usize = 1 << 10;
/// Filters for a channel above which the general kernel computes their gradients.
const MAX_MULTIPLIER: usize = 4;
/// Elements along a side of a window above which the general kernel computes gradients of the image with steps.
const MAX_SIDE: usize = 32;
/// Numbers along a side of the padded image above which the general kernel computes, so that no place in it overflows.
const LONGEST: usize = 1 << 28;

/// Whether these kernels compute the convolution.
pub(crate) fn covers(c: &Convolution) -> bool {
    let sizes = [&c.input, &c.output, &c.window, &c.stride, &c.dilation, &c.pre_padding];
    c.spatial <= SPATIAL
        && c.in_channels == 1
        && match c.direction {
            Direction::Forward => true,
            // The same with rows and columns of the window in the opposite order.
            Direction::BackwardData => {
                let in_steps = |i: usize| c.stride[i] > 1;
                let fits = (0..c.spatial).all(|i| c.window[i] <= MAX_SIDE);
                c.out_channels == 1 && (fits || !(0..c.spatial).any(in_steps))
            }
            // With many, the matrix product reads the image fewer times.
            Direction::BackwardFilter => c.out_channels <= MAX_MULTIPLIER,
        }
        && (c.groups > 1 || c.out_channels == 1)
        && [&c.x, &c.w, &c.y].iter().all(|operand| RowConverter::<f64>::of(operand.data_type).is_ok())
        && c.window[..c.spatial].iter().product::<usize>() <= MAX_TAPS
        && (0..c.spatial).all(|i| {
            // Each is small, and so is every place of a window.
            sizes.iter().all(|size| size[i] < LONGEST)
                && c.window[i].saturating_mul(c.dilation[i]) < LONGEST
                && c.output[i].saturating_mul(c.stride[i]) < LONGEST
        })
}

/// Plans a convolution that is covered for a level of the processor.
pub(crate) fn plan(
    convolution: &Convolution,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    epilogue: Option<Epilogue<'_>>,
) -> Result<Box<dyn Kernel>, Refusal> {
    match compute {
        Compute::Single => plan_in::<f32>(convolution, isa, threads, epilogue),
        Compute::Double => plan_in::<f64>(convolution, isa, threads, epilogue),
    }
}

fn plan_in<T: Float>(
    c: &Convolution,
    isa: Isa,
    threads: Threads,
    epilogue: Option<Epilogue<'_>>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let backward = c.direction == Direction::BackwardData;
    let shape = if backward { Shape::of(c).turned() } else { Shape::of(c) };
    let (from, to) = if backward { (&c.y, &c.x) } else { (&c.x, &c.y) };
    let [x, w, y] = [from, &c.w, to].map(|operand| Image::<T>::of(operand, c.spatial));
    let images = [x?, w?, y?];
    if c.direction == Direction::BackwardFilter {
        return match epilogue {
            None => Ok(Box::new(BackwardWeights::plan(shape, images, isa, threads))),
            Some(_) => Err("what follows is not done with gradients of filters".to_owned()),
        };
    }
    let channel_epilogue = epilogue.map(AffineEpilogue::of).transpose()?;
    let turn = Transposition::of(&shape, from, &images, isa)?;
    Ok(if turn.is_some() || ChannelsLast::covers(&shape, &images[0], &images[2]) {
        Box::new(ChannelsLast::plan(shape, images, isa, threads, channel_epilogue, turn))
    } else {
        Box::new(ChannelsFirst::plan(shape, images, isa, threads, channel_epilogue))
    })
}

/// A convolution with two spatial dimensions, the first 1 where it has but one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    batch: usize,
    /// Channels of the output, and how many there are for each channel of the input.
    channels: usize,
    multiplier: usize,
    input: [usize; 2],
    output: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    /// How far rows and columns of the input are apart where windows meet it: the steps of the convolution whose gradient is
    /// computed.
    input_dilation: [usize; 2],
    dilation: [usize; 2],
    /// Rows and columns before the image; negative where the first windows begin inside.
    padding: [isize; 2],
    mirrored: bool,
    /// Spatial dimensions of the tensors.
    spatial: usize,
}

impl Shape {
    fn of(c: &Convolution) -> Self {
        let s = c.spatial;
        Self {
            batch: c.batch,
            channels: c.groups * c.out_channels,
            multiplier: c.out_channels,
            input: two(s, 1, &c.input),
            output: two(s, 1, &c.output),
            window: two(s, 1, &c.window),
            stride: two(s, 1, &c.stride),
            input_dilation: [1, 1],
            dilation: two(s, 1, &c.dilation),
            padding: two(s, 0, &c.pre_padding).map(|n| n as isize),
            mirrored: c.mirrored,
            spatial: s,
        }
    }

    /// The convolution that makes the gradient of x of that of y: its steps are 1, and that of y has gaps where x had steps.
    fn turned(self) -> Self {
        let reach = |i: usize| ((self.window[i] - 1) * self.dilation[i]) as isize;
        Self {
            input: self.output,
            output: self.input,
            stride: [1, 1],
            input_dilation: self.stride,
            padding: [reach(0) - self.padding[0], reach(1) - self.padding[1]],
            mirrored: !self.mirrored,
            ..self
        }
    }

    /// Elements of the window.
    fn taps(&self) -> usize {
        self.window[0] * self.window[1]
    }

    /// The distances in bytes of the elements of a channel's window, in the order in which these meet the image, row by row.
    fn offsets<T>(&self, w: &Image<T>) -> Vec<usize> {
        let [rows, columns] = self.window;
        let place = |at: usize, len: usize| if self.mirrored { len - 1 - at } else { at };
        let offset = |i: usize, j: usize| place(i, rows) * w.strides[2] + place(j, columns) * w.strides[3];
        (0..self.taps()).map(|tap| offset(tap / columns, tap % columns) * w.run.size).collect()
    }

    /// The place of the first row of a window of this row of the output, among the input's and its gaps.
    fn first_row(&self, row: usize) -> isize {
        (row * self.stride[0]) as isize - self.padding[0]
    }

    /// The rows of the input that windows of these rows of the output meet.
    fn rows(&self, rows: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let row = |place: isize| (place.max(0) as usize).div_ceil(self.input_dilation[0]).min(self.input[0]);
        let first = row(self.first_row(rows.start));
        let last = self.first_row(rows.end - 1) + ((self.window[0] - 1) * self.dilation[0]) as isize + 1;
        first..row(last).max(first)
    }

    /// Whether some window reaches beyond the image, or meets gaps.
    fn is_padded(&self) -> bool {
        (0..2).any(|i| {
            let last =
                ((self.output[i] - 1) * self.stride[i] + (self.window[i] - 1) * self.dilation[i]) as isize;
            self.input_dilation[i] > 1
                || self.padding[i] > 0
                || last - self.padding[i] >= self.input[i] as isize
        })
    }
}

/// The row or column at a place of an image whose rows or columns are `input_dilation`; none in gaps and beside the image.
#[inline(always)]
fn number(place: isize, input_dilation: usize, len: usize) -> Option<usize> {
    if place < 0 {
        return None;
    }
    let number = place as usize / input_dilation;
    (number * input_dilation == place as usize && number < len).then_some(number)
}
