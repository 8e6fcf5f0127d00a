//! Which tensors of a graph may share memory.

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, Tensor};
use hipdnn_plugin_sdk::wire::Span;
use smallvec::SmallVec;

/// The dimensions that a view stores inline; few tensors have more.
const USUAL_RANK: usize = 8;

/// The most steps of the search from outputs back to inputs. Beyond, everything may share memory.
const MOST_STEPS: usize = 1 << 22;

/// The layout of a tensor's elements, relative to the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    dims: SmallVec<[(i64, i64); USUAL_RANK]>,
    size: usize,
}

impl View {
    /// From sizes with strides, and the bytes of an element.
    #[cfg(test)]
    pub fn new(dims: Vec<(i64, i64)>, size: usize) -> Self {
        Self { dims: dims.into(), size }
    }

    fn of(graph: &Graph, tensor: &Tensor) -> Option<Self> {
        let has_memory = !tensor.is_virtual
            && tensor.value.is_none()
            && !tensor.is_runtime_pass_by_value
            && tensor.ragged_offset_uid.is_none()
            && tensor.dims.len() == tensor.strides.len();
        let type_ = if tensor.data_type == DataType::Unset { graph.io_type } else { tensor.data_type };
        let size = type_.size().filter(|_| has_memory)?;
        let dims = tensor.dims.iter().copied().zip(tensor.strides.iter().copied()).collect();
        Some(Self { dims, size })
    }

    /// The same elements in another layout.
    pub fn with_layout(&self, dims: &[i64], strides: &[i64]) -> Self {
        Self { dims: dims.iter().copied().zip(strides.iter().copied()).collect(), size: self.size }
    }

    /// The sizes and strides in elements.
    pub fn dims(&self) -> impl DoubleEndedIterator<Item = (i64, i64)> + ExactSizeIterator {
        self.dims.iter().copied()
    }

    /// The sizes other than 1 with their strides, each with its index from the last.
    fn long(&self) -> impl Iterator<Item = (usize, (i64, i64))> {
        self.dims().rev().enumerate().filter(|(_, (dim, _))| *dim != 1)
    }

    /// Bytes of an element.
    pub fn size(&self) -> i128 {
        self.size as i128
    }

    /// The byte range of the elements; none if it is empty or overflows.
    pub fn span(&self) -> Option<Span> {
        Span::of(self.size, self.dims())
    }

    /// Whether elements with equal indices are the same bytes. Their types may differ: each is read before it is written.
    pub fn is_same(&self, other: &Self) -> bool {
        self.size == other.size && self.long().eq(other.long())
    }
}

/// Which tensors a graph's operations allow to share memory.
pub struct Sharing {
    /// Sorted by uid.
    tensors: Vec<Known>,
    /// Pairs of a written and a read tensor that may have the same memory.
    in_place: HashSet<(i64, i64)>,
    /// Whether the graph was too large to search.
    is_anything_allowed: bool,
}

/// A tensor that the caller binds.
pub struct Known {
    uid: i64,
    /// Its layout.
    pub view: View,
    /// Whether an operation writes it.
    pub is_written: bool,
    /// Whether an operation reads it.
    pub is_read: bool,
}

impl Sharing {
    /// Analyzes a graph.
    pub fn of(graph: &Graph) -> Self {
        let nodes: Vec<Node<'_>> = graph.nodes.iter().map(|node| Node::of(&node.operation)).collect();
        // Only its engine knows what a custom operation does with its tensors: it may write a part of what it reads.
        let is_custom = |node: &&Node<'_>| matches!(node.operation, Operation::CustomOp(_));
        let custom = nodes.iter().filter(is_custom).flat_map(|node| node.inputs.iter().chain(&node.outputs));
        let custom: HashSet<i64> = custom.copied().collect();
        let written: HashSet<i64> = nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
        let mut last_read = HashMap::new();
        for (place, node) in nodes.iter().enumerate() {
            last_read.extend(node.inputs.iter().map(|uid| (*uid, place)));
        }
        let mut tensors: Vec<Known> = graph
            .tensors
            .iter()
            .filter(|tensor| !custom.contains(&tensor.uid))
            .filter_map(|tensor| {
                let uid = tensor.uid;
                let (is_written, is_read) = (written.contains(&uid), last_read.contains_key(&uid));
                Some(Known { uid, view: View::of(graph, tensor)?, is_written, is_read })
            })
            .collect();
        tensors.sort_by_key(|known| known.uid);
        let mut sharing = Self { tensors, in_place: HashSet::new(), is_anything_allowed: false };
        sharing.look_through(&nodes, &last_read);
        sharing
    }

    fn look_through(&mut self, nodes: &[Node<'_>], last_read: &HashMap<i64, usize>) {
        let mut steps = 0;
        let mut in_place = HashSet::new();
        for (place, node) in nodes.iter().enumerate() {
            let outputs = node.outputs.iter().filter(|uid| self.tensor(**uid).is_some());
            for output in outputs {
                // Whether all paths from a tensor to the output are elementwise.
                let mut ways: HashMap<i64, bool> = HashMap::from([(*output, true)]);
                for (earlier, node) in nodes.iter().enumerate().take(place + 1).rev() {
                    for reached in &node.outputs {
                        let is_output = reached == output;
                        let Some(so_far) =
                            ways.get(reached).copied().filter(|_| is_output == (earlier == place))
                        else {
                            continue;
                        };
                        for input in &node.inputs {
                            let way = ways.entry(*input).or_insert(true);
                            *way &= so_far && goes_by_element(node.operation, *input, *reached);
                        }
                    }
                    steps += node.inputs.len() + node.outputs.len();
                }
                if steps > MOST_STEPS {
                    self.is_anything_allowed = true;
                    return;
                }
                let done_before = |uid: &i64| last_read.get(uid).is_none_or(|last| *last <= place);
                let inputs = self.tensors.iter().filter(|known| known.is_read && !known.is_written);
                let inputs = inputs.map(|known| known.uid).filter(done_before);
                in_place.extend(
                    inputs.filter(|uid| ways.get(uid).copied().unwrap_or(true)).map(|uid| (*output, uid)),
                );
            }
        }
        self.in_place = in_place;
    }

    /// The tensor with this uid, if the caller binds it.
    pub fn tensor(&self, uid: i64) -> Option<&Known> {
        let place = self.tensors.binary_search_by_key(&uid, |known| known.uid).ok()?;
        self.tensors.get(place)
    }

    /// Whether a tensor may be written in place of one that is read, if both have the same layout.
    pub fn may_be_in_place(&self, written: i64, read: i64) -> bool {
        self.is_anything_allowed || self.in_place.contains(&(written, read))
    }
}

/// An operation, and its tensors.
struct Node<'a> {
    operation: &'a Operation,
    inputs: Vec<i64>,
    outputs: Vec<i64>,
}

impl<'a> Node<'a> {
    fn of(operation: &'a Operation) -> Self {
        Self { operation, inputs: operation.inputs(), outputs: operation.outputs() }
    }
}

/// Whether an operation may overwrite an element of `input` with the same element of `output` in every engine: nothing else is
/// computed from that element afterwards.
fn goes_by_element(operation: &Operation, input: i64, output: i64) -> bool {
    let is = |place: Option<i64>, uid: i64| place == Some(uid);
    match operation {
        // Its tensors are not compared at all.
        Operation::CustomOp(_)
        | Operation::Pointwise(_)
        | Operation::Reduction(_)
        | Operation::BatchnormInference(_)
        | Operation::BatchnormInferenceVariance(_)
        | Operation::BlockScaleDequantize(_) => true,
        Operation::Batchnorm(it) => {
            output == it.y && input == it.x
                || is(it.next_running_mean, output) && is(it.prev_running_mean, input)
                || is(it.next_running_variance, output) && is(it.prev_running_variance, input)
        }
        Operation::BatchnormBackward(it) => output == it.dx && (input == it.dy || input == it.x),
        Operation::Layernorm(it) => output == it.y && input == it.x,
        Operation::RmsNorm(it) => output == it.y && input == it.x,
        Operation::Sdpa(it) => output == it.o && input == it.q,
        _ => false,
    }
}
