//! Batch normalization: inference, training and gradients.
//!
//! Channels first: an inference goes through memory in order ([`planes`]); otherwise each worker has its own
//! channels ([`runs`] for short runs with one stride, else [`channels_first`]). Channels last: each worker
//! has its own rows and sums per channel ([`rows`]). Any other order of dimensions is read through a buffer,
//! channel by channel.
//!
//! Sums of up to some hundred values use the compute type, sums of these double precision. Mean and variance
//! come from deviations from a shift close to the mean: for rows the mean of an earlier pass, for a channel
//! the mean of its first values, unless these are far off.
//! mean of its first values, unless these are far off.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod channel;
pub(crate) mod channels_first;
pub(crate) mod loops;
pub(crate) mod parameters;
pub(crate) mod planes;
pub(crate) mod rows;
pub(crate) mod runs;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

use crate::batchnorm::channel::Memory;
use crate::batchnorm::parameters::Parameters;
use crate::batchnorm::shape::{PlaneEpilogue, ReluInput, Shape};
use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Kernel, Refusal, boxed};
use crate::pointwise::Epilogue;
use crate::prepare::CheckedNode;
use crate::problem::batchnorm::{Backward, Batchnorm};
use crate::problem::{Operand, Problem};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::loop_nest::LoopNest;
use crate::tensor::row_converter::is_compute_type;
use crate::threading::partition::Threads;

/// Plans a batch normalization with its epilogue for an instruction set.
pub(crate) fn plan(
    batchnorm: &Batchnorm,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    after: Option<Epilogue<'_>>,
) -> Result<Box<dyn Kernel>, Refusal> {
    if after.is_some() && matches!(batchnorm, Batchnorm::Backward(_)) {
        return Err("gradients have no epilogue".to_owned());
    }
    plan_with(batchnorm, compute, isa, threads, after, None)
}

/// Plans the gradients of a batch normalization followed by a RELU: dy is the gradient of RELU's result, and
/// passes where the value of `gate` is above 0.
pub(crate) fn plan_gated(
    batchnorm: &Backward,
    gate: &Operand,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    if gate.data_type != batchnorm.dy.data_type || gate.layout != batchnorm.dy.layout {
        return Err("the RELU's input and gradient have different layouts".to_owned());
    }
    let gate = ReluInput { slot: gate.slot };
    plan_with(&Batchnorm::Backward(*batchnorm), compute, isa, threads, None, Some(gate))
}

/// Whether a node is an inference that goes through memory plane by plane.
pub(crate) fn has_planes(node: &CheckedNode<'_>) -> bool {
    let Problem::Batchnorm(batchnorm) = node.problem else { return false };
    let Batchnorm::Inference(problem) = &**batchnorm else { return false };
    let Ok(compute) = Compute::of(node.node.compute_type) else { return false };
    with_compute!(compute, T => planes::covers::<T>(problem))
}

fn plan_with(
    batchnorm: &Batchnorm,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    after: Option<Epilogue<'_>>,
    gate: Option<ReluInput>,
) -> Result<Box<dyn Kernel>, Refusal> {
    with_compute!(compute, T => plan_in::<T>(batchnorm, isa, threads, after, gate))
}

/// In a separate stack frame for each type.
#[inline(never)]
fn plan_in<T: Float>(
    batchnorm: &Batchnorm,
    isa: Isa,
    threads: Threads,
    after: Option<Epilogue<'_>>,
    gate: Option<ReluInput>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let parameters = Parameters::<T>::of(batchnorm)?;
    if let Batchnorm::Inference(problem) = batchnorm
        && planes::covers::<T>(problem)
    {
        return boxed(|| planes::Planes::plan(problem, parameters, isa, threads, after));
    }
    // Every variant has three operands, so that one kernel serves all: x replaces a missing dy and
    // nothing is added.
    let operands = match batchnorm {
        Batchnorm::Inference(p) => [p.x, p.x, p.y],
        Batchnorm::Training(p) => [p.x, p.x, p.y],
        Batchnorm::Backward(p) => [p.dy, p.x, p.dx],
    };
    let channels = batchnorm.channels();
    let walk = |first: &[usize]| {
        let dims = without_channel(operands[1].layout.dims());
        let all = [first, operands[1].layout.strides(), operands[2].layout.strides()];
        let strides = all.map(without_channel);
        let channel_strides = all.map(|strides| strides.get(1).copied().unwrap_or(0));
        (LoopNest::new(&dims, strides.each_ref().map(Vec::as_slice), 1), channel_strides)
    };
    let (mut nest, mut channel_strides) = walk(operands[0].layout.strides());
    let by_rows = channels > 1 && channel_strides == [1; 3] && nest.inner_strides != [1; 3];
    if by_rows && after.is_some() && !same_rows(&operands[1], &operands[2]) {
        return Err("rows in another order than those of x".to_owned());
    }
    let mut first = (operands[0].slot, operands[0].data_type);
    let mut epilogue = PlaneEpilogue::default();
    if let Some(after) = after {
        let sum_and_relu = after
            .chain
            .sum_and_relu(operands[2].data_type)
            .filter(|_| !by_rows && have_compute_type::<T>(&operands));
        // A residual must not change the loops, whose order is that of the sums, nor who computes them: runs need direct memory.
        let are_runs = nest.inner_strides == [1; 3];
        let with_residual = sum_and_relu.as_ref().and_then(|(added, _)| {
            let (own, strides) = walk(&added.as_ref()?.strides[..operands[1].layout.rank()]);
            let is_same = (own.runs(), own.len, own.single().is_some())
                == (nest.runs(), nest.len, nest.single().is_some());
            (is_same && (own.inner_strides[0] == 1 || !are_runs)).then_some((own, strides))
        });
        match sum_and_relu {
            Some((None, relu)) => epilogue.relu = relu,
            Some((Some(added), relu)) if with_residual.is_some() => {
                first = (added.slot, added.data_type);
                (nest, channel_strides) = with_residual.unwrap_or((nest, channel_strides));
                epilogue = PlaneEpilogue { added: Some(added.slot), relu, block_epilogue: None };
            }
            _ => epilogue.block_epilogue = Some(after.plan()?),
        }
    }
    let inner_strides = if by_rows { [1; 3] } else { nest.inner_strides };
    let memory = [
        Memory::<T>::of(first, inner_strides[0])?,
        Memory::<T>::of((operands[1].slot, operands[1].data_type), inner_strides[1])?,
        Memory::<T>::of((operands[2].slot, operands[2].data_type), inner_strides[2])?,
    ];
    let shape = Shape {
        isa,
        threads,
        channels,
        channel_strides,
        inner_strides,
        elements: nest.runs() as f64 * nest.len as f64,
        memory,
        nest,
        dims: operands[2].layout.dims().to_vec(),
        epilogue,
    };
    if !by_rows && runs::covers(&shape, parameters.role(), gate) {
        return Ok(Box::new(runs::Runs::plan(shape, parameters, gate)));
    }
    if gate.is_some() {
        return Err("channels that are not runs of elements".to_owned());
    }
    Ok(if by_rows {
        Box::new(rows::ChannelsLast::plan(shape, parameters))
    } else {
        Box::new(channels_first::ChannelsFirst::plan(shape, parameters))
    })
}

/// Whether all tensors have the compute type.
fn have_compute_type<T: Float>(operands: &[Operand]) -> bool {
    operands.iter().all(|operand| is_compute_type::<T>(operand.data_type))
}

/// All dimensions but that of channels.
fn without_channel(of_axes: &[usize]) -> Vec<usize> {
    of_axes.iter().enumerate().filter(|(axis, _)| *axis != 1).map(|(_, of_axis)| *of_axis).collect()
}

/// Whether rows of channels have the same order in x and y, without overlap.
fn same_rows(x: &Operand, y: &Operand) -> bool {
    let (dims, xs, ys) = (x.layout.dims(), x.layout.strides(), y.layout.strides());
    let channels = dims.get(1).copied().unwrap_or(1);
    (0..dims.len())
        .filter(|axis| *axis != 1 && dims[*axis] > 1)
        .all(|axis| xs[axis] == ys[axis] && ys[axis] >= channels)
}
