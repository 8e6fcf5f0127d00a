//! What the steps of a plan do to numbers.

use hipdnn_plugin_planner::numerics::{Summation, chooses, sums};
use hipdnn_plugin_sdk::Numerics;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};
use hipdnn_plugin_sdk::numerics::{MatrixSums, NoteKnob, OrderBy, note};

use crate::dtype::element::Compute;
use crate::kernel::{Kernel, algorithms};
use crate::plan::planner::{BATCH_INVARIANT, CONVOLUTION, DETERMINISTIC, FLUSH_SUBNORMALS, WINOGRAD};
use crate::pointwise::functions::units;
use crate::prepare::{CheckedNode, Prepared};
use crate::problem::Problem;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;

/// The settings of CPU_ENGINE's knobs that add notes or take them away.
pub(crate) const KNOBS: &[NoteKnob] = &[
    NoteKnob::removes(note::NONDETERMINISTIC, DETERMINISTIC, 1),
    NoteKnob::removes(note::BATCH_DEPENDENT, BATCH_INVARIANT, 1),
    NoteKnob::adds(note::FLUSH_SUBNORMALS, FLUSH_SUBNORMALS, 1),
    NoteKnob::removes(note::WINOGRAD, WINOGRAD, 0),
    NoteKnob::removes(note::WINOGRAD_TILE_4X4, WINOGRAD, 0),
    NoteKnob::removes(note::WINOGRAD_TILE_6X6, WINOGRAD, 0),
    NoteKnob::adds(note::WINOGRAD, CONVOLUTION, Algorithm::Winograd as i64),
    NoteKnob::adds(note::WINOGRAD_TILE_4X4, CONVOLUTION, Algorithm::Winograd as i64),
    NoteKnob::adds(note::WINOGRAD_TILE_6X6, CONVOLUTION, Algorithm::Winograd4 as i64),
];

/// What a step does to numbers, with the settings of `CPU_ENGINE`; none if the reference computes it.
pub(crate) fn of_step(
    prepared: &Prepared,
    members: &[usize],
    kernel: &dyn Kernel,
    settings: Option<Settings>,
) -> Numerics {
    let mut numerics = Numerics::default();
    for node in members.iter().filter_map(|place| prepared.node(*place)) {
        if let Some(sums) = sums(&node) {
            numerics = add_sums(numerics, &node, &sums, kernel, settings);
        }
        numerics = numerics.note_if(chooses(&node), note::STRICT_NAN_PROP);
        if settings.is_some() {
            numerics = add_functions(numerics, &node, kernel);
        }
    }
    let Some(settings) = settings else { return numerics };
    let facts = kernel.facts();
    let names = algorithms(kernel);
    let is = |algorithm: Algorithm| names.contains(&algorithm.name());
    let is_dense = |node: CheckedNode<'_>| match node.problem {
        Problem::Convolution(own) => own.stride.iter().take(own.spatial).all(|stride| *stride == 1),
        _ => false,
    };
    let is_dense = members.iter().filter_map(|place| prepared.node(*place)).any(is_dense);
    if facts.matrix {
        numerics = numerics.matrix_sums(of_tiles(facts.accumulator));
    }
    numerics
        .note_if(is(Algorithm::Winograd) || is(Algorithm::Winograd4), note::WINOGRAD)
        // With a stride of 2 tiles have another size.
        .note_if(is(Algorithm::Winograd) && is_dense, note::WINOGRAD_TILE_4X4)
        .note_if(is(Algorithm::Winograd4), note::WINOGRAD_TILE_6X6)
        .note_if(facts.pairs || settings.threads.flush_subnormals, note::FLUSH_SUBNORMALS)
}

/// How AMX adds to sums of a type; those of integers are exact.
///
/// Intel's manual (TDPBF16PS) adds 16 products of even and 16 of odd places, each by fused multiply-adds, both sums, and the sum before.
/// Every step rounds to the nearest number in single precision, which is as near as 25 bits with the others cut.
fn of_tiles(accumulator: Option<DataType>) -> Option<MatrixSums> {
    (accumulator == Some(DataType::Float)).then_some(MatrixSums { terms: 32, bits: 25 })
}

fn add_sums(
    numerics: Numerics,
    node: &CheckedNode<'_>,
    sums: &Summation,
    kernel: &dyn Kernel,
    settings: Option<Settings>,
) -> Numerics {
    let compute = match Compute::of(node.node.compute_type) {
        Ok(Compute::Single) => DataType::Float,
        Ok(Compute::Double) => DataType::Double,
        // Integers and truth values.
        Err(_) => return numerics.sums(DataType::Int64, &[]),
    };
    let facts = kernel.facts();
    let Some(settings) = settings else {
        let is_attention = matches!(node.problem, Problem::Attention(_) | Problem::AttentionGradients(_));
        let is_mixture = matches!(node.problem, Problem::Mixture(_) | Problem::MixtureGradient(_));
        let is_resample = matches!(node.problem, Problem::Resample(_));
        let double = sums.double || is_attention || is_mixture || is_resample;
        return numerics.sums(if double { DataType::Double } else { compute }, &[]);
    };
    let accumulator = facts.accumulator.unwrap_or(compute);
    if sums.exact {
        return numerics.sums(accumulator, &[]);
    }
    // Threads divide the rows of channels last, and else whole channels.
    let whole_channels = matches!(node.problem, Problem::Batchnorm(_)) && facts.algorithm != "channels last";
    let by_threads = sums.by_threads && !whole_channels && !settings.threads.is_deterministic();
    let mut numerics = numerics
        .sums(accumulator, &[OrderBy::Shapes, OrderBy::Device])
        .note_if(sums.split, note::SPLIT_SUMS)
        .note_if(sums.of_items && !settings.threads.batch_invariant, note::BATCH_DEPENDENT)
        .note_if(by_threads, note::NONDETERMINISTIC);
    if by_threads {
        numerics = numerics.sums(accumulator, &[OrderBy::Threads]);
    }
    if sums.double {
        numerics = numerics.sums(DataType::Double, &[]);
    }
    let is_attention = matches!(node.problem, Problem::Attention(_) | Problem::AttentionGradients(_));
    numerics.note_if(is_attention, note::FLUSH_SUBNORMALS)
}

/// Whether a processor's vectors compute GELU from a table of polynomials.
fn looks_up(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa == Isa::Avx512;
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// The functions that `CPU_ENGINE` approximates in single precision. Those in double precision are the reference's.
fn add_functions(numerics: Numerics, node: &CheckedNode<'_>, kernel: &dyn Kernel) -> Numerics {
    use PointwiseMode as M;
    if !matches!(Compute::of(node.node.compute_type), Ok(Compute::Single)) {
        return numerics;
    }
    let exp = ("exp", Some(units::EXP));
    let of: &[(&'static str, Option<u32>)] = match node.problem {
        Problem::Attention(_) | Problem::AttentionGradients(_) => &[("exp", Some(units::SCORE_WEIGHT))],
        Problem::Pointwise(own) => match own.mode {
            M::Exp if kernel.facts().algorithm.starts_with("softmax") => {
                &[("exp", Some(units::SOFTMAX_WEIGHT))]
            }
            M::Exp | M::SigmoidFwd | M::SigmoidBwd | M::SwishFwd | M::SwishBwd => &[exp],
            M::Log => &[("log", Some(units::LOG))],
            M::TanhFwd | M::TanhBwd | M::GeluApproxTanhFwd | M::GeluApproxTanhBwd => {
                &[("tanh", Some(units::TANH))]
            }
            M::Erf => &[("erf", Some(units::ERF))],
            // The table of polynomials is as exact as its largest term, not as the result.
            M::GeluFwd if looks_up(Isa::detect()) => &[("gelu", None)],
            M::GeluFwd => &[("erf", Some(units::ERF))],
            M::GeluBwd => &[("erf", Some(units::ERF)), exp],
            M::EluFwd | M::EluBwd => &[("expm1", Some(units::EXPM1))],
            M::SoftplusFwd => &[exp, ("log1p", Some(units::LOG1P))],
            M::SoftplusBwd => &[exp],
            _ => &[],
        },
        _ => &[],
    };
    of.iter().fold(numerics, |numerics, (name, ulp)| numerics.function(name, *ulp))
}
