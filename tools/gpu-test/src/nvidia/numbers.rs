//! Notes that numbers show one by one: values between nodes that are not rounded, bits that matrix instructions keep, and NaN; and
//! sequences in pieces.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise, Sdpa};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::notes::{SIZES, has};
use super::{Check, Context, Outcome};
use crate::case::{Case, Order};
use crate::cases::{CUBLASLT, CUDNN, RTC};
use crate::{Failure, engine_for};

const ORDER: Order = Order::ChannelsFirst;

/// The results of a case with one output.
fn result(context: &Context<'_>, case: &Case, engine: &str) -> Result<(Vec<f32>, bool), Failure> {
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let mut results = case.run_on_device(context.gpu(), &plan)?;
    let output = case.graph.tensors.last().and_then(|tensor| results.remove(&tensor.uid));
    let values = output.ok_or_else(|| Failure("the last tensor was not computed".to_owned()))?;
    Ok((values, has(&plan, "SKIP_ROUNDING")?))
}

/// 2049 - 2048 in `half`, which has no 2049: with the note it is 1, without it 0.
fn rounding(context: &Context<'_>, engine: &str) -> Result<Outcome, Failure> {
    let (half, [m, n, k]) = (DataType::Half, [64, 48, 64]);
    let mut case = Case::new("a product and a bias");
    let a = (0..m * k).map(|place| if place % k == 0 { 33.0 } else { 32.0 }).collect();
    let a = case.input_of(half, &[1, m, k], a);
    let b = case.input_of(half, &[1, k, n], vec![1.0; (k * n) as usize]);
    let bias = case.input_of(half, &[1, 1, n], vec![-2048.0; n as usize]);
    let product = case.between(half, &[1, m, n], ORDER);
    let sum = case.output(half, &[1, m, n], ORDER);
    case.node(Matmul { a, b, c: product });
    case.node(Pointwise::new(PointwiseMode::Add, product, Some(bias), sum));
    let (values, skips) = result(context, &case, engine)?;
    let expected = if skips { 1.0 } else { 0.0 };
    let others = values.iter().filter(|value| **value != expected).count();
    if others > 0 {
        return Err(Failure(format!(
            "{others} of {} values are not {expected}, where SKIP_ROUNDING is {skips}",
            values.len()
        )));
    }
    Ok(Outcome::Passed(format!("{expected}, and SKIP_ROUNDING is {skips}")))
}

/// Whether an engine does not take a graph, or has no plan for it: other errors are the check's.
fn is_refused(reason: &Failure) -> bool {
    let Failure(text) = reason;
    text.contains("not in a valid range of engine IDs") || text.contains(": status 8: ")
}

/// Sums of products of a type. Those of 8-bit floats fit 24 bits, so that one which is not exact shows an instruction that keeps fewer.
fn kept_bits(context: &Context<'_>, engine: &str, data_type: DataType) -> Result<Outcome, Failure> {
    let [m, n, k] = SIZES;
    let mut case = Case::new("a product of one sign");
    let a = case.input(data_type, &[1, m, k], ORDER, [0.5, 1.0]);
    // By columns, as cuBLASLt takes 8-bit floats.
    let b = case.input_with_strides(data_type, &[1, k, n], &[k * n, 1, k], [0.5, 1.0]);
    let c = case.output(DataType::Float, &[1, m, n], ORDER);
    case.node(Matmul { a, b, c });
    let backend = context.open()?;
    let plan = match backend.plan(engine, &case.graph, &[]) {
        Ok(plan) => plan,
        Err(reason) if is_refused(&reason) => return Ok(Outcome::LeftOut(reason.to_string())),
        Err(reason) => return Err(reason),
    };
    let steps = plan.steps()?.unwrap_or_default();
    let told = steps.iter().filter_map(|step| step.numerics.matrix_sums.as_ref()).map(|sums| sums.bits).min();
    let bits = told.map_or_else(|| "no number of".to_owned(), |bits| bits.to_string());
    let (expected, got) = (case.run_on_host(&backend)?, case.run_on_device(context.gpu(), &plan)?);
    let used = case.compare(&expected, &got, &plan)?;
    let values = |of: &HashMap<i64, Vec<f32>>| of.get(&c).cloned().unwrap_or_default();
    let (expected, got) = (values(&expected), values(&got));
    let off = expected.iter().zip(&got).map(|(expected, got)| (got / expected - 1.0).abs());
    let error = off.fold(0.0, f32::max);
    let is_short = data_type == DataType::Fp8E4m3 && error > 0.0;
    if is_short && told.is_none_or(|bits| bits >= 24) {
        return Err(Failure(format!("results are off by {error:e}, where {bits} bits are told")));
    }
    Ok(Outcome::Passed(format!("off by {error:.1e}, {used:.3} of the bound, with {bits} bits")))
}

/// A maximum of NaN is NaN where that is noted.
fn not_a_number(context: &Context<'_>, engine: &str) -> Result<Outcome, Failure> {
    let mut case = Case::new("a maximum");
    let values =
        |odd: usize| (0..64).map(|place| if place % 4 == odd { f32::NAN } else { place as f32 }).collect();
    let (one, other) = (
        case.input_of(DataType::Float, &[4, 16], values(1)),
        case.input_of(DataType::Float, &[4, 16], values(2)),
    );
    let larger = case.output(DataType::Float, &[4, 16], ORDER);
    case.node(Pointwise::new(PointwiseMode::Max, one, Some(other), larger));
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &[])?;
    let results = case.run_on_device(context.gpu(), &plan)?;
    let is_kept = |(place, value): (usize, &f32)| value.is_nan() == matches!(place % 4, 1 | 2);
    let keeps = results.get(&larger).is_some_and(|values| values.iter().enumerate().all(is_kept));
    match has(&plan, "STRICT_NAN_PROP")? {
        true if keeps => Ok(Outcome::Passed("NaN stays NaN".to_owned())),
        noted => Err(Failure(format!("STRICT_NAN_PROP is {noted}, NaN stays NaN: {keeps}"))),
    }
}

/// Heads, positions and features of a sequence.
const SEQUENCE: [i64; 3] = [4, 70, 64];

/// The bits of some queries of a sequence, each of which reads the keys up to its own, by position.
fn piece(context: &Context<'_>, engine: &str, [first, end]: [i64; 2]) -> Result<Vec<Vec<u32>>, Failure> {
    let (data_type, [heads, _, depth]) = (DataType::Half, SEQUENCE);
    let mut case = Case::new("a piece of a sequence");
    let mut given = |tensor: u32, heads: i64, [first, end]: [i64; 2]| {
        let value = |place: i64| {
            let [head, rest] = [place / ((end - first) * depth), place % ((end - first) * depth)];
            let at = (head * 1000 + first + rest / depth) * depth + rest % depth;
            let mixed = (at as u32 ^ tensor << 24).wrapping_mul(2_654_435_761) >> 8;
            mixed as f32 / (1 << 23) as f32 - 1.0
        };
        let values = (0..heads * (end - first) * depth).map(value).collect();
        case.input_of(data_type, &[1, heads, end - first, depth], values)
    };
    let (q, k, v) =
        (given(1, heads, [first, end]), given(2, heads / 2, [0, end]), given(3, heads / 2, [0, end]));
    let o = case.output(data_type, &[1, heads, end - first, depth], ORDER);
    let attn_scale_value = Some((depth as f32).powf(-0.5));
    case.node(Sdpa { attn_scale_value, causal_mask_bottom_right: true, ..Sdpa::new(q, k, v, o) });
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &[("batch_invariant", 1)])?;
    let results = case.run_on_device(context.gpu(), &plan)?;
    let values = results.get(&o).ok_or_else(|| Failure("attention was not computed".to_owned()))?;
    let [count, depth, heads] = [end - first, depth, heads].map(|size| size as usize);
    let of_position = |position: usize| {
        let row = |head: usize| values.iter().skip((head * count + position) * depth).take(depth);
        (0..heads).flat_map(row).map(|value| value.to_bits()).collect()
    };
    Ok((0..count).map(of_position).collect())
}

/// Pieces, and single positions.
const PIECES: [[i64; 2]; 9] =
    [[0, 1], [1, 2], [32, 33], [69, 70], [0, 5], [5, 10], [65, 70], [33, 66], [66, 70]];

/// Pieces of a sequence have the bits that they have in the whole, with cached keys.
fn pieces(context: &Context<'_>, engine: &str) -> Result<Outcome, Failure> {
    let whole = piece(context, engine, [0, SEQUENCE[1]])?;
    for [first, end] in PIECES {
        let own = piece(context, engine, [first, end])?;
        let others = whole.iter().skip(first as usize).zip(&own).filter(|(whole, own)| whole != own).count();
        if others > 0 {
            return Err(Failure(format!("{others} positions have other bits in the piece {first}..{end}")));
        }
    }
    Ok(Outcome::Passed("the same bits".to_owned()))
}

/// The checks of engines that are there.
pub(super) fn checks(context: &Context<'_>) -> Result<Vec<Check>, Failure> {
    let generated = engine_for(context.gpu(), RTC)
        .ok_or_else(|| Failure(format!("{RTC} is not an engine for NVIDIA GPUs")))?;
    let mut checks: Vec<Check> = Vec::new();
    // The stand-ins' checks are chosen by names of engines; they have no matrix instructions.
    let of = |engine: &'static str| if engine == generated { "generated kernels" } else { engine };
    for engine in [generated, CUBLASLT, CUDNN].into_iter().filter(|engine| context.missing(engine).is_none())
    {
        // cuDNN may leave out the rounding, but 9.19 does not.
        if engine != CUDNN {
            let name = format!("notes: a value between nodes that is rounded or not: {}", of(engine));
            checks.push((name, Box::new(move |context| rounding(context, engine))));
        }
        for data_type in [DataType::Fp8E4m3, DataType::Half] {
            let name = format!("notes: bits of sums of {}: {}", data_type.name(), of(engine));
            checks.push((name, Box::new(move |context| kept_bits(context, engine, data_type))));
        }
    }
    if context.missing(generated).is_none() {
        let name = format!("notes: a maximum of NaN: {generated}");
        checks.push((name, Box::new(move |context| not_a_number(context, generated))));
        let name = format!("notes: a sequence at once and in pieces: {}", of(generated));
        checks.push((name, Box::new(move |context| pieces(context, generated))));
    }
    Ok(checks)
}
