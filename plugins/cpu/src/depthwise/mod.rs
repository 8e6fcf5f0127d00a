//! Depthwise convolutions: each output channel depends on one input channel.
//!
//! They are not matrix multiplications and do little arithmetic per element: the kernels read images in place
//! if possible, and keep rows of the output in registers until they are complete.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod accumulators;
pub(crate) mod backward_weights;
pub(crate) mod band;
pub(crate) mod bytes;
pub(crate) mod bytes_last;
pub(crate) mod channels_first;
pub(crate) mod channels_last;
pub(crate) mod dilated;
pub(crate) mod epilogue;
pub(crate) mod pixels;
pub(crate) mod rows;
pub(crate) mod separable;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod tiles;

use crate::depthwise::backward_weights::BackwardWeights;
use crate::depthwise::channels_first::ChannelsFirst;
use crate::depthwise::channels_last::{ChannelsLast, Transposition};
use crate::depthwise::epilogue::AffineEpilogue;
use crate::depthwise::shape::{LONGEST, MAX_MULTIPLIER, MAX_SIDE, MAX_TAPS, SPATIAL, Shape};
use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::problem::convolution::{Convolution, Direction};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::image::Image;
use crate::tensor::parts::InParts;
use crate::tensor::row_converter::RowConverter;
use crate::threading::partition::Threads;

/// Refuses convolutions that these kernels do not compute.
pub(crate) fn supports(c: &Convolution) -> Result<(), Refusal> {
    if c.spatial > SPATIAL {
        return Err(format!("{} spatial dimensions, expected at most {SPATIAL}", c.spatial));
    }
    if c.in_channels != 1 {
        return Err(format!("{} input channels in a group, expected 1", c.in_channels));
    }
    let most = match c.direction {
        Direction::Forward => usize::MAX,
        // The forward convolution with a reversed filter.
        Direction::BackwardData => 1,
        // With more filters, a GEMM reads the image fewer times.
        Direction::BackwardFilter => MAX_MULTIPLIER,
    };
    // With one group, several filters make an ordinary convolution.
    let most = if c.groups > 1 { most } else { 1 };
    if c.out_channels > most {
        return Err(format!("{} filters for a channel, expected at most {most}", c.out_channels));
    }
    for operand in [&c.x, &c.w, &c.y] {
        RowConverter::<f64>::of(operand.data_type)?;
    }
    let has_steps = (0..c.spatial).any(|i| c.stride[i] > 1);
    let is_long = (0..c.spatial).any(|i| c.window[i] > MAX_SIDE);
    let is_huge = c.window[..c.spatial].iter().product::<usize>() > MAX_TAPS;
    if is_huge || (c.direction == Direction::BackwardData && has_steps && is_long) {
        return Err(format!("a window of {:?}, which is too large", &c.window[..c.spatial]));
    }
    let sizes = [&c.input, &c.output, &c.window, &c.stride, &c.dilation, &c.pre_padding];
    // Positions of windows must not overflow.
    let fits = (0..c.spatial).all(|i| {
        sizes.iter().all(|size| size[i] < LONGEST)
            && c.window[i].saturating_mul(c.dilation[i]) < LONGEST
            && c.output[i].saturating_mul(c.stride[i]) < LONGEST
    });
    if fits { Ok(()) } else { Err(format!("sides of the padded image, expected below {LONGEST}")) }
}

/// Plans a supported convolution for an instruction set.
pub(crate) fn plan(
    convolution: &Convolution,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    epilogue: Option<Epilogue<'_>>,
) -> Result<Box<dyn Kernel>, Refusal> {
    with_compute!(compute, T => plan_in::<T>(convolution, isa, threads, epilogue))
}

/// Plans a forward convolution of single precision whose rows are read and written in place, to compute some channels and
/// rows at a time.
pub(crate) fn plan_rows(
    c: &Convolution,
    isa: Isa,
    epilogue: Option<Epilogue<'_>>,
) -> Result<ChannelsFirst<f32>, Refusal> {
    let shape = Shape::of(c);
    let [x, w, y] = [&c.x, &c.w, &c.y].map(|operand| Image::<f32>::of(operand, c.spatial));
    let images = [x?, w?, y?];
    let is_last = ChannelsLast::covers(&shape, &images[0], &images[2])
        || Transposition::of(&shape, &c.x, &images, isa)?.is_some();
    if is_last || !images[0].has_rows() || !images[2].has_rows() {
        return Err("rows of single precision that are not contiguous".to_owned());
    }
    let channel_epilogue = epilogue.map(AffineEpilogue::of).transpose()?;
    let threads = Threads { most: 1, ..Threads::default() };
    Ok(ChannelsFirst::plan(shape, images, isa, threads, channel_epilogue))
}

fn plan_in<T: Float>(
    c: &Convolution,
    isa: Isa,
    threads: Threads,
    epilogue: Option<Epilogue<'_>>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let backward = c.direction == Direction::BackwardData;
    let shape = if backward { Shape::of(c).backward_data() } else { Shape::of(c) };
    let (from, to) = if backward { (&c.y, &c.x) } else { (&c.x, &c.y) };
    let [x, w, y] = [from, &c.w, to].map(|operand| Image::<T>::of(operand, c.spatial));
    let images = [x?, w?, y?];
    if c.direction == Direction::BackwardFilter {
        return match epilogue {
            None => Ok(Box::new(BackwardWeights::plan(shape, images, isa, threads))),
            Some(_) => Err("gradients of weights have no epilogue".to_owned()),
        };
    }
    let channel_epilogue = epilogue.map(AffineEpilogue::of).transpose()?;
    let transposition = Transposition::of(&shape, from, &images, isa)?;
    Ok(if transposition.is_some() || ChannelsLast::covers(&shape, &images[0], &images[2]) {
        InParts::boxed(ChannelsLast::plan(shape, images, isa, threads, channel_epilogue, transposition))
    } else {
        InParts::boxed(ChannelsFirst::plan(shape, images, isa, threads, channel_epilogue))
    })
}
