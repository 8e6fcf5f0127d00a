//! A depthwise convolution with the 1 × 1 convolution behind it, and what follows each of them.

use hipdnn_plugin_sdk::graph::{DataType, Operation, Tensor};

use crate::conv;
use crate::conv::cost::Cost;
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

/// The same with several threads, each of which would read what others wrote.
const FAR_OF_OTHERS: usize = if cfg!(test) { 0 } else { 32 << 10 };

/// Bands per worker, if they are not as many for each.
const BANDS_PER_WORKER: usize = 3;

/// Nanoseconds for each element of a depthwise filter and output.
const TAP: f64 = 0.02;

/// How much more than its rows a band may compute.
const MOST_WASTE: f64 = 1.25;

impl Fusion<'_> {
    /// The part of a depthwise convolution that begins here, the 1 × 1 convolution that alone reads its result, and what
    /// follows; `None` if there is none, or if it does not pay.
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
        let time = time(depthwise, pointwise, isa);
        let bands = bands(depthwise, pointwise, settings.threads, time)?;
        let mut before = self.clone();
        before.truncate_to(largest);
        let after = Fusion::begin(prepared, uses, index, taken, true).and_then(|mut after| {
            let largest = after.largest?;
            after.truncate_to(largest);
            Some((after, largest.result))
        });
        let planned = after.and_then(|(after, result)| {
            before.clone().with_pointwise((index, result), Some(after), bands, isa, settings, time)
        });
        planned.or_else(|| before.with_pointwise((index, operation.y), None, bands, isa, settings, time))
    }

    /// The part; `result` is its last tensor.
    fn with_pointwise(
        mut self,
        (index, result): (usize, i64),
        after: Option<Self>,
        bands: Bands,
        isa: Isa,
        settings: Settings,
        time: f64,
    ) -> Option<Part> {
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
        let Bands { batch, channels, size: [lines, columns], rows } = bands;
        let between = |dims: [usize; 4], of_image: usize| {
            operand(band, uses.tensors.get(&inner.x)?, dims, &[of_image, rows * columns, columns, 1])
        };

        let mut depthwise = Convolution { y: between([batch, channels, lines, columns], 0)?, ..**depthwise };
        (depthwise.x.slot, depthwise.w.slot) = (x, w);
        let output = depthwise.y;
        let epilogue = self.epilogue_of(&output, isa)?;
        let of_rows = depthwise::plan_rows(&depthwise, isa, Some(epilogue)).ok()?;

        let of_result = uses.operand(result, y)?;
        let dims = [1, pointwise.out_channels, rows, columns];
        let of_band = operand(y, uses.tensors.get(&result)?, dims, of_result.layout.strides())?;
        let x = between([1, channels, rows, columns], channels * rows * columns)?;
        let mut pointwise = Convolution { x, y: of_band, batch: 1, ..**pointwise };
        pointwise.w.slot = weights;
        (pointwise.input[0], pointwise.output[0]) = (rows, rows);
        let settings = settings.of(&prepared.graph, &second.node.operation);
        let alone = Settings { threads: Threads { most: 1, ..settings.threads }, ..settings };
        let is_float = [depthwise.x, depthwise.w, depthwise.y, pointwise.w, pointwise.y]
            .iter()
            .all(|operand| operand.data_type == DataType::Float);
        if !is_float {
            return None;
        }
        let mut steps = vec![[0; 2]; tensors.len()];
        steps[y] = step(of_result.layout.strides(), DataType::Float)?;
        let epilogue = match &mut after {
            Some(after) => {
                for input in after.chain.inputs.iter().skip(1) {
                    let step = step(&input.strides, input.data_type)?;
                    if steps[input.slot] != [0; 2] && steps[input.slot] != step {
                        return None;
                    }
                    steps[input.slot] = step;
                }
                Some(after.epilogue_of(&of_band, isa)?)
            }
            None => None,
        };
        // Values of channels and weights are the same for all bands.
        if steps[weights] != [0; 2] {
            return None;
        }
        let of_band = conv::plan(&pointwise, Compute::Single, isa, alone, epilogue).ok()?;

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
fn bands(depthwise: &Convolution, pointwise: &Convolution, threads: Threads, time: f64) -> Option<Bands> {
    let of = |c: &Convolution| (c.direction, c.spatial) == (Direction::Forward, 2);
    let is_depthwise = of(depthwise) && depthwise.in_channels == 1 && depthwise.groups > 1;
    let is_pointwise = of(pointwise)
        && pointwise.groups == 1
        && pointwise.window[..2] == [1; 2]
        && pointwise.stride[..2] == [1; 2]
        && pointwise.pre_padding[..2] == [0; 2]
        && pointwise.input[..2] == pointwise.output[..2];
    let size = [depthwise.output[0], depthwise.output[1]];
    if !is_depthwise || !is_pointwise || depthwise::supports(depthwise).is_err() {
        return None;
    }
    let channels = pointwise.in_channels;
    let of_line = channels.checked_mul(size[1])?;
    let workers = threads.workers(time, usize::MAX).count();
    let far = if workers > 1 { FAR_OF_OTHERS } else { FAR };
    let rows = best_rows(size, of_line)?;
    let bands = Bands { batch: depthwise.batch, channels, size, rows };
    let count = depthwise.batch * (size[0] / rows);
    let divides = count >= BANDS_PER_WORKER * workers || count.is_multiple_of(workers);
    (of_line.checked_mul(size[0])? >= far && divides).then_some(bands)
}

/// The divisor of the image's rows with which the least is computed in vain: rows beyond the band, and columns beyond it.
fn best_rows([lines, columns]: [usize; 2], of_line: usize) -> Option<usize> {
    let waste = |rows: usize| {
        let of = |n: usize, unit: usize| n.next_multiple_of(unit) as f64 / n as f64;
        of(rows, depthwise::band::ROWS) * of(rows * columns, depthwise::separable::LANES)
    };
    let fits =
        |rows: &usize| lines.is_multiple_of(*rows) && rows * of_line <= NEAR && waste(*rows) <= MOST_WASTE;
    (1..=lines.min(NEAR / of_line.max(1))).filter(fits).min_by(|a, b| waste(*a).total_cmp(&waste(*b)))
}
