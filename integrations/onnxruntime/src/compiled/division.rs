//! Divides programs into the graphs that engines compute.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::graph::operation::{ConvolutionForward, Pointwise};
use hipdnn::graph::{DataType, Graph, Node, Operation, PointwiseMode};
use hipdnn::{ExecutionPlan, OperationGraph};

use super::Subgraph;
use crate::best::Best;
use crate::failure::Result;
use crate::hash::{Map, Mixer};
use crate::library::{Engines, Library};
use crate::lowering::{Graphs, Place, Program, Stage, Work};

/// The most planning threads.
const MOST_THREADS: usize = 16;

/// Asks engines whether they compute the graphs of a program.
pub fn check(library: &Library, engines: &Engines, graphs: &Graphs) -> Result<()> {
    for stage in &graphs.stages {
        if let Work::Graph { graph, .. } = &stage.work
            && !(engines.gpu().is_some() && is_known(library, engines, graph))
        {
            with_graph(library, graph, |graph| engines.check(graph))?;
        }
    }
    Ok(())
}

/// Whether GPU engines compute a graph, cached for equal graphs.
pub(super) fn is_known(library: &Library, engines: &Engines, graph: &Graph) -> bool {
    let best = Best::of(graph);
    let suits_generated = best == Best::Generated;
    if engines.has_cudnn() && !suits_generated && is_better_apart(graph) {
        return false;
    }
    let needs_library = engines.has_cudnn() && !suits_generated && is_product_with_more(graph);
    let (plain, _) = plain(graph.clone());
    let is_accepted = |graph: &OperationGraph| match needs_library {
        true => engines.accept_by_library(graph, best),
        false => engines.accept(graph, best),
    };
    let ask = || with_graph(library, &plain, |graph| Ok(is_accepted(graph))).unwrap_or(false);
    engines.known(&key(&plain), ask)
}

/// Whether a graph is a convolution with something else that generated kernels compute faster, or sooner: cuDNN divides most such graphs with
/// channels first and then compiles kernels for the parts, half a second each, and as long for images of one pixel, which it does not divide.
fn is_better_apart(graph: &Graph) -> bool {
    let is_narrow_of_pixels = |uid: i64| {
        graph.tensor(uid).is_some_and(|tensor| {
            let has_pixels = tensor.dims.iter().skip(2).any(|size| *size > 1);
            let is_narrow = !matches!(tensor.data_type, DataType::Float | DataType::Double);
            has_pixels && tensor.strides.get(1) == Some(&1) && is_narrow
        })
    };
    let suits_cudnn = |node: &Node| match &node.operation {
        Operation::ConvolutionForward(of) => is_narrow_of_pixels(of.x) && is_narrow_of_pixels(of.y),
        Operation::ConvolutionBackwardData(of) => is_narrow_of_pixels(of.dy) && is_narrow_of_pixels(of.dx),
        _ => true,
    };
    has_with_more(graph, is_convolution) && !graph.nodes.iter().all(suits_cudnn) && !is_one_function(graph)
}

/// Whether cuDNN has a single function for a single-precision convolution with what follows it: a bias and a ReLU without an upper limit. With
/// one, it has only a direct kernel, which is slow (of DeepLabV3's 36.5 ms for 32 images on an H200, the 18 convolutions with ReLU6 take 31.2);
/// in groups it transposes the image once more.
fn is_one_function(graph: &Graph) -> bool {
    let (mut sums, mut has_relu) = (0, false);
    let is_in_it = |node: &Node| match &node.operation {
        Operation::Pointwise(of) => {
            sums += usize::from(of.operation == PointwiseMode::Add);
            has_relu |= is_plain_relu(of);
            of.operation == PointwiseMode::Add || is_plain_relu(of)
        }
        Operation::ConvolutionForward(of) => !has_groups(graph, of),
        _ => true,
    };
    let is_float = graph.tensors.iter().all(|tensor| tensor.data_type == DataType::Float);
    is_float && graph.nodes.iter().all(is_in_it) && sums < 2 && has_relu
}

fn has_groups(graph: &Graph, of: &ConvolutionForward) -> bool {
    let channels = |uid| graph.tensor(uid).and_then(|tensor| tensor.dims.get(1));
    channels(of.x).zip(channels(of.w)).is_some_and(|(all, own)| all != own)
}

/// Whether an operation is max(x, 0).
fn is_plain_relu(of: &Pointwise) -> bool {
    of.operation == PointwiseMode::ReluFwd
        && of.relu_upper_clip.is_none()
        && [of.relu_lower_clip, of.relu_lower_clip_slope]
            .iter()
            .all(|number| number.is_none_or(|it| it == 0.0))
}

/// Whether a graph consists of an operation that multiplies matrices and something else: NVIDIA's libraries multiply about twice as fast
/// as generated kernels, which fuse more.
fn is_product_with_more(graph: &Graph) -> bool {
    has_with_more(graph, |operation| {
        is_convolution(operation) || matches!(operation, Operation::Matmul(_) | Operation::Sdpa(_))
    })
}

fn is_convolution(operation: &Operation) -> bool {
    matches!(operation, Operation::ConvolutionForward(_) | Operation::ConvolutionBackwardData(_))
}

/// Whether a graph has such an operation, and others.
fn has_with_more(graph: &Graph, is_it: impl Fn(&Operation) -> bool) -> bool {
    graph.nodes.len() > 1 && graph.nodes.iter().any(|node| is_it(&node.operation))
}

fn with_graph<R>(
    library: &Library,
    graph: &Graph,
    f: impl FnOnce(&OperationGraph) -> Result<R>,
) -> Result<R> {
    library.with_handle(|handle| f(&OperationGraph::from_graph(handle, graph)?))
}

/// Divides a program into graphs that its engines compute. Asks about equal layers once per session.
pub fn divide(
    library: &Library,
    engines: &Engines,
    program: &Program,
    name: &str,
) -> std::result::Result<Graphs, String> {
    if engines.gpu().is_none() {
        return program.divide(name);
    }
    let accepts = |graph: &Graph| is_known(library, engines, graph);
    // Generated kernels read any layout.
    let packs = |graph: &Graph| engines.has_cudnn() && !matches!(Best::of(graph), Best::Generated);
    program.divide_into_parts(name, &accepts, engines.has_library(), &packs)
}

/// The key of graphs that share a plan.
pub fn key(graph: &Graph) -> String {
    format!("{:?} {:?}", graph.nodes, graph.tensors)
}

/// A number that graphs with other operations or other sizes hardly share.
pub fn digest(graph: &Graph) -> u64 {
    let mut mixer = Mixer::default();
    for node in &graph.nodes {
        discriminant(&node.operation).hash(&mut mixer);
    }
    for tensor in &graph.tensors {
        tensor.uid.hash(&mut mixer);
        tensor.dims.hash(&mut mixer);
        tensor.strides.hash(&mut mixer);
    }
    mixer.finish()
}

/// The graph without names, its tensors renumbered in order of use, and the new number of each.
pub fn plain(graph: Graph) -> (Graph, Map<i64, i64>) {
    let mut plain = graph;
    plain.name.clear();
    let mut places = Map::default();
    places.reserve(plain.tensors.len());
    let mut place = |uid: i64| {
        let next = places.len() as i64 + 1;
        *places.entry(uid).or_insert(next)
    };
    for node in &mut plain.nodes {
        node.name.clear();
        node.operation.for_each_tensor(|uid| *uid = place(*uid));
    }
    for tensor in &mut plain.tensors {
        tensor.uid = place(tensor.uid);
        tensor.name.clear();
    }
    plain.tensors.sort_by_key(|tensor| tensor.uid);
    (plain, places)
}

/// A graph and its bindings as executed if equal layers share a plan: on GPUs, whose plans pack no weights, and of plans that share
/// packed weights.
pub fn as_planned(graph: Graph, bindings: Vec<(i64, Place)>) -> (Graph, Vec<(i64, Place)>) {
    let (graph, numbers) = plain(graph);
    let numbered = bindings.into_iter().filter_map(|(uid, place)| Some((*numbers.get(&uid)?, place)));
    (graph, numbered.collect())
}

/// Makes the plans of all stages of a GPU program, several at a time, since each compiles kernels. Failures are reported when a stage
/// asks for its plan.
pub fn plan_together(subgraph: &Subgraph, stages: &[Stage]) -> Vec<Arc<ExecutionPlan>> {
    let mut wanted = HashMap::new();
    for stage in stages {
        if let Work::Graph { graph, constant_weights, .. } = &stage.work {
            let (graph, _) = plain((**graph).clone());
            wanted.insert(key(&graph), (graph, *constant_weights));
        }
    }
    let (wanted, made) = (Mutex::new(wanted.into_values()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = wanted.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((graph, constant_weights)) = next else { break };
            if let Ok((plan, _)) = subgraph.stage(graph, [constant_weights, false], "") {
                made.lock().unwrap_or_else(PoisonError::into_inner).push(plan);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    made.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::Tensor;

    use super::*;

    #[test]
    fn convolutions_take_along_a_bias_and_a_relu() {
        let pointwise = |mode, b| Pointwise::new(mode, 3, b, 4).into();
        let graph = |more: &[PointwiseMode], (kind, dims): (DataType, [i64; 4]), channels: i64| {
            let conv = ConvolutionForward::new(1, 2, 3, 2);
            let of = |mode: &PointwiseMode| pointwise(*mode, (*mode == PointwiseMode::Add).then_some(5));
            let operations = std::iter::once(conv.into()).chain(more.iter().map(of));
            let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
            let tensors = [1, 3].map(|uid| Tensor::new(uid, kind, &dims, &[64, channels, 8, 1])).to_vec();
            Graph { nodes: operations.map(node).collect(), tensors, ..Graph::default() }
        };
        let [add, relu, swish] = [PointwiseMode::Add, PointwiseMode::ReluFwd, PointwiseMode::SwishFwd];
        let [float, half, double] =
            [DataType::Float, DataType::Half, DataType::Double].map(|kind| (kind, [1, 3, 8, 8]));
        assert!(is_better_apart(&graph(&[add], double, 1)));
        let is_left_alone =
            |more: &[PointwiseMode], of, channels| is_better_apart(&graph(more, of, channels));
        for more in [&[][..], &[add], &[add, relu]] {
            assert_eq!(is_left_alone(more, float, 64), more == [add], "{more:?}");
            assert!(!is_left_alone(more, half, 1), "{more:?}");
            assert_eq!(is_left_alone(more, half, 64), !more.is_empty(), "{more:?}");
            assert_eq!(is_left_alone(more, (DataType::Half, [1, 3, 1, 1]), 1), !more.is_empty(), "{more:?}");
        }
        for more in [&[add, swish][..], &[add, add, relu], &[swish]] {
            assert!(is_left_alone(more, float, 64) && is_left_alone(more, half, 64), "{more:?}");
            assert!(!is_left_alone(more, half, 1), "{more:?}");
        }
    }

    #[test]
    fn a_convolution_in_groups_is_not_one_function() {
        let of = |channels_of_filter: i64| {
            let relu = Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4);
            let nodes = vec![Node::single(ConvolutionForward::new(1, 2, 3, 2)), Node::single(relu)];
            let sizes = [[1, 4, 8, 8], [4, channels_of_filter, 1, 1], [1, 4, 8, 8], [1, 4, 8, 8]];
            let tensors =
                sizes.iter().zip(1..).map(|(dims, uid)| Tensor::packed(uid, DataType::Float, dims)).collect();
            is_one_function(&Graph { nodes, tensors, ..Graph::default() })
        };
        assert!(of(4));
        assert!(!of(2));
    }

    #[test]
    fn a_relu_with_limits_is_not_one_function() {
        let add = Pointwise::new(PointwiseMode::Add, 1, Some(2), 3);
        let of = |change: fn(&mut Pointwise)| {
            let mut relu = Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4);
            change(&mut relu);
            let nodes = [add.clone(), relu].map(Node::single).to_vec();
            let tensors = vec![Tensor::new(4, DataType::Float, &[1, 3, 8, 8], &[192, 64, 8, 1])];
            is_one_function(&Graph { nodes, tensors, ..Graph::default() })
        };
        assert!(of(|_| ()));
        assert!(of(|relu| relu.relu_lower_clip = Some(0.0)));
        assert!(!of(|relu| (relu.relu_lower_clip, relu.relu_upper_clip) = (Some(0.0), Some(6.0))));
        assert!(!of(|relu| relu.relu_lower_clip = Some(-1.0)));
        assert!(!of(|relu| relu.relu_lower_clip_slope = Some(0.1)));
    }

    #[test]
    fn layers_are_alike_whatever_their_names_and_numbers_are() {
        let layer = |name: &str, [x, y]: [i64; 2], mode| {
            let operation = Pointwise::new(mode, x, None, y).into();
            let tensor = |uid| Tensor::new(uid, DataType::Float, &[2, 3], &[3, 1]);
            let node = Node { name: name.to_owned(), compute_type: DataType::Float, operation };
            let graph = Graph { nodes: vec![node], tensors: vec![tensor(y), tensor(x)], ..Graph::default() };
            as_planned(graph, vec![(y, Place::Output(0, 0)), (x, Place::Input(0, 0))])
        };
        let first = layer("a", [7, 4], PointwiseMode::Neg);
        assert_eq!(first.1, [(2, Place::Output(0, 0)), (1, Place::Input(0, 0))]);
        assert_eq!(first, layer("b", [1, 9], PointwiseMode::Neg));
        assert_ne!(first, layer("a", [7, 4], PointwiseMode::Abs));
    }
}
