//! The list of convolution algorithms, in the order of preference.
//!
//! An entry refuses problems that it does not compute, or that another entry computes faster. The first entry without an estimated
//! time that accepts is chosen; otherwise the fastest of those with an estimate, which come last. The reference computes the rest.

use std::marker::PhantomData;

use hipdnn_plugin_planner::in_own_frame;

use crate::conv::as_matmul::{self, AsMatmul};
use crate::conv::backward_weights::channels::{self, BackwardWeightsByChannel};
use crate::conv::backward_weights::rows::BackwardWeights;
#[cfg(target_arch = "x86_64")]
use crate::conv::bfloat16_tiles;
use crate::conv::by_tap;
use crate::conv::cropped::Crop;
use crate::conv::direct::problem::{Direct, Scheme};
use crate::conv::direct_small::kernel::{DirectSmall, suits};
use crate::conv::im2col::choice;
use crate::conv::im2col::problem::Im2col;
use crate::conv::implicit_gemm::kernel::ImplicitGemm;
use crate::conv::interleaved;
use crate::conv::invariant;
use crate::conv::problem::{Problem, is_direct, terms};
use crate::conv::winograd::channels_last::problem::ChannelsLast;
use crate::conv::winograd::choice::fastest;
use crate::conv::winograd::kernel::form;
use crate::conv::winograd::problem::Winograd;
use crate::depthwise;
use crate::dtype::element::Compute;
use crate::dtype::sums;
use crate::gemm::accumulator::Accumulator;
#[cfg(target_arch = "x86_64")]
use crate::gemm::pairs::Pairs;
use crate::int8;
use crate::kernel::{Choice, Chosen, Kernel, Refusal, boxed};
use crate::layout::MAX_RANK;
use crate::matmul;
use crate::pointwise::Epilogue;
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::{Algorithm as A, Settings};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::converted::Copies;
use crate::tensor::row_converter::RowConverter;
use crate::threading::partition::Threads;

/// With this many output channels, `bfloat16` products are summed in pairs: half of a tile's rows.
#[cfg(target_arch = "x86_64")]
const LEAST_ROWS: usize = 16;

/// With this many images, blocks of whole images suffice for all threads.
const LEAST_IMAGES: usize = 16;

/// Values of the knob that choose how a GEMM reads its input; they do not affect other entries.
const OF_GEMM: &[A] = &[A::ImplicitGemm, A::Unrolled, A::Direct, A::Winograd, A::Winograd4, A::Im2col];

/// An algorithm.
pub(crate) struct Entry {
    /// The algorithm, and the value of the knob `convolution` that selects it.
    pub(crate) algorithm: A,
    /// Other values of the knob with which it is tried.
    pub(crate) also: &'static [A],
    /// Refuses a problem that it does not compute, or that another entry computes faster.
    pub(crate) supports: fn(&Problem<'_>) -> Result<(), Refusal>,
    pub(crate) estimate: Estimate,
    make: Make,
}

/// Estimated nanoseconds on one thread; `None` for entries that are [not compared](taken).
type Estimate = fn(&Problem<'_>) -> Result<Option<f64>, Refusal>;

/// Plans a supported problem. May still refuse sizes that turn out to be too large.
type Make = fn(&Problem<'_>) -> Result<Box<dyn Kernel>, Refusal>;

/// The estimate of an entry that is chosen whenever it is supported.
fn taken(_: &Problem<'_>) -> Result<Option<f64>, Refusal> {
    Ok(None)
}

/// The list for a compute type.
pub(crate) struct List<T>(PhantomData<T>);

impl<T: Float> List<T> {
    /// The entries in order. Each is compiled for each compute type, so double precision has those for any shape.
    pub(crate) const ENTRIES: &'static [Entry] =
        if size_of::<T>() == size_of::<f32>() { Self::ALL } else { Self::GENERAL };

    const GENERAL: &'static [Entry] = &[
        entry(A::Depthwise, OF_GEMM, supports_depthwise, taken, make_depthwise),
        entry(A::Matmul, &[], supports_matmul, taken, make_matmul),
        entry(A::Converted, &A::VALUES, supports_converted, taken, make_converted),
        entry(A::DirectInt8, &[A::Direct], supports_int8, taken, make_int8),
        entry(A::BackwardWeights, OF_GEMM, supports_backward_weights, taken, make_backward_weights::<T>),
        entry(A::ImplicitGemm, &[], supports_gemm, estimate_gemm::<T, false>, make_gemm::<T, false>),
    ];

    const ALL: &'static [Entry] = &[
        entry(A::Depthwise, OF_GEMM, supports_depthwise, taken, make_depthwise),
        entry(A::Matmul, &[], supports_matmul, taken, make_matmul),
        entry(A::Converted, &A::VALUES, supports_converted, taken, make_converted),
        entry(A::DirectInt8, &[A::Direct], supports_int8, taken, make_int8),
        entry(A::BackwardWeightsByChannel, &[], supports_by_channel::<T>, taken, make_by_channel::<T>),
        entry(A::BackwardWeights, OF_GEMM, supports_backward_weights, taken, make_backward_weights::<T>),
        #[cfg(target_arch = "x86_64")]
        entry(A::DirectBfloat16, &[A::Direct], supports_bfloat16, taken, make_bfloat16),
        entry(A::DirectTwoTiles, &[], supports_two_tiles::<T>, taken, make_direct::<T>),
        entry(A::Winograd4, &[], supports_winograd::<T, 4>, taken, make_winograd::<T, 4>),
        entry(A::Winograd, &[], supports_winograd::<T, 2>, taken, make_winograd::<T, 2>),
        entry(A::Im2col, &[], supports_im2col::<T>, taken, make_im2col::<T>),
        entry(A::DirectSmall, &[], supports_small::<T>, taken, make_small::<T>),
        // The first of equal estimates wins.
        entry(A::ImplicitGemm, &[], supports_gemm, estimate_gemm::<T, false>, make_gemm::<T, false>),
        entry(A::Unrolled, &[], supports_gemm, estimate_gemm::<T, true>, make_gemm::<T, true>),
        entry(A::Direct, &[], supports_direct::<T>, estimate_direct::<T>, make_direct::<T>),
    ];
}

const fn entry(
    algorithm: A,
    also: &'static [A],
    supports: fn(&Problem<'_>) -> Result<(), Refusal>,
    estimate: Estimate,
    make: Make,
) -> Entry {
    Entry { algorithm, also, supports, estimate, make }
}

/// Plans a convolution for an instruction set; only the forward direction has an epilogue.
pub(crate) fn plan(
    convolution: &Convolution,
    compute: Compute,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let c = convolution;
    if c.direction != Direction::Forward {
        for operand in [&c.x, &c.w, &c.y] {
            RowConverter::<f64>::of(operand.data_type)?;
        }
    }
    let compute = sums::exact([c.x.data_type, c.w.data_type], terms(c), compute);
    let plan = |c: &Convolution| plan_problem(&Problem::new(c, compute, isa, settings, epilogue));
    match Crop::of(c)? {
        Some(crop) => Ok(crop.around(plan(&crop.convolution)?)),
        None => plan(c),
    }
}

/// Plans a convolution whose filter meets the image with all of its elements.
fn plan_problem(problem: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    for plan in [interleaved::plan, by_tap::plan] {
        if let Some(kernel) = in_own_frame(|| plan(problem, plan_problem)) {
            return Ok(kernel);
        }
    }
    Ok(Box::new(match problem.compute {
        Compute::Single => choose::<f32>(problem)?,
        Compute::Double => choose::<f64>(problem)?,
    }))
}

/// Chooses and plans an algorithm. If results must not depend on the batch, another convolution decides.
pub(crate) fn choose<T: Float>(problem: &Problem<'_>) -> Result<Chosen, Refusal> {
    let Some((convolution, settings)) = invariant::deciding(problem)? else {
        return asked_or_best::<T>(problem).map(|(_, chosen)| chosen);
    };
    let (algorithm, decided) = in_own_frame(|| asked_or_best::<T>(&problem.with(&convolution, settings)))?;
    let entry = List::<T>::ENTRIES.iter().find(|entry| entry.algorithm == algorithm);
    let entry = entry.ok_or_else(|| format!("{} is not in the list", algorithm.name()))?;
    let kernel = match algorithm {
        // Another choice follows.
        A::Converted => (entry.make)(problem)?,
        // Blocks decide on no order of sums, so they may suit the batch and the threads.
        _ => {
            let threads =
                Threads { deterministic: false, batch_invariant: false, ..problem.settings.threads };
            let settings = Settings { threads, ..problem.settings };
            in_own_frame(|| (entry.make)(&problem.with(problem.convolution, settings)))?
        }
    };
    Ok(Chosen { kernel, choice: decided.choice })
}

/// The algorithm that the knob selects, if it computes the problem, else the list's choice: for another GEMM without Winograd.
fn asked_or_best<T: Float>(problem: &Problem<'_>) -> Result<(A, Chosen), Refusal> {
    let asked = problem.settings.convolution;
    let mut passed_over = Vec::new();
    let is_asked =
        |entry: &Entry| asked == A::Automatic || entry.algorithm == asked || entry.also.contains(&asked);
    let chosen = first_or_fastest::<T>(problem, &mut passed_over, is_asked);
    let chosen = chosen.or_else(|| match asked {
        A::Automatic => None,
        A::ImplicitGemm | A::Unrolled | A::Direct | A::Im2col => {
            first_or_fastest::<T>(problem, &mut passed_over, |entry| {
                matches!(entry.algorithm, A::ImplicitGemm | A::Unrolled)
            })
        }
        _ => first_or_fastest::<T>(problem, &mut passed_over, |_| true),
    });
    match chosen {
        Some((algorithm, estimate, kernel)) => {
            let choice = Choice { name: algorithm.name(), estimate, passed_over };
            Ok((algorithm, Chosen { kernel, choice }))
        }
        None => {
            let reasons: Vec<_> =
                passed_over.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
            Err(reasons.join("; "))
        }
    }
}

type Planned = (A, Option<f64>, Box<dyn Kernel>);

/// The first tried entry without an estimate that plans the problem, or else the fastest. Entries that refuse are not tried twice.
fn first_or_fastest<T: Float>(
    problem: &Problem<'_>,
    passed_over: &mut Vec<(&'static str, Refusal)>,
    is_tried: impl Fn(&Entry) -> bool,
) -> Option<Planned> {
    let mut estimated = Vec::new();
    for entry in List::<T>::ENTRIES {
        let name = entry.algorithm.name();
        if !is_tried(entry) || passed_over.iter().any(|(other, _)| *other == name) {
            continue;
        }
        let planned =
            (entry.supports)(problem).and_then(|()| (entry.estimate)(problem)).and_then(|time| match time {
                Some(time) => {
                    estimated.push((time, entry));
                    Ok(None)
                }
                None => (entry.make)(problem).map(Some),
            });
        match planned {
            Ok(Some(kernel)) => return Some((entry.algorithm, None, kernel)),
            Ok(None) => {}
            Err(reason) => passed_over.push((name, reason)),
        }
    }
    estimated.sort_by(|(time, _), (other, _)| time.total_cmp(other));
    for (rank, (time, entry)) in estimated.iter().enumerate() {
        let name = entry.algorithm.name();
        match (entry.make)(problem) {
            Ok(kernel) => {
                let slower = estimated[rank + 1..].iter().map(|(other, slower)| {
                    let reason =
                        format!("estimated at {:.3} ms, {name} at {:.3} ms", other / 1e6, time / 1e6);
                    (slower.algorithm.name(), reason)
                });
                passed_over.extend(slower);
                return Some((entry.algorithm, Some(*time), kernel));
            }
            Err(reason) => passed_over.push((name, reason)),
        }
    }
    None
}

/// One input channel in a group.
fn supports_depthwise(p: &Problem<'_>) -> Result<(), Refusal> {
    if p.is_copy {
        return Err("operands are converted".to_owned());
    }
    depthwise::supports(p.convolution)
}

fn make_depthwise(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    depthwise::plan(p.convolution, p.compute, p.isa, p.settings.threads, p.epilogue)
}

/// A filter that covers the whole image, or all but one axis.
fn supports_matmul(p: &Problem<'_>) -> Result<(), Refusal> {
    as_matmul(p).map(|_| ())
}

fn as_matmul(p: &Problem<'_>) -> Result<AsMatmul, Refusal> {
    as_matmul::matmul(p.convolution).ok_or_else(|| "the filter does not cover the image".to_owned())
}

fn make_matmul(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let AsMatmul { matmul, axes } = as_matmul(p)?;
    let Some(epilogue) = p.epilogue else { return matmul::plan(&matmul, p.compute, p.isa, p.settings, None) };
    // The epilogue's result may have another dtype than the sums.
    let output = Operand { data_type: epilogue.output.data_type, ..matmul.c };
    let mut chain = epilogue.chain.clone();
    for input in &mut chain.inputs {
        let [row, column] = axes.map(|axis| input.strides[axis]);
        input.strides = [0; MAX_RANK];
        (input.strides[0], input.strides[1]) = (row, column);
    }
    let epilogue = Epilogue { chain: &chain, output: &output, ..epilogue };
    matmul::plan(&matmul, p.compute, p.isa, p.settings, Some(epilogue))
}

/// Operands of dtypes that no other entry reads or writes.
fn supports_converted(p: &Problem<'_>) -> Result<(), Refusal> {
    let Convolution { x, w, y, .. } = p.convolution;
    let mut operands = [x, w, y].into_iter().zip(p.are_results());
    if operands.all(|(operand, is_result)| is_direct(operand.data_type, is_result)) {
        return Err("no operand has to be converted".to_owned());
    }
    Ok(())
}

fn make_converted(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    // On the heap: planning goes on below this frame.
    let mut convolution = in_own_frame(|| Box::new(*p.convolution));
    let mut copies = Copies::new(p.compute, p.settings.threads);
    let Convolution { x, w, y, .. } = &mut *convolution;
    for (operand, is_result) in [x, w, y].into_iter().zip(p.are_results()) {
        match is_direct(operand.data_type, is_result) {
            true => {}
            false if is_result => copies.convert_result(operand, p.compute, p.epilogue.is_some())?,
            false => copies.convert(operand)?,
        }
    }
    let constant = [p.settings.constant_weights, p.settings.shares_weights];
    let planned = copies.around(p.convolution.w.slot, constant, |constant_weights| {
        plan_problem(&p.on(&convolution, constant_weights))
    })?;
    Ok(Box::new(planned.ok_or("no operand has to be converted")?))
}

fn supports_by_channel<T: Float>(p: &Problem<'_>) -> Result<(), Refusal> {
    channels::suits::<T>(&p.backward_weights()?, p.isa)
}

fn make_by_channel<T: Float>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| BackwardWeightsByChannel::<T>::plan(p.backward_weights()?, p.isa, p.settings))
}

fn supports_backward_weights(p: &Problem<'_>) -> Result<(), Refusal> {
    p.backward_weights().map(|_| ())
}

fn make_backward_weights<T: Float>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| BackwardWeights::<T>::plan(p.backward_weights()?, p.isa, p.settings))
}

/// Plans a direct convolution of a single sub-problem.
#[inline(never)]
fn plan_direct<T: Accumulator>(
    p: &Problem<'_>,
    scheme: Scheme<T>,
    settings: Settings,
) -> Result<Direct<T>, Refusal> {
    Direct::plan(p.operands()?.clone(), scheme, p.isa, settings, p.convolution.spatial, p.epilogue)
}

/// Refuses several sub-problems.
fn single(p: &Problem<'_>) -> Result<(), Refusal> {
    p.operands()?.whole().map(|_| ()).ok_or_else(|| "backward data with a stride".to_owned())
}

/// Elements of the compute type.
fn elements<T: Float>(p: &Problem<'_>) -> Result<Scheme<T>, Refusal> {
    Scheme::<T>::unpaired(p.operands()?, p.isa, p.convolution.spatial, p.epilogue)
}

/// Pairs of `bfloat16`.
#[cfg(target_arch = "x86_64")]
fn pairs_of_bfloat16(p: &Problem<'_>) -> Result<Scheme<f32>, Refusal> {
    if p.compute != Compute::Single || !Pairs::of(p.isa).bfloat16 {
        return Err("it needs AVX-512 BF16 and single precision".to_owned());
    }
    Scheme::bfloat16(p.operands()?, p.isa, p.convolution.spatial, p.epilogue)
        .ok_or("operands are not bfloat16")?
}

/// Bytes, summed as integers.
fn supports_int8(p: &Problem<'_>) -> Result<(), Refusal> {
    int8::supports(p.convolution, p.isa)
}

fn make_int8(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    int8::convolution(p.convolution, p.isa, p.settings, p.epilogue)
}

/// The order of sums changes results, so this choice must not depend on estimated times, which depend on the number of threads.
#[cfg(target_arch = "x86_64")]
fn supports_bfloat16(p: &Problem<'_>) -> Result<(), Refusal> {
    let (scheme, operands) = (pairs_of_bfloat16(p)?, p.operands()?);
    if !p.asks_for(A::Direct) && !p.asks_for(A::DirectBfloat16) && operands.rows < LEAST_ROWS {
        return Err(format!("{} output channels, expected at least {LEAST_ROWS}", operands.rows));
    }
    scheme.blocks(operands).map(|_| ())
}

#[cfg(target_arch = "x86_64")]
fn make_bfloat16(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    bfloat16_tiles::plan_or(p, |settings| boxed(|| plan_direct(p, pairs_of_bfloat16(p)?, settings)))
}

/// For images that would waste many im2col columns, and constant weights: packing them each time would cost more than it saves.
fn supports_two_tiles<T: Float>(p: &Problem<'_>) -> Result<(), Refusal> {
    let operands = p.operands()?;
    let pays = p.settings.constant_weights && choice::wastes::<T>(operands, p.isa);
    if !pays && !p.asks_for(A::DirectTwoTiles) {
        return Err("weights may change, or im2col wastes few columns".to_owned());
    }
    // The choice is the same for any number of threads.
    let threads = Threads { most: 1, ..p.settings.threads };
    let are_two = in_own_frame(|| {
        plan_direct(p, elements::<T>(p)?, Settings { threads, ..p.settings }).map(|direct| direct.are_two())
    })?;
    if are_two { Ok(()) } else { Err("most tiles are computed one by one".to_owned()) }
}

/// F(`OUTPUTS` × `OUTPUTS`, 3 × 3), where it saves time.
fn supports_winograd<T: Float, const OUTPUTS: usize>(p: &Problem<'_>) -> Result<(), Refusal> {
    let operands = p.operands()?;
    if p.is_whole {
        return Err("sums of integers must be exact".to_owned());
    }
    if p.settings.avoids_winograd {
        return Err("the knob winograd is 0".to_owned());
    }
    if !p.asks_for(if OUTPUTS == 4 { A::Winograd4 } else { A::Winograd }) {
        // The transforms take too long compared with full 512-bit multiplications.
        if p.isa.has_whole_vectors() && operands.windows.stride[1] > 1 {
            return Err("a stride, on a processor with full 512-bit vector units".to_owned());
        }
        if fastest(operands, p.isa, p.settings) != Some(OUTPUTS) {
            return Err("other filters than 3 × 3, or estimated to be slower".to_owned());
        }
    }
    form::<T>(operands, OUTPUTS).map(|_| ())
}

fn make_winograd<T: Float, const OUTPUTS: usize>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (operands, spatial) = (p.operands()?, p.convolution.spatial);
    match ChannelsLast::<T>::epilogue(operands, spatial, p.epilogue.as_ref()) {
        Some(epilogue) => boxed(|| ChannelsLast::<T>::plan(operands, OUTPUTS, p.isa, p.settings, epilogue)),
        _ => boxed(|| Winograd::<T>::plan(operands, OUTPUTS, p.isa, p.settings, spatial, p.epilogue)),
    }
}

fn supports_im2col<T: Float>(p: &Problem<'_>) -> Result<(), Refusal> {
    let operands = p.operands()?;
    if !p.asks_for(A::Im2col) && !choice::suits::<T>(operands, p.isa) {
        return Err("no full 512-bit vector units, or too few channels or outputs".to_owned());
    }
    choice::form::<T>(operands, p.convolution.spatial, p.epilogue.as_ref()).map(|_| ())
}

fn make_im2col<T: Float>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (operands, spatial) = (p.operands()?, p.convolution.spatial);
    boxed(|| Im2col::<T>::plan(operands, p.isa, p.settings, spatial, p.epilogue.as_ref()))
}

/// Images whose rows are shorter than a vector.
fn supports_small<T: Float>(p: &Problem<'_>) -> Result<(), Refusal> {
    let operands = p.operands()?;
    RowConverter::<T>::of(operands.input.data_type)?;
    let images = operands.windows.batch;
    if !p.asks_for(A::DirectSmall) && operands.parts.len() == 1 && images < LEAST_IMAGES {
        return Err(format!("{images} images, expected at least {LEAST_IMAGES}"));
    }
    suits::<T>(operands, p.isa, p.settings)
}

fn make_small<T: Float>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let exact = in_own_frame(|| plan_gemm::<T, false>(p).map(Box::new))?;
    let (operands, spatial) = (p.operands()?.clone(), p.convolution.spatial);
    boxed(|| DirectSmall::<T>::plan(operands, p.isa, p.settings, spatial, p.epilogue, *exact))
}

fn supports_direct<T: Float>(p: &Problem<'_>) -> Result<(), Refusal> {
    elements::<T>(p)?;
    single(p)
}

fn estimate_direct<T: Float>(p: &Problem<'_>) -> Result<Option<f64>, Refusal> {
    elements::<T>(p)?.time(p.operands()?, p.settings.constant_weights).map(Some)
}

fn make_direct<T: Float>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| plan_direct(p, elements::<T>(p)?, p.settings))
}

fn supports_gemm(p: &Problem<'_>) -> Result<(), Refusal> {
    p.operands().map(|_| ())
}

fn estimate_gemm<T: Float, const UNROLLED: bool>(p: &Problem<'_>) -> Result<Option<f64>, Refusal> {
    ImplicitGemm::<T>::blocks(p.operands()?, UNROLLED, p.isa, p.settings).map(|blocks| Some(blocks.time))
}

fn plan_gemm<T: Float, const UNROLLED: bool>(p: &Problem<'_>) -> Result<ImplicitGemm<T>, Refusal> {
    let operands = p.operands()?.clone();
    ImplicitGemm::plan(operands, UNROLLED, p.isa, p.settings, p.convolution.spatial, p.epilogue)
}

fn make_gemm<T: Float, const UNROLLED: bool>(p: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| plan_gemm::<T, UNROLLED>(p))
}
