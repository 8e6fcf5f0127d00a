//! Whether attention of an exported network is computed at once on a GPU.

use hipdnn::graph::operation::Sdpa;
use hipdnn::graph::{DataType, Graph, Operation};

use super::division::is_known;
use crate::library::{Engines, Library};
use crate::lowering::seconds_of_calls;

/// Whether GPU engines compute an attention at once, which is faster than its operations one by one. `is_invariant` says that the batch
/// must not decide it.
pub fn attends(library: &Library, engines: &Engines, graph: &Graph, is_invariant: bool) -> bool {
    // AMD's are taken to be like the measured one of NVIDIA; of Vulkan's nothing is known.
    let is_like_measured = engines.gpu().is_some_and(|gpu| !gpu.is_vulkan());
    is_like_measured && is_faster_at_once(graph, is_invariant) && is_known(library, engines, graph)
}

/// Whether attention is faster at once: always on matrix units, as its scores need no memory; else by an estimate from an H200
/// (benches/results/onnxruntime_gpu_graphs.csv).
fn is_faster_at_once(graph: &Graph, is_invariant: bool) -> bool {
    let [node] = graph.nodes.as_slice() else { return false };
    let Operation::Sdpa(of) = &node.operation else { return false };
    let Some(sizes) = Sizes::of(graph, of, is_invariant) else { return false };
    sizes.is_half || sizes.at_once() < sizes.one_by_one()
}

/// What decides the times of an attention.
struct Sizes {
    is_half: bool,
    /// Sequences times heads.
    matrices: f64,
    queries: f64,
    /// Elements of all scores.
    scores: f64,
    /// Floating-point operations of both products.
    operations: f64,
    /// Seconds of the products' calls, besides those for their operations.
    calls: f64,
}

impl Sizes {
    /// Those of an attention, or of one item of its batch.
    fn of(graph: &Graph, of: &Sdpa, is_of_item: bool) -> Option<Self> {
        let tensor = |uid| graph.tensor(uid);
        let (q, k, v) = (tensor(of.q)?, tensor(of.k)?, tensor(of.v)?);
        let [batch, heads, queries, size] = *q.dims.as_slice() else { return None };
        let batch = if is_of_item { 1 } else { batch };
        let [_, _, keys, value_size] = *v.dims.as_slice() else { return None };
        let is_half = matches!(q.data_type, DataType::Half | DataType::Bfloat16);
        // Scores and their weights are packed; heads that are not are copied, or multiplied in several calls.
        let dims = [q, k, v].map(|of| [&[batch], of.dims.get(1..).unwrap_or(&[])].concat());
        let strides = [q, k, v].map(|of| of.strides.as_slice());
        let [[q, k, v], [of_q, of_k, of_v]] = [dims.each_ref().map(Vec::as_slice), strides];
        let element = if is_half { 2 } else { 4 };
        let scores = (batch * heads * queries * keys) as f64;
        Some(Self {
            is_half,
            matrices: (batch * heads) as f64,
            queries: queries as f64,
            scores,
            operations: 2.0 * scores * (size + value_size) as f64,
            calls: seconds_of_calls([(q, of_q), (k, of_k)], element) + seconds_of_calls([(v, of_v)], element),
        })
    }

    /// Seconds of one kernel without matrix units, whose workgroups compute 64 queries each.
    fn at_once(&self) -> f64 {
        const LEAST: f64 = 25e-6;
        const RATE: f64 = 23e12;
        const FILLING: f64 = 264.0;
        let groups = self.matrices * (self.queries / 64.0).ceil();
        (self.operations / (RATE * (groups / FILLING).min(1.0))).max(LEAST)
    }

    /// Seconds of two products, and of what reads and writes the scores between them.
    fn one_by_one(&self) -> f64 {
        const RATE: f64 = 40e12;
        const SCORE: f64 = 6e-12;
        self.calls + self.operations / RATE + self.scores * SCORE
    }
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::{Node, Tensor};

    use super::*;

    fn of(data_type: DataType, [batch, tokens, heads, size]: [i64; 4], is_packed: bool) -> Graph {
        let dims = [batch, heads, tokens, size];
        let strides = match is_packed {
            true => [heads * tokens * size, tokens * size, size, 1],
            false => [heads * tokens * size, size, heads * size, 1],
        };
        let operation = Sdpa::new(1, 2, 3, 4).into();
        let node = Node { name: String::new(), compute_type: DataType::Float, operation };
        let tensors = (1..5).map(|uid| Tensor::new(uid, data_type, &dims, &strides)).collect();
        Graph { nodes: vec![node], tensors, ..Graph::default() }
    }

    /// As measured on an H200: microseconds at once and one by one.
    #[test]
    fn the_estimate_agrees_with_what_was_measured() {
        let measured = [
            ([1, 128, 12, 64], 25.1, 19.7),
            ([8, 128, 12, 64], 41.0, 98.3),
            ([32, 128, 12, 64], 114.6, 253.2),
            ([1, 512, 12, 64], 77.2, 59.9),
            ([8, 512, 12, 64], 292.2, 498.7),
            ([8, 196, 6, 64], 49.5, 87.1),
            ([4, 1024, 12, 64], 534.9, 728.9),
            ([1, 2048, 8, 128], 714.0, 584.3),
            ([2, 197, 16, 64], 43.3, 53.3),
            ([16, 64, 8, 64], 20.7, 77.0),
        ];
        for (sizes, at_once, one_by_one) in measured {
            let graph = of(DataType::Float, sizes, false);
            assert_eq!(is_faster_at_once(&graph, false), at_once < one_by_one, "{sizes:?}");
            assert!(is_faster_at_once(&of(DataType::Half, sizes, false), false), "{sizes:?}");
        }
    }

    #[test]
    fn where_items_must_not_depend_on_their_batch_one_item_decides() {
        for [tokens, heads, size] in [[128, 12, 64], [2048, 8, 128], [64, 8, 64], [1024, 64, 32]] {
            let of = |batch, is_invariant| {
                is_faster_at_once(&of(DataType::Float, [batch, tokens, heads, size], false), is_invariant)
            };
            for batch in [1, 2, 8, 32] {
                assert_eq!(of(batch, true), of(1, false), "{batch} of {tokens}");
            }
        }
        assert_ne!(
            is_faster_at_once(&of(DataType::Float, [8, 128, 12, 64], false), false),
            is_faster_at_once(&of(DataType::Float, [8, 128, 12, 64], false), true)
        );
    }

    #[test]
    fn heads_are_multiplied_in_one_call_after_copies_of_those_that_are_not_packed() {
        let calls = |is_packed| {
            let graph = of(DataType::Float, [8, 128, 12, 64], is_packed);
            let Operation::Sdpa(operation) = &graph.nodes[0].operation else { unreachable!() };
            Sizes::of(&graph, operation, false).unwrap().calls
        };
        let packed = calls(true);
        assert!((10e-6..15e-6).contains(&packed), "{packed}");
        // Three copies, as the calls for 8 sequences take longer.
        assert!((packed + 15e-6..packed + 25e-6).contains(&calls(false)), "{}", calls(false));
    }
}
