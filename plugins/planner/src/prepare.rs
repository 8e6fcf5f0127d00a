//! Resolves a graph into one that can be computed: types filled in, every node checked.

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor, TensorValue};

use crate::Refusal;
use crate::layout::Layout;
use crate::problem::{Problem, may_be_ragged, named_tensors, ragged_tensors};

/// Maximum number of nodes of a graph. Planning time is quadratic in it.
const MAX_NODES: usize = 10_000;

/// A consistent graph, with a problem for each node.
///
/// All nodes and used tensors have a type, tensors with a value are not virtual, unused tensors are removed,
/// and nodes are ordered so that a tensor is written once, before it is read. Shapes agree, extents do not
/// overflow, and no output has two indices for one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The graph.
    pub graph: Graph,
    /// The problem of each node, in the same order.
    pub problems: Vec<Problem>,
    /// Tensors that a node writes, no node reads, and which are not marked as outputs.
    ///
    /// Programs that leave a result virtual, as frontends do with unmarked results, still bind it. This is
    /// known only at execution: such a tensor may or may not have a buffer, and no step may fuse it away. It
    /// is not virtual in the graph.
    pub unmarked: HashSet<i64>,
}

/// A node of a prepared graph, with its problem.
#[derive(Clone, Copy, Debug)]
pub struct CheckedNode<'a> {
    /// Its index in the graph.
    pub place: usize,
    /// The node.
    pub node: &'a Node,
    /// Its problem.
    pub problem: &'a Problem,
}

impl CheckedNode<'_> {
    /// Adds this node to a refusal.
    pub fn refusal(&self, refusal: Refusal) -> Refusal {
        in_node(self.place, self.node, refusal)
    }
}

impl Prepared {
    /// The nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = CheckedNode<'_>> {
        let nodes = self.graph.nodes.iter().zip(&self.problems).enumerate();
        nodes.map(|(place, (node, problem))| CheckedNode { place, node, problem })
    }

    /// The node at an index.
    pub fn node(&self, place: usize) -> Option<CheckedNode<'_>> {
        Some(CheckedNode { place, node: self.graph.nodes.get(place)?, problem: self.problems.get(place)? })
    }

    /// Adds the node at an index to a refusal.
    pub fn refusal(&self, place: usize, refusal: Refusal) -> Refusal {
        match self.graph.nodes.get(place) {
            Some(node) => in_node(place, node, refusal),
            None => refusal,
        }
    }

    /// The nodes that read each tensor, in order. A node that reads a tensor twice is listed twice.
    pub fn readers(&self) -> Readers {
        let mut readers = Readers::new();
        for (place, node) in self.graph.nodes.iter().enumerate() {
            for uid in node.operation.inputs() {
                readers.entry(uid).or_default().push(place);
            }
        }
        readers
    }

    /// Rebuilds the problems after types of the graph were changed.
    ///
    /// # Errors
    /// The first node that is no longer valid.
    pub fn update_problems(&mut self) -> Result<(), Refusal> {
        for (place, (node, problem)) in self.graph.nodes.iter().zip(&mut self.problems).enumerate() {
            *problem =
                Problem::of(&self.graph, &node.operation).map_err(|refusal| in_node(place, node, refusal))?;
        }
        Ok(())
    }
}

/// The nodes that read each tensor of a graph.
pub type Readers = HashMap<i64, Vec<usize>>;

/// Resolves a graph and checks that it is consistent.
///
/// # Errors
/// The node, the argument, its value and what was expected.
pub fn prepare(graph: &Graph) -> Result<Prepared, Refusal> {
    if graph.nodes.is_empty() {
        return Err("the graph has no nodes, expected at least one".to_owned());
    }
    if graph.nodes.len() > MAX_NODES {
        return Err(format!("the graph has {} nodes, expected at most {MAX_NODES}", graph.nodes.len()));
    }
    let index = index(graph)?;
    let mut graph = graph.clone();
    fill_types(&mut graph, index.contains_key(&0));
    keep_used(&mut graph);
    let tensors: HashMap<i64, &Tensor> = graph.tensors.iter().map(|tensor| (tensor.uid, tensor)).collect();
    let mut written = HashMap::new();
    for (place, node) in graph.nodes.iter().enumerate() {
        for uid in node.operation.outputs() {
            if let Some(earlier) = written.insert(uid, place) {
                return Err(in_node(
                    place,
                    node,
                    format!("writes tensor {uid}, which node {earlier} writes already"),
                ));
            }
        }
    }
    let mut problems = Vec::with_capacity(graph.nodes.len());
    for (place, node) in graph.nodes.iter().enumerate() {
        let problem = check_tensors(&graph, &tensors, &written, place, node)
            .and_then(|()| Problem::of(&graph, &node.operation));
        problems.push(problem.map_err(|refusal| in_node(place, node, refusal))?);
    }
    let unmarked = mark_outputs(&mut graph);
    Ok(Prepared { graph, problems, unmarked })
}

/// Makes virtual tensors outputs if a node writes them and none reads them, and returns their uids.
fn mark_outputs(graph: &mut Graph) -> HashSet<i64> {
    let read: HashSet<i64> = graph.nodes.iter().flat_map(|node| node.operation.inputs()).collect();
    let mut unmarked = HashSet::new();
    for tensor in &mut graph.tensors {
        if tensor.is_virtual && !read.contains(&tensor.uid) {
            tensor.is_virtual = false;
            unmarked.insert(tensor.uid);
        }
    }
    unmarked
}

/// Adds the node to a refusal.
pub fn in_node(place: usize, node: &Node, refusal: Refusal) -> Refusal {
    format!("node {place} \"{}\" ({}): {refusal}", node.name, node.operation.spec().name)
}

fn fill_types(graph: &mut Graph, has_uid_0: bool) {
    for tensor in &mut graph.tensors {
        if tensor.value.is_some() {
            tensor.is_virtual = false;
        }
        if tensor.data_type == DataType::Unset {
            // A value has its own type; the default type for tensors could truncate it.
            tensor.data_type = match &tensor.value {
                Some(value) => value_type(value),
                None if tensor.is_virtual => graph.intermediate_type,
                None => graph.io_type,
            };
        }
        // The wire format stores any single byte as an 8-bit float; the tensor's type decides what it is.
        tensor.value = match (tensor.value, tensor.data_type) {
            (Some(TensorValue::Float8(byte)), DataType::Int8) => {
                Some(TensorValue::Int32(byte.cast_signed().into()))
            }
            (Some(TensorValue::Float8(byte)), DataType::Uint8) => Some(TensorValue::Int32(byte.into())),
            (value, _) => value,
        };
    }
    for node in &mut graph.nodes {
        if node.compute_type == DataType::Unset {
            node.compute_type = match graph.compute_type {
                DataType::Unset => DataType::Float,
                given => given,
            };
        }
        // Older writers use the uid 0 for "no second operand".
        if let Operation::Pointwise(pointwise) = &mut node.operation
            && pointwise.operation.operands() < 2
            && pointwise.in_1 == Some(0)
            && !has_uid_0
        {
            pointwise.in_1 = None;
        }
    }
}

/// Removes tensors that no node uses, so that lookups stay fast.
fn keep_used(graph: &mut Graph) {
    let mut used: HashSet<i64> = graph.nodes.iter().flat_map(|node| node.operation.tensors()).collect();
    let offsets: Vec<i64> = graph
        .tensors
        .iter()
        .filter(|tensor| used.contains(&tensor.uid))
        .filter_map(|tensor| tensor.ragged_offset_uid)
        .collect();
    used.extend(offsets);
    graph.tensors.retain(|tensor| used.contains(&tensor.uid));
}

fn value_type(value: &TensorValue) -> DataType {
    match value {
        TensorValue::Float32(_) => DataType::Float,
        TensorValue::Float16(_) => DataType::Half,
        TensorValue::BFloat16(_) => DataType::Bfloat16,
        TensorValue::Float8(_) => DataType::Fp8E4m3,
        TensorValue::Int32(_) => DataType::Int32,
        TensorValue::Float64(_) => DataType::Double,
        TensorValue::Int64(_) => DataType::Int64,
        TensorValue::Bool(_) => DataType::Boolean,
    }
}

fn index(graph: &Graph) -> Result<HashMap<i64, &Tensor>, Refusal> {
    let mut tensors = HashMap::with_capacity(graph.tensors.len());
    for tensor in &graph.tensors {
        if tensors.insert(tensor.uid, tensor).is_some() {
            return Err(format!("two tensors have the uid {}, expected each uid once", tensor.uid));
        }
    }
    Ok(tensors)
}

fn check_tensors(
    graph: &Graph,
    tensors: &HashMap<i64, &Tensor>,
    written: &HashMap<i64, usize>,
    place: usize,
    node: &Node,
) -> Result<(), Refusal> {
    let outputs = node.operation.outputs();
    for (argument, uid) in named_tensors(&node.operation) {
        let Some(tensor) = tensors.get(&uid) else {
            return Err(format!("{argument}: no tensor of the graph has the uid {uid}"));
        };
        let refuse = |text: String| Err(format!("{argument}: tensor {uid} \"{}\": {text}", tensor.name));
        if tensor.data_type == DataType::Unset {
            let of_graph = if tensor.is_virtual { "intermediate" } else { "io" };
            return refuse(format!("data type is unset and so is the graph's {of_graph} type"));
        }
        if tensor.ragged_offset_uid.is_some() && !may_be_ragged(&node.operation) {
            return refuse("has ragged offsets, expected a dense tensor".to_owned());
        }
        let layout = match Layout::of(tensor) {
            Ok(layout) => layout,
            Err(refusal) => return refuse(refusal),
        };
        if let Some(value) = &tensor.value {
            if layout.elements() != 1 {
                return refuse(format!("has a value and dims {:?}, expected a single element", tensor.dims));
            }
            if matches!(value, TensorValue::Float8(_)) {
                return refuse("has an 8-bit float as its value, expected a wider type".to_owned());
            }
        }
        let written_by = written.get(&uid).copied();
        if outputs.contains(&uid) {
            if tensor.value.is_some() || tensor.is_runtime_pass_by_value {
                return refuse("is written and passed by value, expected memory to write to".to_owned());
            }
            if !layout.is_injective() {
                return refuse(format!(
                    "dims {:?} with strides {:?} give some elements the same place, expected an output without overlap",
                    tensor.dims, tensor.strides
                ));
            }
        }
        let read = node.operation.inputs().contains(&uid);
        match written_by {
            Some(writer) if read && writer >= place => {
                let writer_name = graph.nodes.get(writer).map_or("", |node| node.name.as_str());
                return refuse(format!(
                    "is read here and written by node {writer} \"{writer_name}\", expected an earlier one"
                ));
            }
            None if tensor.is_virtual => return refuse("is virtual and no node writes it".to_owned()),
            _ => {}
        }
    }
    for (argument, uid, offsets) in ragged_tensors(graph, &node.operation) {
        let refuse = |text: &str| {
            Err(format!("{argument}: tensor {uid} has its offsets in tensor {offsets}, which {text}"))
        };
        match tensors.get(&offsets) {
            None => return refuse("is not in the graph"),
            Some(tensor) if tensor.value.is_some() => return refuse("has a value, expected memory"),
            // A virtual tensor lives until the last node that names it, but no node names offsets.
            Some(_) if written.contains_key(&offsets) => {
                return refuse("a node writes, expected one that is bound");
            }
            Some(tensor) if tensor.is_virtual => return refuse("is virtual, expected one that is bound"),
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
