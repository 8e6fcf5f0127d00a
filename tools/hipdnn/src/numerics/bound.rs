//! A bound of the error of sums and products that is known before they are computed.
//!
//! The error of the sum is that of [`Roundings`], by which results are also checked. The store to the result's type adds its own
//! half step.

use super::measure::norm;
use crate::data_type::DataType;
use crate::double::mode;
use crate::graph::{Graph, Node, Tensor};
use crate::rounding::{Roundings, accumulator, normal, terms};
use crate::steps::Numerics;
use crate::tensor::{Array, largest, steps};

/// Whether a node sums or multiplies, so that its error has a bound, and whether its terms may cancel.
pub fn bounded(node: &Node) -> Option<bool> {
    match node.operation.as_str() {
        "ConvolutionFwd" | "ConvolutionBwd" | "ConvolutionWrw" | "Matmul" | "MoeGroupedMatmul" => Some(true),
        "Pointwise" => match mode(node) {
            "add" | "sub" => Some(true),
            "mul" => Some(false),
            _ => None,
        },
        "Reduction" => matches!(reduction(node).as_str(), "add" | "avg").then_some(true),
        _ => None,
    }
    .filter(|_| node.compute_type != DataType::Int32 && node.compute_type != DataType::Boolean)
}

/// The mode of a reduction.
fn reduction(node: &Node) -> String {
    node.parameter("mode").and_then(|mode| mode.as_str()).unwrap_or_default().to_lowercase()
}

/// A bound of the relative error, in the norm, of a tensor that a node writes. `sizes` are the sums of its terms' magnitudes.
/// `notes` are what the node's plan does to numbers; where it flushes operands, `lost` are the magnitudes that terms lose by that.
pub fn bound(
    graph: &Graph,
    node: &Node,
    tensor: &Tensor,
    (sizes, exact): (&Array, &Array),
    (notes, lost): (Option<&Numerics>, Option<&Array>),
) -> f64 {
    let roundings = Roundings::of(graph, node, notes);
    let (own, gamma) = (roundings.unit, roundings.certain());
    // Where a sum may be beyond its type, there is no bound.
    let ends = largest(accumulator(node)).min(largest(tensor.data_type));
    let mut reaches = exact.values.iter().zip(&sizes.values).map(|(sum, size)| sum.abs() + gamma * size);
    if reaches.any(|reach| reach > ends) || sizes.values.iter().any(|size| *size > largest(accumulator(node)))
    {
        return f64::INFINITY;
    }
    let (store, smallest) = steps(tensor.data_type);
    // The last rounding of the sum is that of the store, unless its type is narrower.
    let store = if store > own { store } else { 0.0 };
    let values = |array: &Array| norm(array.values.iter().copied());
    let (sum, inside) = (values(exact), gamma * values(sizes));
    let underflow = smallest / 2.0 * (exact.values.len() as f64).sqrt();
    let flushed = match notes.is_some_and(Numerics::flushes) {
        true => {
            let normal = normal(accumulator(node)).max(normal(tensor.data_type));
            let inside = terms(graph, node) * normal * (exact.values.len() as f64).sqrt();
            inside + lost.map_or(0.0, values)
        }
        false => 0.0,
    };
    let all = inside + store * (sum + inside) + underflow + flushed;
    match (sum > 0.0, inside > 0.0) {
        (true, _) => all / sum,
        // The terms may be of any size beside a sum of 0.
        (_, true) => f64::INFINITY,
        // No term, or zeros only.
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::testing::{graph, pointwise, tensor};

    fn array(values: &[f64]) -> Array {
        Array { dims: vec![values.len()], values: values.to_vec() }
    }

    #[test]
    fn cancellation_and_a_narrow_store_widen_it() {
        let of = |kind: &str| {
            let mut tensors: Vec<_> = (1..=3).map(|uid| tensor(uid, "", &[2], false)).collect();
            tensors[2]["data_type"] = json!(kind);
            let graph = graph("g", tensors, vec![pointwise("", "sub", 1, Some(2), 3)]);
            let sums = (&array(&[30.0, 40.0]), &array(&[3.0, 4.0]));
            bound(&graph, &graph.nodes[0], graph.tensor(3).unwrap(), sums, (None, None))
        };
        let (u, half) = ((-24_f64).exp2(), (-11_f64).exp2());
        let single = 10.0 * u / (1.0 - u);
        assert!((of("float") / single - 1.0).abs() < 1e-9);
        assert!((of("half") / (half + single) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_sum_that_may_overflow_has_none() {
        let mut tensors: Vec<_> = (1..=3).map(|uid| tensor(uid, "", &[1], false)).collect();
        tensors[2]["data_type"] = json!("half");
        let graph = graph("g", tensors, vec![pointwise("", "add", 1, Some(2), 3)]);
        let of = |sum: f64| {
            let sums = (&array(&[65504.0]), &array(&[sum]));
            bound(&graph, &graph.nodes[0], graph.tensor(3).unwrap(), sums, (None, None))
        };
        assert!(of(65000.0) < 1e-3 && of(65504.0).is_infinite());
    }

    #[test]
    fn flushed_subnormals_count() {
        let tensors = (1..=3).map(|uid| tensor(uid, "", &[1], false)).collect();
        let graph = graph("g", tensors, vec![pointwise("", "add", 1, Some(2), 3)]);
        let flushing = Numerics { notes: vec!["FLUSH_SUBNORMALS".to_owned()], ..Numerics::default() };
        let of = |sums: &[f64], notes: Option<&Numerics>, lost: Option<&[f64]>| {
            let (sums, lost) = (array(sums), lost.map(array));
            bound(&graph, &graph.nodes[0], graph.tensor(3).unwrap(), (&sums, &sums), (notes, lost.as_ref()))
        };
        let flushing = Some(&flushing);
        assert!(of(&[1e-38], None, None) < 1e-6 && of(&[1.0], flushing, None) < 1e-6);
        assert!(of(&[1e-39], flushing, Some(&[1e-39])) >= 1.0 && of(&[1e-38], flushing, None) >= 1.0);
        // What one element loses does not count for the others.
        assert!(of(&[1.0, 1e-39], flushing, Some(&[0.0, 1e-39])) < 1e-6);
        assert!(of(&[1.0, 1.0], flushing, Some(&[0.0, 0.5])) > 0.35);
    }

    #[test]
    fn stores_in_a_narrower_type_flush_as_it_does() {
        let mut tensors: Vec<_> = (1..=3).map(|uid| tensor(uid, "", &[1], false)).collect();
        tensors.iter_mut().take(2).for_each(|tensor| tensor["data_type"] = json!("double"));
        let mut node = pointwise("", "add", 1, Some(2), 3);
        node["compute_data_type"] = json!("double");
        let graph = graph("g", tensors, vec![node]);
        let flushing = Numerics { notes: vec!["FLUSH_SUBNORMALS".to_owned()], ..Numerics::default() };
        let sums = (&array(&[1e-39]), &array(&[1e-39]));
        let of = bound(&graph, &graph.nodes[0], graph.tensor(3).unwrap(), sums, (Some(&flushing), None));
        assert!(of >= 1.0, "{of}");
    }

    #[test]
    fn zeros_alone_are_summed_without_an_error() {
        let tensors = (1..=3).map(|uid| tensor(uid, "", &[2], false)).collect();
        let graph = graph("g", tensors, vec![pointwise("", "add", 1, Some(2), 3)]);
        let of = |sizes: &[f64]| {
            let sums = (&array(sizes), &array(&[0.0, 0.0]));
            bound(&graph, &graph.nodes[0], graph.tensor(3).unwrap(), sums, (None, None))
        };
        assert_eq!((of(&[0.0, 0.0]), of(&[0.0, 2.0])), (0.0, f64::INFINITY));
    }

    #[test]
    fn what_neither_sums_nor_multiplies_has_none() {
        let of = |mode: &str| {
            let tensors = (1..=3).map(|uid| tensor(uid, "", &[2], false)).collect();
            bounded(&graph("g", tensors, vec![pointwise("", mode, 1, Some(2), 3)]).nodes[0])
        };
        assert_eq!([of("add"), of("mul"), of("div")], [Some(true), Some(false), None]);
    }
}
