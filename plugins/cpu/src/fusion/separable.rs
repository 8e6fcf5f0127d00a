//! A depthwise convolution with the 1 × 1 convolution behind it, and what follows each of them.

use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_sdk::graph::{DataType, Operation, Tensor};

use crate::conv;
use crate::conv::cost::Cost;
use crate::conv::cropped::Crop;
use crate::depthwise;
use crate::depthwise::separable::{Bands, Separable};
use crate::dtype::element::Compute;
use crate::fusion::delayed;
use crate::fusion::state::{Fusion, slot_of};
use crate::kernel::{MAX_TENSORS, Part};
use crate::layout::Layout;
use crate::problem::convolution::{Convolution, Direction};
use crate::problem::{Operand, Problem};
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::threading::partition::Threads;

/// The most elements of a band, which stay in the L2 cache.
const NEAR: usize = 96 << 10;

/// With fewer elements in an image on one thread, the result between the convolutions stays in the L2 cache anyway.
const FAR: usize = if cfg!(test) { 0 } else { 128 << 10 };

/// The same on processors that split 512-bit operations, where reading from the next cache costs less than short tiles.
const FAR_OF_HALVES: usize = if cfg!(test) { 0 } else { 512 << 10 };

/// The same with several threads, each of which would read what others wrote.
const FAR_OF_OTHERS: usize = if cfg!(test) { 0 } else { 32 << 10 };

/// Bands per worker, if they are not as many for each.
const BANDS_PER_WORKER: usize = 3;

/// Nanoseconds for each element of a depthwise filter and output.
const TAP: f64 = 0.02;

/// The most elements that a band computes for each that it stores.
const MOST_WASTE: f64 = 1.25;

/// How both convolutions are computed.
#[derive(Clone, Copy)]
struct Way {
    bands: Bands,
    isa: Isa,
    settings: Settings,
    time: f64,
}

impl Bands {
    /// The depthwise result of some rows of an image, as if each of `batch` images were at the same place.
    fn operand(self, slot: usize, like: &Tensor, batch: usize, lines: usize) -> Option<Operand> {
        let Self { channels, size: [_, columns], rows, .. } = self;
        let strides = [if batch == 1 { channels * rows * columns } else { 0 }, rows * columns, columns, 1];
        operand(slot, like, [batch, channels, lines, columns], &strides)
    }
}

impl Fusion<'_> {
    /// The part of a depthwise convolution that begins here, the 1 × 1 convolution that alone reads its result, and what
    /// follows; `None` where the graph has no such pair, or where separate steps are as fast.
    pub(crate) fn separable(&self, taken: &[bool], isa: Isa, settings: Settings) -> Option<Part> {
        let Self { prepared, uses, .. } = *self;
        let largest = self.largest?;
        let [index] = *uses.readers(largest.result) else { return None };
        let (first, second) = (prepared.node(self.producer?)?, prepared.node(index)?);
        let (Problem::Convolution(depthwise), Problem::Convolution(pointwise)) =
            (first.problem, second.problem)
        else {
            return None;
        };
        let Operation::ConvolutionForward(operation) = &second.node.operation else { return None };
        let is_single = |compute| Compute::of(compute).ok() == Some(Compute::Single);
        let reads_once = operation.x == largest.result && operation.w != largest.result;
        if *taken.get(index)?
            || !reads_once
            || !uses.tensors.get(&largest.result)?.is_virtual
            || self.compute != Compute::Single
            || ![first.node.compute_type, second.node.compute_type].into_iter().all(is_single)
            || settings.convolution != Algorithm::Automatic
            || settings.threads.batch_invariant
        {
            return None;
        }
        // Also what chains convert: the kernels get the last tensor of each.
        let operands = [&depthwise.x, &depthwise.w, &depthwise.y, &pointwise.w, &pointwise.y];
        if operands.iter().any(|operand| operand.data_type != DataType::Float) {
            return None;
        }
        let time = time(depthwise, pointwise, isa);
        let bands = bands(depthwise, pointwise, (isa, settings.threads), time)?;
        let mut before = self.clone();
        before.truncate_to(largest);
        let after = self.following(index, taken);
        let way = Way { bands, isa, settings, time };
        let planned = after.and_then(|(after, result)| {
            in_own_frame(|| before.clone().with_pointwise((index, result), Some(after), way))
        });
        planned.or_else(|| in_own_frame(|| before.with_pointwise((index, operation.y), None, way)))
    }

    /// The part; `result` is its last tensor.
    fn with_pointwise(
        mut self,
        (index, result): (usize, i64),
        after: Option<Self>,
        way: Way,
    ) -> Option<Part> {
        let Way { bands, isa, settings, time } = way;
        let Self { prepared, uses, .. } = self;
        let (first, second) = (prepared.node(self.producer?)?, prepared.node(index)?);
        let (Problem::Convolution(depthwise), Problem::Convolution(pointwise)) =
            (first.problem, second.problem)
        else {
            return None;
        };
        let (Operation::ConvolutionForward(outer), Operation::ConvolutionForward(inner)) =
            (&first.node.operation, &second.node.operation)
        else {
            return None;
        };
        let mut tensors = Vec::new();
        let [x, w] = [outer.x, outer.w].map(|uid| slot_of(&mut tensors, uid));
        self.assign_slots(&mut tensors)?;
        let [weights, y] = [inner.w, result].map(|uid| slot_of(&mut tensors, uid));
        let mut after = after;
        if let Some(after) = &mut after {
            after.assign_slots(&mut tensors)?;
        }
        if tensors.len() > MAX_TENSORS {
            return None;
        }
        let band = tensors.len();
        let like = *uses.tensors.get(&inner.x)?;
        let of_rows = in_own_frame(|| {
            let y = bands.operand(band, like, bands.batch, bands.size[0])?;
            let mut depthwise: Convolution = **depthwise;
            (depthwise.x.slot, depthwise.w.slot, depthwise.y) = (x, w, y);
            let epilogue = self.epilogue_of(&y, isa)?;
            depthwise::plan_rows(&depthwise, isa, Some(epilogue)).ok()
        })?;

        let of_result = uses.operand(result, y)?;
        let steps = steps(&of_result, after.as_ref(), tensors.len())?;
        // Values of channels and weights are the same for all bands.
        if of_result.data_type != DataType::Float || steps[weights] != [0; 2] {
            return None;
        }
        let of_band = in_own_frame(|| {
            let Bands { rows, size: [_, columns], .. } = bands;
            let dims = [1, pointwise.out_channels, rows, columns];
            let y = operand(y, uses.tensors.get(&result)?, dims, of_result.layout.strides())?;
            let x = bands.operand(band, like, 1, rows)?;
            let mut pointwise: Convolution = **pointwise;
            (pointwise.x, pointwise.w.slot, pointwise.y, pointwise.batch) = (x, weights, y, 1);
            (pointwise.input[0], pointwise.output[0]) = (rows, rows);
            let settings = settings.of(&prepared.graph, &second.node.operation);
            let alone = Settings { threads: Threads { most: 1, ..settings.threads }, ..settings };
            let epilogue = match &mut after {
                Some(after) => Some(after.epilogue_of(&y, isa)?),
                None => None,
            };
            conv::plan(&pointwise, Compute::Single, isa, alone, epilogue).ok()
        })?;

        let mut members = self.members;
        members.push(index);
        members.extend(after.iter().flat_map(|after| &after.members).filter(|member| **member != index));
        if delayed::reads(prepared, uses, &members) {
            return None;
        }
        let kernel = Separable::new((of_rows, of_band), (bands, steps), (isa, settings.threads, time));
        let node = *members.last()?;
        Some(Part { node, members, tensors, kernel: Box::new(kernel), writes_early: true })
    }
}

/// An operand like a tensor with other sizes and strides.
fn operand(slot: usize, like: &Tensor, dims: [usize; 4], strides: &[usize]) -> Option<Operand> {
    let all = |of: &[usize]| of.iter().map(|n| i64::try_from(*n)).collect::<Result<Vec<_>, _>>().ok();
    let tensor = Tensor { dims: all(&dims)?, strides: all(strides)?, ..like.clone() };
    Some(Operand { slot, data_type: tensor.data_type, layout: Layout::of(&tensor).ok()? })
}

/// For each of `count` tensors, the bytes from an image to the next and from a row to the next: of the result, and of what
/// the chain reads. `None` if one is read in two ways.
fn steps(result: &Operand, after: Option<&Fusion<'_>>, count: usize) -> Option<Vec<[usize; 2]>> {
    let mut steps = vec![[0; 2]; count];
    steps[result.slot] = step(result.layout.strides(), result.data_type)?;
    for input in after.iter().flat_map(|after| after.chain.inputs.iter().skip(1)) {
        let step = step(&input.strides, input.data_type)?;
        if steps[input.slot] != [0; 2] && steps[input.slot] != step {
            return None;
        }
        steps[input.slot] = step;
    }
    Some(steps)
}

/// Bytes from an image to the next and from a row to the next.
fn step(strides: &[usize], data_type: DataType) -> Option<[usize; 2]> {
    let size = data_type.size()?;
    Some([strides.first()? * size, strides.get(2)? * size])
}

/// Estimated nanoseconds on one thread.
fn time(depthwise: &Convolution, pointwise: &Convolution, isa: Isa) -> f64 {
    let taps = depthwise.window.iter().take(depthwise.spatial).product::<usize>();
    let pixels = pointwise.output.iter().take(pointwise.spatial).product::<usize>() * pointwise.batch;
    let products = (pixels * pointwise.in_channels) as f64;
    products * (taps as f64 * TAP + pointwise.out_channels as f64 * Cost::of::<f32>(isa).fused)
}

/// The bands in which both convolutions are computed; `None` if they are not such convolutions, or if it does not pay.
fn bands(
    depthwise: &Convolution,
    pointwise: &Convolution,
    (isa, threads): (Isa, Threads),
    time: f64,
) -> Option<Bands> {
    let of = |c: &Convolution| (c.direction, c.spatial) == (Direction::Forward, 2);
    let is_depthwise = of(depthwise) && depthwise.in_channels == 1 && depthwise.groups > 1;
    let is_pointwise = of(pointwise)
        && pointwise.groups == 1
        && pointwise.window[..2] == [1; 2]
        && pointwise.stride[..2] == [1; 2]
        && pointwise.pre_padding[..2] == [0; 2]
        && pointwise.input[..2] == pointwise.output[..2];
    let size = [depthwise.output[0], depthwise.output[1]];
    // Filters that only partly meet the image are computed in another order.
    let is_whole = matches!(Crop::of(depthwise), Ok(None));
    if !is_depthwise || !is_pointwise || !is_whole || depthwise::supports(depthwise).is_err() {
        return None;
    }
    let channels = pointwise.in_channels;
    let of_line = channels.checked_mul(size[1])?;
    // The choice must not depend on the number of threads where bits must not.
    let workers = if threads.is_deterministic() { 1 } else { threads.workers(time, usize::MAX).count() };
    let far = match workers {
        1 if isa.splits_vectors() => FAR_OF_HALVES,
        1 => FAR,
        _ => FAR_OF_OTHERS,
    };
    let rows = best_rows(size, of_line)?;
    let bands = Bands { batch: depthwise.batch, channels, size, rows };
    let count = depthwise.batch * (size[0] / rows);
    let divides = count >= BANDS_PER_WORKER * workers || count.is_multiple_of(workers);
    (of_line.checked_mul(size[0])? >= far && divides).then_some(bands)
}

/// The number of rows, a divisor of the image's, that wastes the least: rows of tiles, and columns of vectors.
fn best_rows([lines, columns]: [usize; 2], of_line: usize) -> Option<usize> {
    let waste = |rows: usize| {
        let of = |n: usize, unit: usize| n.next_multiple_of(unit) as f64 / n as f64;
        of(rows, depthwise::band::ROWS) * of(rows * columns, depthwise::separable::LANES)
    };
    let fits =
        |rows: &usize| lines.is_multiple_of(*rows) && rows * of_line <= NEAR && waste(*rows) <= MOST_WASTE;
    (1..=lines.min(NEAR / of_line.max(1))).filter(fits).min_by(|a, b| waste(*a).total_cmp(&waste(*b)))
}
