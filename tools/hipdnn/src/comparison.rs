//! Results beside those of the reference engine, or others that are known to be right.

use std::cell::OnceCell;

use crate::computation::{Arrays, Loaded, reference, sensitivity};
use crate::cuts;
use crate::data_type::DataType;
use crate::failure::Result;
use crate::flushed;
use crate::graph::{Graph, Tensor};
use crate::overflow::Undetermined;
use crate::rounding::Limits;
use crate::tensor::{Array, Comparison, Tolerance, compare};
use crate::ties;
use hipdnn::Handle;

/// Compares a result in floating point with the reference's for these inputs, by a tolerance.
fn compare_one(
    (limits, mut tolerance): (Limits<'_>, Tolerance),
    (graph, tensor): (&Graph, &Tensor),
    inputs: &Arrays,
    (array, expected): (&Array, &Array),
) -> Comparison {
    let comparison = compare(array, expected, tolerance, |_| false);
    if comparison.beyond == 0 || tensor.data_type.is_integer() {
        return comparison;
    }
    tolerance.of_largest += cuts::of(limits, graph, tensor, inputs);
    compare(array, expected, tolerance, |_| false)
}

/// The array of a tensor.
fn of(arrays: &Arrays, uid: i64) -> Option<&Array> {
    arrays.iter().find(|(other, _)| *other == uid).map(|(_, array)| array)
}

/// Compares each result with the reference's for these inputs. Returns the comparisons with their tensors.
fn compare_all<'g>(
    handle: &Handle,
    loaded: &'g Loaded,
    (inputs, outputs): (&Arrays, &Arrays),
    reference: &Arrays,
    limits: Limits<'_>,
) -> Result<Vec<(&'g Tensor, Comparison)>> {
    let Loaded { operations, graph, .. } = loaded;
    let mut compared = Vec::new();
    for (uid, array) in outputs {
        let (Some(tensor), Some(expected)) = (graph.tensor(*uid), of(reference, *uid)) else { continue };
        let tolerance = limits.of(graph, tensor);
        let mut comparison = compare_one((limits, tolerance), (graph, tensor), inputs, (array, expected));
        if comparison.beyond > 0 && tensor.data_type.is_integer() && tensor.data_type != DataType::Boolean {
            let undecided = ties::undecided(handle, operations, graph, inputs, (tensor, limits))?;
            comparison = compare(array, expected, tolerance, |at| undecided.get(at) == Some(&true));
        }
        compared.push((tensor, comparison));
    }
    Ok(compared)
}

/// A result may differ by this multiple of its change when inputs change by one unit in the last place.
pub const OF_CHANGE: f64 = 8.0;

/// A result that was compared.
pub struct Judged<'g> {
    /// Its tensor.
    pub tensor: &'g Tensor,
    /// How it compares.
    pub comparison: Comparison,
    /// How much the reference changes if inputs move by a unit in the last place; asked for only beyond the tolerance.
    pub change: Option<f64>,
    /// Whether it differs by more than the tolerance and that change allow.
    pub is_wrong: bool,
}

/// How much each of the reference's results changes if inputs move, computed when it is first asked for.
pub type Changes = OnceCell<Vec<(i64, f64)>>;

/// Compares each result with what is expected, and with the change that inputs cause. `own` are the reference engine's results,
/// if they are known. `known` keeps the changes for other results of the same inputs.
/// `limits` are those of the plan that ran; where it may flush subnormal numbers, elements that depend on them may be those of flushed tensors.
pub fn judge<'g>(
    handle: &Handle,
    loaded: &'g Loaded,
    (inputs, outputs): (&Arrays, &Arrays),
    (expected, own, known): (&Arrays, Option<&Arrays>, &Changes),
    limits: Limits<'_>,
) -> Result<Vec<Judged<'g>>> {
    let Loaded { operations, graph, .. } = loaded;
    let mut compared = compare_all(handle, loaded, (inputs, outputs), expected, limits)?;
    let is_any_beyond = |compared: &[(_, Comparison)]| compared.iter().any(|(_, it)| it.beyond > 0);
    // Where the reference does not compute each node, no flushed result is known.
    if limits.flushes()
        && is_any_beyond(&compared)
        && let Some(flushed) = flushed::results(handle, operations, graph, inputs).unwrap_or_default()
    {
        let nearer = |(uid, expected): &(i64, Array)| {
            let nearer = of(outputs, *uid).and_then(|own| flushed.nearer(*uid, own, expected));
            (*uid, nearer.unwrap_or_else(|| expected.clone()))
        };
        let expected = expected.iter().map(nearer).collect();
        let others = compare_all(handle, loaded, (inputs, outputs), &expected, limits)?;
        for (own, other) in compared.iter_mut().zip(others).filter(|(own, it)| it.1.beyond < own.1.beyond) {
            *own = other;
        }
    }
    let is_far = |(_, it): &(_, Comparison)| it.used.is_infinite();
    // The same holds for undetermined elements.
    if compared.iter().any(is_far)
        && let Ok(undetermined) = Undetermined::of(handle, operations, graph, inputs)
    {
        let settled = |(uid, expected): &(i64, Array)| {
            (
                *uid,
                of(outputs, *uid)
                    .map_or_else(|| expected.clone(), |own| undetermined.settle(*uid, own, expected)),
            )
        };
        let expected = expected.iter().map(settled).collect();
        let others = compare_all(handle, loaded, (inputs, outputs), &expected, limits)?;
        for (own, other) in compared.iter_mut().zip(others).filter(|(own, it)| it.1.beyond < own.1.beyond) {
            *own = other;
        }
    }
    if is_any_beyond(&compared) && known.get().is_none() {
        let compute = |inputs: &Arrays| reference(handle, operations, graph, inputs);
        let found = match own {
            Some(own) => sensitivity(graph, inputs, own, compute)?,
            // Where the reference does not compute the graph, the tolerance is all that is allowed.
            None => {
                compute(inputs).and_then(|own| sensitivity(graph, inputs, &own, compute)).unwrap_or_default()
            }
        };
        known.get_or_init(|| found);
    }
    Ok(weighed(compared, known, limits))
}

/// The same for a graph that `compute` computes as the reference does, so that no handle is needed. All is held to the tolerance and
/// to the change that inputs cause: whole numbers at ties, flushed subnormal numbers and sums that may overflow are not looked for.
/// `allow` may change the tolerance of a tensor.
pub fn judge_alone<'g>(
    graph: &'g Graph,
    (inputs, outputs, expected): (&Arrays, &Arrays, &Arrays),
    (limits, allow): (Limits<'_>, impl Fn(&Tensor, Tolerance) -> Tolerance),
    compute: impl Fn(&Arrays) -> Result<Arrays>,
) -> Result<Vec<Judged<'g>>> {
    let both = |(uid, array): &(i64, Array)| {
        let (tensor, expected) = (graph.tensor(*uid)?, of(expected, *uid)?);
        let tolerance = allow(tensor, limits.of(graph, tensor));
        Some((tensor, compare_one((limits, tolerance), (graph, tensor), inputs, (array, expected))))
    };
    let compared: Vec<_> = outputs.iter().filter_map(both).collect();
    let known = Changes::new();
    if compared.iter().any(|(_, comparison)| comparison.beyond > 0) {
        let own = compute(inputs)?;
        let found = sensitivity(graph, inputs, &own, compute)?;
        known.get_or_init(|| found);
    }
    Ok(weighed(compared, &known, limits))
}

/// Comparisons beside the changes that inputs cause.
fn weighed<'g>(
    compared: Vec<(&'g Tensor, Comparison)>,
    known: &Changes,
    limits: Limits<'_>,
) -> Vec<Judged<'g>> {
    let changes = known.get().map(Vec::as_slice).unwrap_or_default();
    let judged = compared.into_iter().map(|(tensor, comparison)| {
        let change = changes.iter().find(|(uid, _)| *uid == tensor.uid).map_or(0.0, |(_, change)| *change);
        let allowed = OF_CHANGE * limits.factor * change;
        let is_beyond = comparison.beyond > 0;
        let is_wrong = is_beyond && !(comparison.used.is_finite() && comparison.largest <= allowed);
        Judged { tensor, comparison, change: is_beyond.then_some(change), is_wrong }
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{graph, pointwise, tensor};

    #[test]
    fn what_cancels_is_held_to_what_its_operands_allow() {
        const COUNT: usize = 16;
        let mut tensors: Vec<_> = (1..4).map(|uid| tensor(uid, "", &[COUNT as i64], false)).collect();
        tensors.push(tensor(4, "", &[COUNT as i64], true));
        let nodes = vec![pointwise("", "sub", 1, Some(2), 4), pointwise("", "abs", 4, None, 3)];
        let graph = graph("", tensors, nodes);
        let array = |values: Vec<f64>| Array { dims: vec![values.len()], values };
        let inputs = vec![(1, array(vec![1.0; COUNT])), (2, array(vec![1.0 - 1e-4; COUNT]))];
        let compute = |inputs: &Arrays| {
            let own = |uid| of(inputs, uid).unwrap().values.iter();
            Ok(vec![(3, array(own(1).zip(own(2)).map(|(a, b)| (a - b).abs()).collect()))])
        };
        let expected = compute(&inputs).unwrap();
        let limits = Limits { steps: None, factor: 1.0 };
        let is_wrong = |error: f64, allow: fn(&Tensor, Tolerance) -> Tolerance| {
            let outputs = vec![(3, array(vec![1e-4 + error; COUNT]))];
            let judged =
                judge_alone(&graph, (&inputs, &outputs, &expected), (limits, allow), compute).unwrap();
            (judged[0].is_wrong, judged[0].change.is_some())
        };
        let unchanged: fn(&Tensor, Tolerance) -> Tolerance = |_, tolerance| tolerance;
        // Within the tolerance of the small result; within eight times what the last places of the operands amount to, 2^-22; beyond.
        assert_eq!(is_wrong(1e-12, unchanged), (false, false));
        assert_eq!(is_wrong(1e-6, unchanged), (false, true));
        assert_eq!(is_wrong(1e-5, unchanged), (true, true));
        assert_eq!(is_wrong(1e-5, |_, own| Tolerance { absolute: 1e-4, ..own }), (false, false));
    }
}
