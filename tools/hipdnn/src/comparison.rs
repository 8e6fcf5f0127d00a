//! Results beside those of the reference engine, or others that are known to be right.

use std::cell::OnceCell;

use crate::computation::{Arrays, Loaded, reference, sensitivity};
use crate::cuts;
use crate::data_type::DataType;
use crate::failure::Result;
use crate::flushed;
use crate::graph::Tensor;
use crate::overflow::Undetermined;
use crate::rounding::Limits;
use crate::tensor::{Array, Comparison, compare};
use crate::ties;
use hipdnn::Handle;

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
        let expected = reference.iter().find(|(other, _)| other == uid).map(|(_, array)| array);
        let (Some(tensor), Some(expected)) = (graph.tensor(*uid), expected) else { continue };
        let mut tolerance = limits.of(graph, tensor);
        let mut comparison = compare(array, expected, tolerance, |_| false);
        if comparison.beyond > 0 && !tensor.data_type.is_integer() {
            tolerance.of_largest += cuts::of(limits, graph, tensor, inputs);
            comparison = compare(array, expected, tolerance, |_| false);
        }
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
            let own = outputs.iter().find(|(other, _)| other == uid).map(|(_, array)| array);
            let nearer = own.and_then(|own| flushed.nearer(*uid, own, expected));
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
            let own = outputs.iter().find(|(other, _)| other == uid).map(|(_, array)| array);
            (*uid, own.map_or_else(|| expected.clone(), |own| undetermined.settle(*uid, own, expected)))
        };
        let expected = expected.iter().map(settled).collect();
        let others = compare_all(handle, loaded, (inputs, outputs), &expected, limits)?;
        for (own, other) in compared.iter_mut().zip(others).filter(|(own, it)| it.1.beyond < own.1.beyond) {
            *own = other;
        }
    }
    if is_any_beyond(&compared) && known.get().is_none() {
        let found = match own {
            Some(own) => sensitivity(handle, operations, graph, inputs, own)?,
            // Where the reference does not compute the graph, the tolerance is all that is allowed.
            None => reference(handle, operations, graph, inputs)
                .and_then(|own| sensitivity(handle, operations, graph, inputs, &own))
                .unwrap_or_default(),
        };
        known.get_or_init(|| found);
    }
    let changes = known.get().map(Vec::as_slice).unwrap_or_default();
    let judged = compared.into_iter().map(|(tensor, comparison)| {
        let change = changes.iter().find(|(uid, _)| *uid == tensor.uid).map_or(0.0, |(_, change)| *change);
        let allowed = OF_CHANGE * limits.factor * change;
        let is_beyond = comparison.beyond > 0;
        let is_wrong = is_beyond && !(comparison.used.is_finite() && comparison.largest <= allowed);
        Judged { tensor, comparison, change: is_beyond.then_some(change), is_wrong }
    });
    Ok(judged.collect())
}
