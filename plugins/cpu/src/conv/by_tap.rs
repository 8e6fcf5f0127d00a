//! Convolutions whose window is mostly in the padding: dilated ones of small images. Each tap is a convolution of 1 × 1
//! on the part of the image that it meets, and adds to the results of the others. No product with padding is computed, and
//! each weight is read once.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, Tensor};

use crate::conv::epilogue::TileEpilogue;
use crate::conv::geometry::Block;
use crate::conv::problem::Problem;
use crate::conv::shifted::{Plan, Shifted};
use crate::dtype::element::Compute;
use crate::kernel::{Choice, Facts, Kernel, MAX_TENSORS, Refusal};
use crate::layout::{Layout, element_bits};
use crate::pointwise::Epilogue;
use crate::pointwise::chain::{Chain, Input, Value};
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::{Algorithm, Settings};
use crate::simd::array::Each;
use crate::tensor::scratch::Tensors;
use crate::threading::partition::Workers;

/// The largest part of the products with which it pays: sums are stored and loaded again for each tap.
const MOST_MET: f64 = 0.7;

/// The fewest input channels with which it pays. Tests have fewer.
const LEAST_CHANNELS: usize = if cfg!(test) { 2 } else { 64 };

/// The part of the image that a tap meets.
struct Tap {
    /// The first output along each axis, and how many outputs there are.
    first: [usize; 3],
    outputs: [usize; 3],
    /// The input of the first output, and the tap's place in the filter's memory.
    input: [usize; 3],
    filter: [usize; 3],
}

impl Tap {
    /// The part that a tap meets; `None` if it is always in the padding.
    fn of(c: &Convolution, mut index: usize) -> Option<Self> {
        let mut tap = Self { first: [0; 3], outputs: [1; 3], input: [0; 3], filter: [0; 3] };
        for axis in (0..c.spatial).rev() {
            let (stride, padding, window) = (c.stride[axis], c.pre_padding[axis], c.window[axis]);
            let at = index % window;
            index /= window;
            let reach = at * c.dilation[axis];
            let first = padding.saturating_sub(reach).div_ceil(stride);
            let end = (c.input[axis] + padding).saturating_sub(reach).div_ceil(stride).min(c.output[axis]);
            tap.first[axis] = first;
            tap.outputs[axis] = end.checked_sub(first).filter(|outputs| *outputs > 0)?;
            tap.input[axis] = first * stride + reach - padding;
            tap.filter[axis] = if c.mirrored { window - 1 - at } else { at };
        }
        Some(tap)
    }

    /// Whether it adds to every output.
    fn is_whole(&self, c: &Convolution) -> bool {
        self.outputs[..c.spatial] == c.output[..c.spatial]
    }

    /// The convolution of 1 × 1.
    fn convolution(&self, c: &Convolution) -> Result<Convolution, Refusal> {
        let spatial = c.spatial;
        let spans = [0, 1, 2].each(|axis| match axis < spatial {
            true => (self.outputs[axis] - 1) * c.stride[axis] + 1,
            false => 1,
        });
        let mut of = Convolution {
            x: part(&c.x, [c.batch, c.groups * c.in_channels], &spans[..spatial])?,
            y: part(&c.y, [c.batch, c.groups * c.out_channels], &self.outputs[..spatial])?,
            w: part(&c.w, [c.groups * c.out_channels, c.in_channels], &[1; 3][..spatial])?,
            ..*c
        };
        for (axis, span) in spans.into_iter().enumerate().take(spatial) {
            (of.input[axis], of.output[axis]) = (span, self.outputs[axis]);
            (of.window[axis], of.dilation[axis], of.pre_padding[axis]) = (1, 1, 0);
        }
        Ok(of)
    }

    /// Where each tensor's part begins, in bytes.
    fn offsets(&self, c: &Convolution) -> Option<[usize; MAX_TENSORS]> {
        let mut offsets = [0; MAX_TENSORS];
        for (operand, at) in [(&c.x, self.input), (&c.y, self.first), (&c.w, self.filter)] {
            let bits = element_bits(operand.data_type).ok().filter(|bits| bits.is_multiple_of(8))?;
            let strides = operand.layout.strides().get(2..)?;
            let elements: usize = strides.iter().zip(at).map(|(stride, at)| stride * at).sum();
            *offsets.get_mut(operand.slot)? = elements * (bits / 8);
        }
        Some(offsets)
    }
}

/// A part of a tensor, as large as the sizes say.
fn part(operand: &Operand, [first, second]: [usize; 2], sizes: &[usize]) -> Result<Operand, Refusal> {
    let dims: Vec<i64> = [first, second].iter().chain(sizes).map(|dim| *dim as i64).collect();
    let strides: Vec<i64> = operand.layout.strides().iter().map(|stride| *stride as i64).collect();
    let layout = Layout::of(&Tensor::new(0, operand.data_type, &dims, &strides))?;
    Ok(Operand { layout, ..*operand })
}

/// Whether taps may be computed one by one, and whether that pays.
fn applies(p: &Problem<'_>) -> bool {
    let c = p.convolution;
    let is_float = |operand: &Operand| operand.data_type == DataType::Float;
    let is_own = |epilogue: &Epilogue<'_>| {
        is_float(epilogue.output)
            && epilogue.output.slot == c.y.slot
            && epilogue.output.layout.strides() == c.y.layout.strides()
    };
    c.direction == Direction::Forward
        && p.compute == Compute::Single
        && p.settings.convolution == Algorithm::Automatic
        && (0..c.spatial).any(|axis| c.dilation[axis] > 1)
        && c.in_channels >= LEAST_CHANNELS
        && is_float(&c.x)
        && is_float(&c.y)
        && !p.is_copy
        && p.epilogue.as_ref().is_none_or(is_own)
}

/// Plans a convolution tap by tap, if that pays.
pub(crate) fn plan(problem: &Problem<'_>, plan: Plan) -> Option<Box<dyn Kernel>> {
    let c = problem.convolution;
    if !applies(problem) {
        return None;
    }
    let all: usize = c.window[..c.spatial].iter().product();
    let mut taps: Vec<Tap> = (0..all).filter_map(|index| Tap::of(c, index)).collect();
    let outputs = |sizes: &[usize]| sizes[..c.spatial].iter().map(|size| *size as f64).product::<f64>();
    let met: f64 = taps.iter().map(|tap| outputs(&tap.outputs)).sum();
    if met > MOST_MET * all as f64 * outputs(&c.output) {
        return None;
    }
    // The first one writes all results, to which the others add.
    let whole = taps.iter().position(|tap| tap.is_whole(c))?;
    taps.swap(0, whole);
    let mut kernels =
        Shifted { kernels: Vec::new(), runs: Vec::new(), parts: format!("{} taps", taps.len()) };
    for (index, tap) in taps.iter().enumerate() {
        let of = tap.convolution(c).ok()?;
        let chain = sum(&of.y);
        let Problem { compute, isa, .. } = *problem;
        let epilogue = Epilogue { chain: &chain, output: &of.y, compute, isa };
        // It reads inputs and earlier results wherever they are.
        let settings = Settings { convolution: Algorithm::Direct, ..problem.settings };
        let planned =
            plan(&Problem::new(&of, compute, isa, settings, (index > 0).then_some(epilogue))).ok()?;
        if planned.facts().algorithm != "direct" {
            return None;
        }
        kernels.kernels.push(planned);
        kernels.runs.push((index, tap.offsets(c)?));
    }
    let mut size = [1; 3];
    size[3 - c.spatial..].copy_from_slice(&c.output[..c.spatial]);
    let block = Block { image: 0, images: c.batch, origin: [0; 3], size };
    let channels = c.groups * c.out_channels;
    let rest = match &problem.epilogue {
        Some(epilogue) => {
            let block_epilogue = epilogue.plan().ok()?;
            let time = block_epilogue.time() * (block.outputs() * channels) as f64;
            let workers = problem.settings.threads.workers(time, channels);
            Some((TileEpilogue { block_epilogue, spatial: c.spatial }, workers))
        }
        None => None,
    };
    Some(Box::new(ByTap { taps: kernels, block, channels, rest }))
}

/// The chain that adds what the output has to the results.
fn sum(output: &Operand) -> Chain {
    let own = Input::replaced(output);
    let mut chain = Chain { inputs: vec![own, Input { replaced: false, ..own }], steps: Vec::new() };
    chain.push_mode(PointwiseMode::Add, vec![Value::Input(0), Value::Input(1)], output.data_type);
    chain
}

/// A convolution tap by tap.
struct ByTap {
    taps: Shifted,
    /// All outputs of a channel.
    block: Block,
    channels: usize,
    /// The epilogue, on the sums of all taps.
    rest: Option<(TileEpilogue, Workers)>,
}

impl Kernel for ByTap {
    fn scratch_size(&self) -> usize {
        self.taps.scratch_size()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        // SAFETY: this function requires the tensors, which contain those of each tap, and the scratch memory.
        unsafe { self.taps.run(tensors, scratch) };
        let Some((epilogue, workers)) = &self.rest else { return };
        let tensors = Tensors(tensors);
        let parts = workers.count();
        workers.for_each_part(parts, |_, part| {
            let channels = self.channels * part / parts..self.channels * (part + 1) / parts;
            // SAFETY: the tensors are those of the operation, and each part has channels of its own.
            unsafe { epilogue.run(tensors.all(), &self.block, channels) };
        });
    }

    fn facts(&self) -> Facts {
        self.taps.facts()
    }

    fn choices(&self) -> Vec<&Choice> {
        self.taps.choices()
    }
}
