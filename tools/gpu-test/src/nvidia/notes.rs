//! Notes of plans against what their results show: TF32 loses digits and without it none are lost, sums in smaller types stay within
//! what their note allows, and a plan without the note of changing bits does not change them.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::Matmul;

use super::{Check, Context, Outcome, Subject, subjects};
use crate::Failure;
use crate::backend::Plan;
use crate::case::{Case, Order};
use crate::cases::{self, CUBLASLT, CUDNN};

const DOWN_CONVERT_INPUTS: &str = "DOWN_CONVERT_INPUTS";
const NONDETERMINISTIC: &str = "NONDETERMINISTIC";
const REDUCED_PRECISION_REDUCTION: &str = "REDUCED_PRECISION_REDUCTION";

/// Executions whose bits are compared.
const EXECUTIONS: usize = 20;

/// Rows, columns and terms of products: few results of many terms, whose sums a library divides.
pub(super) const SIZES: [i64; 3] = [64, 48, 8192];

type Results = HashMap<i64, Vec<f32>>;

/// A product of a batch, as cuDNN and cuBLASLt both compute.
fn product(operands: DataType, result: DataType) -> Case {
    let [m, n, k] = SIZES;
    let mut case = Case::new(format!("{} x {} = {}", operands.name(), operands.name(), result.name()));
    let order = Order::ChannelsFirst;
    let node = Matmul {
        a: case.input(operands, &[1, m, k], order, [-1.0, 1.0]),
        b: case.input(operands, &[1, k, n], order, [-1.0, 1.0]),
        c: case.output(result, &[1, m, n], order),
    };
    case.node(node);
    case
}

pub(super) fn has(plan: &Plan<'_>, note: &str) -> Result<bool, Failure> {
    let steps = plan.steps()?.ok_or_else(|| Failure("the plan describes no steps".to_owned()))?;
    Ok(steps.iter().any(|step| step.numerics.notes.iter().any(|own| own == note)))
}

fn bits(results: &Results) -> Vec<(i64, Vec<u32>)> {
    let mut bits: Vec<_> = results
        .iter()
        .map(|(uid, values)| (*uid, values.iter().map(|value| value.to_bits()).collect()))
        .collect();
    bits.sort();
    bits
}

/// With TF32 a plan notes that operands are rounded, and its results differ by more than single precision allows.
fn tf32(context: &Context<'_>, engine: &str, knob: &str, case: &Case) -> Result<Outcome, Failure> {
    let backend = context.open()?;
    let expected = case.run_on_host(&backend)?;
    let plan = |value| backend.plan(engine, &case.graph, &[(knob, value)]);
    let (without, with) = match (plan(0), plan(1)) {
        (Ok(without), Ok(with)) => (without, with),
        // cuDNN has no engine for products in exact single precision on each GPU.
        (Err(reason), _) | (_, Err(reason)) => return Ok(Outcome::LeftOut(reason.to_string())),
    };
    if has(&without, DOWN_CONVERT_INPUTS)? || !has(&with, DOWN_CONVERT_INPUTS)? {
        return Err(Failure(format!("{knob}=1 alone is to note {DOWN_CONVERT_INPUTS}")));
    }
    let run = |plan| case.run_on_device(context.gpu(), plan);
    let (exact, rounded) = (run(&without)?, run(&with)?);
    let used = case.compare(&expected, &exact, &without)?;
    let used_with = case.compare(&expected, &rounded, &with)?;
    if bits(&exact) == bits(&rounded) {
        return Err(Failure("TF32 changes no bit".to_owned()));
    }
    match case.compare(&expected, &rounded, &without) {
        Ok(used) => Err(Failure(format!("TF32 is {used:.3} of what single precision may be off by"))),
        Err(_) => Ok(Outcome::Passed(format!("{used_with:.3} of its bound, {used:.3} of it without"))),
    }
}

/// Parts of sums are noted as half precision only where the result is half, and each result is within its plan's bound.
fn small_sums(context: &Context<'_>, data_type: DataType) -> Result<Outcome, Failure> {
    let backend = context.open()?;
    let mut told = Vec::new();
    for result in [data_type, DataType::Float] {
        let case = product(data_type, result);
        let plan = backend.plan(CUBLASLT, &case.graph, &[])?;
        let reduces = has(&plan, REDUCED_PRECISION_REDUCTION)?;
        if reduces && result != data_type {
            return Err(Failure(format!("{REDUCED_PRECISION_REDUCTION} for results of {}", result.name())));
        }
        let got = case.run_on_device(context.gpu(), &plan)?;
        let used = case.compare(&case.run_on_host(&backend)?, &got, &plan)?;
        let how = if reduces { "parts in" } else { "to" };
        told.push(format!("{used:.3} of the bound {how} {}", result.name()));
    }
    Ok(Outcome::Passed(told.join(", ")))
}

/// A plan that does not note that bits change gives the same ones in every execution.
fn repeated(context: &Context<'_>, Subject { engine, case }: &Subject) -> Result<Outcome, Failure> {
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let first = bits(&case.run_on_device(context.gpu(), &plan)?);
    let mut others = 0;
    for _ in 1..EXECUTIONS {
        others += usize::from(bits(&case.run_on_device(context.gpu(), &plan)?) != first);
    }
    match has(&plan, NONDETERMINISTIC)? {
        false if others > 0 => Err(Failure(format!(
            "{others} of {EXECUTIONS} executions have other bits without the note {NONDETERMINISTIC}"
        ))),
        false => Ok(Outcome::Passed("the same bits".to_owned())),
        true => Ok(Outcome::Passed(format!("{others} of {EXECUTIONS} have other bits, as noted"))),
    }
}

/// The gradient of a filter, with the knob that asks for equal bits and without.
fn gradient(deterministic: i64) -> Result<Subject, Failure> {
    let case = cases::named(CUDNN, "conv filter 3x3 half ChannelsLast")?;
    Ok(Subject { engine: CUDNN, case: case.with_knob("deterministic", "cudnn.deterministic", deterministic) })
}

pub fn checks(context: &Context<'_>) -> Result<Vec<Check>, Failure> {
    let mut checks: Vec<Check> = Vec::new();
    for (engine, knob) in [(CUBLASLT, "cublaslt.tf32"), (CUDNN, "cudnn.tf32")] {
        if context.missing(engine).is_none() {
            let check = move |context: &Context<'_>| {
                tf32(context, engine, knob, &product(DataType::Float, DataType::Float))
            };
            checks.push((format!("notes: a product in TF32 and without: {engine}"), Box::new(check)));
        }
    }
    for data_type in [DataType::Half, DataType::Bfloat16] {
        if context.missing(CUBLASLT).is_none() {
            let check = move |context: &Context<'_>| small_sums(context, data_type);
            let name = format!("notes: parts of sums in {}: {CUBLASLT}", data_type.name());
            checks.push((name, Box::new(check)));
        }
    }
    let mut repeats = subjects(context)?;
    if context.missing(CUDNN).is_none() {
        repeats.extend([gradient(0)?, gradient(1)?]);
    }
    for (place, subject) in repeats.into_iter().enumerate() {
        let name = format!(
            "notes: bits of {EXECUTIONS} executions: {}: {} ({place})",
            subject.engine, subject.case.name
        );
        checks.push((name, Box::new(move |context| repeated(context, &subject))));
    }
    Ok(checks)
}
