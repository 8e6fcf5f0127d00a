//! Describes a plan's steps for users: nodes, bytes and operations. The plugin adds how they are computed.

use std::collections::HashSet;

use hipdnn_plugin_sdk::Step;
use hipdnn_plugin_sdk::graph::{Graph, Node, Operation};

use crate::layout::{Layout, storage_size};
use crate::prepare::{Prepared, Readers, prepare};
use crate::problem::batchnorm::Batchnorm;
use crate::problem::block_scale::BlockScale;
use crate::problem::convolution::Convolution;
use crate::problem::normalization::Normalization;
use crate::problem::resample::Resample;
use crate::problem::{Operand, Problem, pointers};

/// The steps of a plan, each with its nodes, the library or other means that computes them, and the function
/// called; none if the graph is invalid.
pub fn described(
    graph: &Graph,
    calls: impl Iterator<Item = (Vec<usize>, &'static str, String)>,
) -> Option<Vec<Step>> {
    let prepared = prepare(graph).ok()?;
    let steps = Steps::new(&prepared);
    let step = |(nodes, algorithm, kernel): (Vec<usize>, &str, String)| Step {
        algorithm: algorithm.to_owned(),
        kernel,
        ..steps.of(&nodes)
    };
    Some(calls.map(step).collect())
}

/// Describes the steps of a plan of one graph.
pub struct Steps<'a> {
    prepared: &'a Prepared,
    readers: Readers,
}

impl<'a> Steps<'a> {
    /// For a prepared graph.
    pub fn new(prepared: &'a Prepared) -> Self {
        Self { prepared, readers: prepared.readers() }
    }

    /// Describes these nodes as one step.
    pub fn of(&self, nodes: &[usize]) -> Step {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        let checked: Vec<_> = nodes.iter().filter_map(|place| self.prepared.node(*place)).collect();
        let names: Vec<String> = checked.iter().map(|node| name(node.node)).collect();
        Step {
            operation: names.join(" + "),
            bytes: self.bytes(&nodes),
            flops: checked.iter().map(|node| flops(node.problem)).sum::<f64>() as u64,
            nodes,
            ..Step::default()
        }
    }

    /// Bytes of the tensors that a step reads from outside or that are needed outside, each counted once.
    fn bytes(&self, nodes: &[usize]) -> u64 {
        let graph = &self.prepared.graph;
        let own = || nodes.iter().filter_map(|place| graph.nodes.get(*place));
        let written: HashSet<i64> = own().flat_map(|node| node.operation.outputs()).collect();
        let stays = |uid: &i64| {
            let readers = self.readers.get(uid);
            written.contains(uid)
                && graph.tensor(*uid).is_some_and(|tensor| tensor.is_virtual)
                && readers.is_some_and(|readers| readers.iter().all(|reader| nodes.contains(reader)))
        };
        let moved: HashSet<i64> =
            own().flat_map(|node| pointers(graph, &node.operation)).filter(|uid| !stays(uid)).collect();
        moved.into_iter().map(|uid| size(graph, uid)).sum()
    }
}

/// Bytes of a tensor's elements, each counted once; 0 for a value in the graph.
fn size(graph: &Graph, uid: i64) -> u64 {
    let Some(tensor) = graph.tensor(uid).filter(|tensor| tensor.value.is_none()) else { return 0 };
    let Ok(layout) = Layout::of(tensor) else { return 0 };
    let sizes = layout.dims().iter().zip(layout.strides()).filter(|(_, stride)| **stride > 0);
    let elements = sizes.map(|(dim, _)| *dim).product();
    storage_size(tensor.data_type, elements).unwrap_or(0) as u64
}

/// The name of a node's operation.
fn name(node: &Node) -> String {
    match &node.operation {
        Operation::Pointwise(pointwise) => pointwise.operation.name().to_ascii_uppercase(),
        // Other libraries default to 1/√d, so a graph that omits the scale is ambiguous.
        Operation::Sdpa(sdpa) if sdpa.scale.is_none() && sdpa.attn_scale_value.is_none() => {
            format!("{} (no scale given: 1)", node.operation.spec().name)
        }
        Operation::SdpaBackward(sdpa) if sdpa.scale.is_none() && sdpa.attn_scale_value.is_none() => {
            format!("{} (no scale given: 1)", node.operation.spec().name)
        }
        operation => operation.spec().name.to_owned(),
    }
}

fn product(numbers: &[usize]) -> f64 {
    numbers.iter().map(|number| *number as f64).product()
}

fn elements(operand: &Operand) -> f64 {
    product(operand.layout.dims())
}

/// Floating-point operations of a node; a multiply-add counts as two, any function as one. Ignores padding,
/// masks and lengths; `docs/cpu-engines.md` has the formulas.
fn flops(problem: &Problem) -> f64 {
    match problem {
        Problem::Convolution(c) => {
            let Convolution { batch, groups, in_channels, out_channels, spatial, .. } = **c;
            let sizes = |sizes: &[usize]| product(sizes.get(..spatial).unwrap_or_default());
            2.0 * product(&[batch, groups, in_channels, out_channels]) * sizes(&c.output) * sizes(&c.window)
        }
        Problem::Matmul(m) => 2.0 * elements(&m.c) * m.k as f64,
        Problem::Attention(a) => {
            let s = &a.shape;
            2.0 * product(&[s.batch, s.heads, s.queries, s.keys, s.depth + s.value_depth])
        }
        Problem::AttentionGradients(a) => {
            let s = &a.shape;
            2.0 * product(&[s.batch, s.heads, s.queries, s.keys, 3 * s.depth + 2 * s.value_depth])
        }
        Problem::Mixture(m) => 2.0 * m.rows as f64 * product(m.weight.dims.get(1..).unwrap_or_default()),
        Problem::MixtureGradient(m) => {
            2.0 * product(&m.token.dims) * m.d_output.dims.last().copied().unwrap_or(0) as f64
        }
        Problem::Batchnorm(b) => match &**b {
            Batchnorm::Inference(b) => 4.0 * elements(&b.x),
            Batchnorm::Training(b) => 8.0 * elements(&b.x),
            Batchnorm::Backward(b) => 11.0 * elements(&b.x),
        },
        Problem::Normalization(Normalization::Forward(n)) => {
            (if n.centered { 8.0 } else { 4.0 }) * elements(&n.x)
        }
        Problem::Normalization(Normalization::Backward(n)) => {
            (if n.centered { 11.0 } else { 8.0 }) * elements(&n.x)
        }
        Problem::Pointwise(p) => elements(&p.output),
        Problem::Reduction(r) => elements(&r.x),
        Problem::Resample(r) => {
            let Resample { window, spatial, .. } = **r;
            elements(&r.y) * product(window.get(..spatial).unwrap_or_default())
        }
        Problem::BlockScale(BlockScale::Quantize(q)) => 2.0 * elements(&q.x),
        Problem::BlockScale(BlockScale::Dequantize(d)) => elements(&d.x),
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise};
    use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, Tensor};

    use super::*;

    /// A convolution, and RELU of its result in half precision.
    fn graph() -> Graph {
        let convolution = ConvolutionForward {
            pre_padding: vec![1, 1],
            post_padding: vec![1, 1],
            ..ConvolutionForward::new(1, 2, 3, 2)
        };
        let tensor = |uid, dims: [i64; 4]| Tensor::packed(uid, DataType::Float, &dims);
        let between = Tensor { is_virtual: true, ..tensor(3, [2, 8, 6, 6]) };
        let half = Tensor { data_type: DataType::Half, ..tensor(4, [2, 8, 6, 6]) };
        Graph {
            tensors: vec![tensor(1, [2, 4, 6, 6]), tensor(2, [8, 4, 3, 3]), between, half],
            nodes: vec![
                Node::single(convolution),
                Node::single(Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4)),
            ],
            ..Graph::default()
        }
    }

    #[test]
    fn an_attention_without_a_scale_says_so() {
        use hipdnn_plugin_sdk::graph::operation::Sdpa;
        let dims = [1, 2, 3, 4];
        let tensors = [1, 2, 3, 4].map(|uid| Tensor::new(uid, DataType::Float, &dims, &[24, 12, 4, 1]));
        let told = |attn_scale_value| {
            let sdpa = Sdpa { attn_scale_value, ..Sdpa::new(1, 2, 3, 4) };
            let node = Node::single(sdpa);
            let graph = Graph { tensors: tensors.to_vec(), nodes: vec![node], ..Graph::default() };
            Steps::new(&prepare(&graph).unwrap()).of(&[0]).operation
        };
        assert_eq!(told(None), "Sdpa (no scale given: 1)");
        assert_eq!(told(Some(0.5)), "Sdpa");
    }

    #[test]
    fn calls_become_steps() {
        let steps = described(&graph(), [(vec![0, 1], "cuDNN", "a call".to_owned())].into_iter()).unwrap();
        let told: Vec<_> =
            steps.iter().map(|step| (step.nodes.len(), &*step.algorithm, &*step.kernel)).collect();
        assert_eq!(told, [(2, "cuDNN", "a call")]);
        assert!(steps[0].bytes > 0 && steps[0].flops > 0);
        assert_eq!(described(&Graph::default(), [].into_iter()), None);
    }

    #[test]
    fn a_step_counts_bytes_and_flops() {
        let graph = graph();
        let prepared = prepare(&graph).unwrap();
        let steps = Steps::new(&prepared);
        let [x, w, between, y] = [2 * 4 * 36 * 4, 8 * 4 * 9 * 4, 2 * 8 * 36 * 4, 2 * 8 * 36 * 2];
        let both = steps.of(&[1, 0]);
        assert_eq!(both.nodes, [0, 1]);
        assert_eq!(both.operation, "ConvolutionForward + RELU_FWD");
        assert_eq!(both.bytes, x + w + y);
        assert_eq!(both.flops, 2 * (2 * 8 * 36) * (4 * 9) + 2 * 8 * 36);
        let alone = [steps.of(&[0]), steps.of(&[1])];
        assert_eq!(alone.each_ref().map(|step| step.bytes), [x + w + between, between + y]);
    }
}
