//! The algorithms of convolutions, in the order in which they are tried.
//!
//! An entry refuses a problem that it does not compute, or that another entry computes faster. The first entry that
//! does not refuse is chosen, unless it has an estimated time: of the entries with an estimate, which are the last
//! ones, the fastest is chosen. What all entries refuse, the reference computes.

use std::marker::PhantomData;

use hipdnn_plugin_planner::in_own_frame;

use crate::conv::as_matmul;
use crate::conv::backward_weights::channels::{self, BackwardWeightsByChannel};
use crate::conv::backward_weights::rows::BackwardWeights;
use crate::conv::direct::problem::{Direct, Scheme};
use crate::conv::direct_small::kernel::{DirectSmall, suits};
use crate::conv::im2col::choice;
use crate::conv::im2col::problem::Im2col;
use crate::conv::implicit_gemm::kernel::ImplicitGemm;
use crate::conv::problem::{Problem, is_direct};
use crate::conv::winograd::choice::fastest;
use crate::conv::winograd::problem::Winograd;
use crate::dtype::element::Compute;
use crate::gemm::accumulator::Accumulator;
#[cfg(target_arch = "x86_64")]
use crate::gemm::pairs::Pairs;
use crate::kernel::{Choice, Chosen, Kernel, Refusal};
use crate::matmul;
use crate::pointwise::Epilogue;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::converted::Copies;
use crate::tensor::row_converter::RowConverter;

/// Output channels from which on products of `bfloat16` are summed in pairs: half of a tile's rows.
#[cfg(target_arch = "x86_64")]
const LEAST_ROWS: usize = 16;

/// Images from which on blocks of whole images are enough for all threads.
const LEAST_IMAGES: usize = 16;

/// An algorithm.
pub(crate) struct Entry {
    /// Its name. That of an algorithm that the knob can ask for is also the name of the knob's value.
    pub(crate) name: &'static str,
    pub(crate) tried: Tried,
    plan: fn(&Problem<'_>) -> Result<Candidate, Refusal>,
}

/// With which values of the knob `convolution` an entry is tried.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tried {
    /// With all.
    Always,
    /// With the automatic choice.
    Automatic,
    /// With the automatic choice, and where the knob asks for it.
    AutomaticOr(Algorithm),
}

/// A planned entry.
struct Candidate {
    kernel: Box<dyn Kernel>,
    /// Estimated nanoseconds on one thread, if it competes with other entries.
    estimate: Option<f64>,
}

impl Candidate {
    fn new(kernel: impl Kernel + 'static) -> Self {
        Self { kernel: Box::new(kernel), estimate: None }
    }
}

/// The list for a compute type.
pub(crate) struct List<T>(PhantomData<T>);

impl<T: Float> List<T> {
    /// The entries in order.
    pub(crate) const ENTRIES: &'static [Entry] = &[
        Entry { name: "matmul", tried: Tried::Automatic, plan: as_matmul },
        Entry { name: "converted", tried: Tried::Always, plan: converted },
        Entry {
            name: "backward-weights-by-channel",
            tried: Tried::Automatic,
            plan: backward_weights_by_channel::<T>,
        },
        Entry { name: "backward-weights", tried: Tried::Always, plan: backward_weights::<T> },
        #[cfg(target_arch = "x86_64")]
        Entry {
            name: "direct-bfloat16",
            tried: Tried::AutomaticOr(Algorithm::Direct),
            plan: direct_bfloat16,
        },
        Entry { name: "direct-two-tiles", tried: Tried::Automatic, plan: direct_two_tiles::<T> },
        asked(Algorithm::Winograd4, |problem| winograd::<T>(problem, 4)),
        asked(Algorithm::Winograd, |problem| winograd::<T>(problem, 2)),
        asked(Algorithm::Im2col, im2col::<T>),
        Entry { name: "direct-small", tried: Tried::Automatic, plan: direct_small::<T> },
        #[cfg(target_arch = "x86_64")]
        Entry { name: "direct-int8", tried: Tried::AutomaticOr(Algorithm::Direct), plan: direct_int8 },
        asked(Algorithm::Direct, direct::<T>),
        asked(Algorithm::Unrolled, |problem| implicit_gemm::<T>(problem, true)),
        asked(Algorithm::ImplicitGemm, |problem| implicit_gemm::<T>(problem, false)),
    ];
}

/// The entry of an algorithm that the knob can ask for.
const fn asked(algorithm: Algorithm, plan: fn(&Problem<'_>) -> Result<Candidate, Refusal>) -> Entry {
    Entry { name: algorithm.name(), tried: Tried::AutomaticOr(algorithm), plan }
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
    plan_problem(&Problem::new(c, compute, isa, settings, epilogue))
}

/// The type in which sums are exact where they have to be.
fn type_of_sums(problem: &Problem<'_>) -> Compute {
    let c = problem.convolution;
    let terms = c.in_channels as f64 * c.window[..c.spatial].iter().map(|side| *side as f64).product::<f64>();
    matmul::exact([c.x.data_type, c.w.data_type], terms, problem.compute)
}

fn plan_problem(problem: &Problem<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(match type_of_sums(problem) {
        Compute::Single => choose::<f32>(problem)?,
        Compute::Double => choose::<f64>(problem)?,
    }))
}

/// Chooses and plans an algorithm: the one that the knob asks for, if it computes the problem. Otherwise the list
/// decides, without Winograd's algorithm, which is less exact, unless the knob asked for it.
pub(crate) fn choose<T: Float>(problem: &Problem<'_>) -> Result<Chosen, Refusal> {
    let asked = problem.settings.convolution;
    let mut passed_over = Vec::new();
    let is_free = asked == Algorithm::Automatic;
    let chosen = walk::<T>(problem, &mut passed_over, |tried| match tried {
        Tried::Always => true,
        Tried::Automatic => is_free,
        Tried::AutomaticOr(algorithm) => is_free || algorithm == asked,
    });
    let chosen = chosen.or_else(|| match asked {
        Algorithm::Automatic => None,
        Algorithm::Winograd | Algorithm::Winograd4 => walk::<T>(problem, &mut passed_over, |_| true),
        _ => walk::<T>(problem, &mut passed_over, |tried| {
            matches!(tried, Tried::AutomaticOr(Algorithm::ImplicitGemm | Algorithm::Unrolled))
        }),
    });
    match chosen {
        Some((name, Candidate { kernel, estimate })) => {
            Ok(Chosen { kernel, choice: Choice { name, estimate, passed_over } })
        }
        None => {
            let reasons: Vec<_> =
                passed_over.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
            Err(reasons.join("; "))
        }
    }
}

/// Goes through the entries that are to be tried. Those that refuse are passed over, and not tried twice.
fn walk<T: Float>(
    problem: &Problem<'_>,
    passed_over: &mut Vec<(&'static str, Refusal)>,
    is_tried: impl Fn(Tried) -> bool,
) -> Option<(&'static str, Candidate)> {
    let mut fastest: Option<(&'static str, Candidate, f64)> = None;
    for entry in List::<T>::ENTRIES {
        if !is_tried(entry.tried) || passed_over.iter().any(|(name, _)| *name == entry.name) {
            continue;
        }
        let candidate = match (entry.plan)(problem) {
            Ok(candidate) => candidate,
            Err(reason) => {
                passed_over.push((entry.name, reason));
                continue;
            }
        };
        let Some(time) = candidate.estimate else { return Some((entry.name, candidate)) };
        let slower = |time: f64, name: &str, least: f64| {
            format!("estimated at {:.3} ms, {name} at {:.3} ms", time / 1e6, least / 1e6)
        };
        match &fastest {
            Some((name, _, least)) if *least < time => {
                passed_over.push((entry.name, slower(time, name, *least)));
            }
            _ => {
                if let Some((name, _, other)) = fastest.replace((entry.name, candidate, time)) {
                    passed_over.push((name, slower(other, entry.name, time)));
                }
            }
        }
    }
    fastest.map(|(name, candidate, _)| (name, candidate))
}

/// A filter that covers the whole image.
fn as_matmul(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    let product = as_matmul::product(p.convolution).ok_or("the filter does not cover the image")?;
    let epilogue = p.epilogue.map(|epilogue| Epilogue { output: &product.c, ..epilogue });
    let kernel = matmul::plan(&product, p.compute, p.isa, p.settings, epilogue)?;
    Ok(Candidate { kernel, estimate: None })
}

/// Operands of dtypes that no other entry reads or writes.
fn converted(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    let mut convolution = *p.convolution;
    let (mut copies, sums) = (Copies::new(p.compute, p.settings.threads), type_of_sums(p));
    let Convolution { x, w, y, .. } = &mut convolution;
    for (operand, is_result) in [x, w, y].into_iter().zip(p.are_results()) {
        match is_direct(operand.data_type, is_result) {
            true => {}
            false if is_result => copies.convert_result(operand, sums, p.epilogue.is_some())?,
            false => copies.convert(operand)?,
        }
    }
    let planned = copies.around(p.convolution.w.slot, p.settings.constant_weights, |constant_weights| {
        plan_problem(&p.on(&convolution, constant_weights))
    })?;
    planned.map(Candidate::new).ok_or_else(|| "no operand has to be converted".to_owned())
}

fn backward_weights_by_channel<T: Float>(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    let operands = p.backward_weights()?;
    channels::suits::<T>(&operands, p.isa)?;
    BackwardWeightsByChannel::<T>::plan(operands, p.isa, p.settings).map(Candidate::new)
}

fn backward_weights<T: Float>(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    BackwardWeights::<T>::plan(p.backward_weights()?, p.isa, p.settings).map(Candidate::new)
}

/// Plans a direct convolution of a single sub-problem.
#[inline(never)]
fn plan_direct<T: Accumulator>(p: &Problem<'_>, scheme: Scheme<T>) -> Result<Box<Direct<T>>, Refusal> {
    let operands = p.operands()?.clone();
    Direct::plan(operands, scheme, p.isa, p.settings, p.convolution.spatial, p.epilogue)?
        .map(Box::new)
        .ok_or_else(|| "backward data with a stride, or blocks that are too large".to_owned())
}

fn competing<T: Accumulator>(direct: Box<Direct<T>>) -> Candidate {
    Candidate { estimate: Some(direct.time), kernel: direct }
}

/// Pairs of bytes, summed as integers.
#[cfg(target_arch = "x86_64")]
fn direct_int8(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    if !Pairs::of(p.isa).integers {
        return Err("the processor has no AVX-512 VNNI".to_owned());
    }
    let scheme =
        Scheme::bytes(p.operands()?, p.isa).ok_or("operands are not int8 or uint8, or too many")??;
    plan_direct(p, scheme).map(competing)
}

/// Pairs of `bfloat16`. The order of summation gives other results than that of other entries, so this choice must
/// not depend on estimated times, which depend on the number of threads.
#[cfg(target_arch = "x86_64")]
fn direct_bfloat16(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    if p.compute != Compute::Single || !Pairs::of(p.isa).bfloat16 {
        return Err("it needs AVX-512 BF16, and single precision".to_owned());
    }
    let operands = p.operands()?;
    if !p.asks_for(Algorithm::Direct) && operands.rows < LEAST_ROWS {
        return Err(format!("{} output channels, expected at least {LEAST_ROWS}", operands.rows));
    }
    let scheme = Scheme::bfloat16(operands, p.isa, p.convolution.spatial, p.epilogue);
    let direct = plan_direct(p, scheme.ok_or("operands are not bfloat16")??)?;
    Ok(Candidate { kernel: direct, estimate: None })
}

fn scheme<T: Float>(p: &Problem<'_>) -> Result<Scheme<T>, Refusal> {
    Scheme::<T>::unpaired(p.operands()?, p.isa, p.convolution.spatial, p.epilogue)
}

/// Images for which im2col would compute many columns for nothing. This needs packed weights; packing them for each
/// execution would cost more than it saves.
fn direct_two_tiles<T: Float>(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    let operands = p.operands()?;
    #[cfg(target_arch = "x86_64")]
    if Pairs::of(p.isa).integers && Scheme::bytes(operands, p.isa).is_some() {
        return Err("direct-int8 computes it".to_owned());
    }
    if !p.settings.constant_weights || !choice::wastes::<T>(operands, p.isa) {
        return Err("weights may change, or im2col computes few columns for nothing".to_owned());
    }
    let direct = plan_direct(p, scheme::<T>(p)?)?;
    if direct.are_two() {
        Ok(Candidate { kernel: direct, estimate: None })
    } else {
        Err("most tiles are computed one by one".to_owned())
    }
}

/// F(`outputs` × `outputs`, 3 × 3), where it saves time and the loss of exactness is acceptable: users of double
/// precision want exact results.
fn winograd<T: Float>(p: &Problem<'_>, outputs: usize) -> Result<Candidate, Refusal> {
    let operands = p.operands()?;
    if p.is_whole {
        return Err("sums of integers have to be exact".to_owned());
    }
    if !p.asks_for(if outputs == 4 { Algorithm::Winograd4 } else { Algorithm::Winograd }) {
        if p.compute != Compute::Single {
            return Err("double precision has it only where the knob asks for it".to_owned());
        }
        // The transforms take too long compared with full 512-bit multiplications.
        if p.isa.has_whole_vectors() && operands.windows.stride[1] > 1 {
            return Err("a stride, on a processor with full 512-bit vector units".to_owned());
        }
        if fastest(operands, p.isa, p.settings.constant_weights) != Some(outputs) {
            return Err("other filters than 3 × 3, or estimated to be slower".to_owned());
        }
    }
    Winograd::<T>::plan(operands, outputs, p.isa, p.settings, p.convolution.spatial, p.epilogue)?
        .map(Candidate::new)
        .ok_or_else(|| "filter, stride or dtypes have no such form".to_owned())
}

fn im2col<T: Float>(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    let operands = p.operands()?;
    if !p.asks_for(Algorithm::Im2col) && !choice::suits::<T>(operands, p.isa) {
        return Err("no full 512-bit vector units, or too few channels or outputs".to_owned());
    }
    Im2col::<T>::plan(operands, p.isa, p.settings, p.convolution.spatial, p.epilogue.as_ref())?
        .map(Candidate::new)
        .ok_or_else(|| {
            "a stride of backward data, a dtype, a layout or an epilogue that it does not have".to_owned()
        })
}

/// Images whose rows are shorter than a vector.
fn direct_small<T: Float>(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    let operands = p.operands()?;
    RowConverter::<T>::of(operands.input.data_type)?;
    if operands.parts.len() == 1 && operands.windows.batch < LEAST_IMAGES {
        return Err(format!("{} images, expected at least {LEAST_IMAGES}", operands.windows.batch));
    }
    suits::<T>(operands, p.isa, p.settings)?;
    let exact = in_own_frame(|| plan_implicit_gemm(p, false).map(Box::new))?;
    let spatial = p.convolution.spatial;
    in_own_frame(|| {
        DirectSmall::<T>::plan(operands.clone(), p.isa, p.settings, spatial, p.epilogue, *exact)
            .map(Candidate::new)
    })
}

fn direct<T: Float>(p: &Problem<'_>) -> Result<Candidate, Refusal> {
    plan_direct(p, scheme::<T>(p)?).map(competing)
}

fn plan_implicit_gemm<T: Float>(p: &Problem<'_>, unrolled: bool) -> Result<ImplicitGemm<T>, Refusal> {
    let operands = p.operands()?.clone();
    ImplicitGemm::plan(operands, unrolled, p.isa, p.settings, p.convolution.spatial, p.epilogue)
}

fn implicit_gemm<T: Float>(p: &Problem<'_>, unrolled: bool) -> Result<Candidate, Refusal> {
    let planned = plan_implicit_gemm::<T>(p, unrolled)?;
    let time = planned.time;
    Ok(Candidate { estimate: Some(time), ..Candidate::new(planned) })
}
