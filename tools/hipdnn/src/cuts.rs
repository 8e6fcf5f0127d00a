//! What matrix instructions cut of sums whose terms do not cancel.
//!
//! An instruction cuts each term below the last bit that it keeps of the sum so far, always towards 0. Of terms with both signs that
//! mostly cancels. Terms of one sign lose less than a step each; the sum so far grows evenly, so that a step is half of that of the
//! result on average: n terms lose up to n u / 2 of the result, u = 2^(1 - bits). Of other terms that is the share that does not cancel,
//! estimated by the balance |Σx| / Σ|x| of both operands.

use std::collections::HashSet;

use crate::computation::Arrays;
use crate::graph::{Graph, Tensor};
use crate::rounding::{Limits, is_product, terms};

/// What may be cut of a tensor's elements beside their tolerance, over the largest.
pub fn of(limits: Limits<'_>, graph: &Graph, tensor: &Tensor, inputs: &Arrays) -> f64 {
    let (mut seen, mut open, mut cut) = (HashSet::new(), vec![tensor.uid], 0.0);
    while let Some(uid) = open.pop() {
        let writes = |place: &usize| {
            graph.nodes.get(*place).is_some_and(|node| node.outputs.iter().any(|port| port.uid == uid))
        };
        let Some(place) = (0..graph.nodes.len()).find(writes).filter(|place| seen.insert(*place)) else {
            continue;
        };
        let Some(node) = graph.nodes.get(place) else { continue };
        open.extend(node.inputs.iter().map(|port| port.uid));
        let sums = limits.notes(place).and_then(|notes| notes.matrix_sums).filter(|_| is_product(node));
        if let (Some(sums), [left, right, ..]) = (sums, node.inputs.as_slice()) {
            let unit = (1.0 - f64::from(sums.bits.clamp(8, 53))).exp2();
            cut += balance(inputs, left.uid) * balance(inputs, right.uid) * terms(graph, node) * unit / 2.0;
        }
    }
    cut * limits.factor
}

/// |Σx| / Σ|x| of a tensor that is given; 0 of others, whose signs are not known.
fn balance(inputs: &Arrays, uid: i64) -> f64 {
    let Some((_, array)) = inputs.iter().find(|(other, _)| *other == uid) else { return 0.0 };
    let finite = || array.values.iter().filter(|value| value.is_finite());
    let magnitudes: f64 = finite().map(|value| value.abs()).sum();
    if magnitudes > 0.0 { finite().sum::<f64>().abs() / magnitudes } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::testing::{graph, tensor};
    use crate::steps::Step;
    use crate::tensor::Array;

    const TERMS: usize = 32;
    const BITS: i32 = 14;

    /// A sum by instructions that keep 14 bits of the largest of 32 products and the sum before.
    fn by_instructions(products: &[f64]) -> f64 {
        products.chunks(TERMS).fold(0.0, |sum: f64, products| {
            let all = || products.iter().chain([&sum]);
            let largest = all().fold(0.0_f64, |largest, term| largest.max(term.abs()));
            let step = (largest.log2().floor() + f64::from(1 - BITS)).exp2();
            let sum: f64 = all().map(|term| (term / step).trunc() * step).sum();
            let step = (sum.abs().log2().floor() + f64::from(1 - BITS)).exp2();
            (sum / step).trunc() * step
        })
    }

    /// The relative error of a sum of n products, its tolerance, and what is allowed for cuts.
    fn measured(count: usize, sign: impl Fn(usize) -> f64) -> [f64; 3] {
        let of_8_bits = |place: usize| (8 + place * 37 % 101 % 8) as f64 / 8.0;
        let a: Vec<f64> = (0..count).map(|place| sign(place) * of_8_bits(place)).collect();
        let b: Vec<f64> = (0..count).map(|place| of_8_bits(place + 50)).collect();
        let products: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
        let exact: f64 = products.iter().sum();
        let dims = count as i64;
        let mut tensors = vec![tensor(1, "a", &[1, dims], false), tensor(2, "b", &[dims, 1], false)];
        tensors.iter_mut().for_each(|tensor| tensor["data_type"] = "fp8_e4m3".into());
        tensors.push(tensor(4, "c", &[1, 1], false));
        let node = json!({"type": "MatmulAttributes", "name": "", "compute_data_type": "float",
            "inputs": {"a_tensor_uid": 1, "b_tensor_uid": 2}, "outputs": {"c_tensor_uid": 4}});
        let graph = graph("g", tensors, vec![node]);
        let sums = json!({"notes": ["TENSOR_CORE"], "matrix_sums": {"terms": TERMS, "bits": BITS}});
        let steps: Vec<Step> = vec![serde_json::from_value(json!({"nodes": [0], "numerics": sums})).unwrap()];
        let limits = Limits { steps: Some(&steps), factor: 1.0 };
        let c = graph.tensor(4).unwrap();
        let array = |dims: [usize; 2], values| Array { dims: dims.to_vec(), values };
        let inputs = vec![(1, array([1, count], a)), (2, array([count, 1], b))];
        let error = (by_instructions(&products) - exact).abs() / exact.abs();
        [error, limits.of(&graph, c).of_largest, of(limits, &graph, c, &inputs)]
    }

    #[test]
    fn sums_of_one_sign_lose_what_is_cut_of_each_term() {
        let mut is_ever_beyond = false;
        for count in [64, 512, 1024, 4096, 8192] {
            let [error, tolerance, cuts] = measured(count, |_| 1.0);
            assert!(error <= tolerance + cuts, "{count}: {error}, {tolerance} and {cuts}");
            is_ever_beyond |= error > tolerance;
            // A part of 1 / 8 of short sums that is missing is found.
            assert!(count > 1024 || tolerance + cuts < 0.125, "{count}: {tolerance} and {cuts}");
        }
        assert!(is_ever_beyond);
    }

    #[test]
    fn terms_that_cancel_are_allowed_no_more() {
        let [_, tolerance, cuts] = measured(4096, |place| if place.is_multiple_of(2) { 1.0 } else { -0.99 });
        assert!(cuts < tolerance / 10.0, "{cuts}, {tolerance}");
    }
}
