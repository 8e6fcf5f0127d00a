//! Translates a graph to the objects of cuDNN's graph API, as plain data, so that the result can be inspected
//! and compared without cuDNN.
//!
//! [`lower`] translates some nodes to one operation graph; each kind of operation has a module that defines
//! its objects. Tensors are given the shapes that cuDNN requires: see [`view`].

mod attention;
mod batchnorm;
mod block_scale;
mod columns;
mod convolution;
mod dropout;
mod gradient;
mod matmul;
mod normalization;
mod pointwise;
mod reduction;
mod resample;
mod sequences;
pub mod shape;
pub mod view;

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::ops::Range;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_planner::prepare::{CheckedNode, Prepared};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, TensorValue};

use crate::names::{
    DATA_BFLOAT16, DATA_BOOLEAN, DATA_DOUBLE, DATA_FLOAT, DATA_FP8_E4M3, DATA_FP8_E5M2, DATA_FP8_E8M0,
    DATA_HALF, DATA_INT8, DATA_INT32, DATA_INT64, DATA_UINT8, TYPE_DATA_TYPE,
};
use shape::{Shape, packed};
use view::View;

/// The index of a tensor in a [`Lowered`] graph.
pub type TensorPlace = usize;

/// An object other than a tensor, with its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// cuDNN's kind of descriptor.
    pub kind: c_int,
    /// The attributes in the order in which they are set.
    pub attributes: Vec<(c_int, Value)>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A tensor.
    Tensor(TensorPlace),
    /// 64-bit integers.
    Integers(Vec<i64>),
    /// 32-bit integers.
    Counts(Vec<i32>),
    /// An enumeration value, with cuDNN's attribute type.
    Number(c_int, c_int),
    /// The bits of a double.
    Double(u64),
    /// The bits of a float.
    Float(u32),
    /// Another object.
    Descriptor(Box<Descriptor>),
}

/// Where a tensor's elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Nowhere: they exist only inside cuDNN's kernels.
    Virtual,
    /// In device memory passed at execution, at this index of [`Lowered::uids`].
    Given(usize),
    /// In host memory passed at execution.
    Host(usize),
    /// A constant, as its bytes.
    Constant([u8; 8]),
    /// At this offset in scratch memory of these operations.
    Scratch(usize),
}

/// A tensor in cuDNN's view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// cuDNN's number of the type.
    pub data_type: c_int,
    /// Sizes and strides.
    pub shape: Shape,
    /// The guaranteed alignment in bytes.
    pub alignment: i64,
    /// Where its elements are stored.
    pub place: Place,
    /// The index of the offsets tensor of a ragged tensor, which precedes it.
    pub offsets: Option<TensorPlace>,
}

/// Everything that determines cuDNN's plan. The tensors of two such graphs may have different uids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Described {
    /// The tensors; cuDNN's uid of each is its index plus one.
    pub tensors: Vec<Tensor>,
    /// The operations in order.
    pub operations: Vec<Descriptor>,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// Contents that parts of it are filled with before an execution: offsets and bytes.
    pub fills: Vec<(usize, Vec<u8>)>,
    /// Whether a matmul or convolution has single-precision operands.
    pub may_use_tf32: bool,
    /// Whether a matmul has such operands. cuDNN rounds them to TF32 without a note about it.
    pub rounds_to_tf32: bool,
    /// Whether a matmul or convolution has operands of 16 bits. cuDNN may keep parts of their sums in as many, without a note.
    pub multiplies_halves: bool,
}

/// A graph in cuDNN's terms.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The description for cuDNN.
    pub described: Described,
    /// The uids of the tensors passed at execution.
    pub uids: Vec<i64>,
}

impl Descriptor {
    fn new(kind: c_int) -> Self {
        Self { kind, attributes: Vec::new() }
    }

    fn with(mut self, attribute: c_int, value: Value) -> Self {
        self.attributes.push((attribute, value));
        self
    }

    fn tensor(self, attribute: c_int, tensor: TensorPlace) -> Self {
        self.with(attribute, Value::Tensor(tensor))
    }

    fn optional(self, attribute: c_int, tensor: Option<TensorPlace>) -> Self {
        match tensor {
            Some(tensor) => self.tensor(attribute, tensor),
            None => self,
        }
    }

    fn integers(self, attribute: c_int, values: &[i64]) -> Self {
        self.with(attribute, Value::Integers(values.to_vec()))
    }

    fn counts(self, attribute: c_int, values: &[i32]) -> Self {
        self.with(attribute, Value::Counts(values.to_vec()))
    }

    fn number(self, attribute: c_int, kind: c_int, value: c_int) -> Self {
        self.with(attribute, Value::Number(kind, value))
    }

    fn double(self, attribute: c_int, value: f64) -> Self {
        self.with(attribute, Value::Double(value.to_bits()))
    }

    /// A factor, in the operation's compute precision.
    fn factor(self, attribute: c_int, value: f32, compute_type: c_int) -> Self {
        if compute_type == DATA_DOUBLE {
            self.double(attribute, f64::from(value))
        } else {
            self.with(attribute, Value::Float(value.to_bits()))
        }
    }

    fn compute_type(self, attribute: c_int, data_type: c_int) -> Self {
        self.number(attribute, TYPE_DATA_TYPE, data_type)
    }

    fn descriptor(self, attribute: c_int, descriptor: Self) -> Self {
        self.with(attribute, Value::Descriptor(Box::new(descriptor)))
    }
}

/// cuDNN's number of a data type.
fn data_type(data_type: DataType) -> Result<c_int, Refusal> {
    Ok(match data_type {
        DataType::Float => DATA_FLOAT,
        DataType::Double => DATA_DOUBLE,
        DataType::Half => DATA_HALF,
        DataType::Bfloat16 => DATA_BFLOAT16,
        DataType::Int8 => DATA_INT8,
        DataType::Uint8 => DATA_UINT8,
        DataType::Int32 => DATA_INT32,
        DataType::Int64 => DATA_INT64,
        DataType::Boolean => DATA_BOOLEAN,
        DataType::Fp8E4m3 => DATA_FP8_E4M3,
        DataType::Fp8E5m2 => DATA_FP8_E5M2,
        DataType::Fp8E8m0 => DATA_FP8_E8M0,
        other => {
            return Err(format!("data type is {}, expected one that this engine supports", other.name()));
        }
    })
}

/// The state of lowering.
struct Builder<'a> {
    graph: &'a Graph,
    /// The nodes to lower.
    nodes: &'a [Node],
    /// The virtual tensors that these nodes share with others, which are in memory.
    shared: HashSet<i64>,
    view: View,
    lowered: Lowered,
    /// The graph's tensors that were added, by uid and shape.
    known: HashMap<(i64, Shape), TensorPlace>,
}

/// Translates nodes of a graph to cuDNN's objects.
///
/// # Errors
/// What is not supported; the text names the node.
pub fn lower(prepared: &Prepared, range: Range<usize>) -> Result<Lowered, Refusal> {
    let graph = &prepared.graph;
    let nodes = graph.nodes.get(range.clone()).ok_or("there are no such nodes")?;
    view::check_joined(graph, nodes)?;
    let problems = prepared.problems.get(range.clone()).unwrap_or_default();
    let mut builder = Builder {
        view: View::of(graph, nodes, problems)?,
        graph,
        nodes,
        shared: shared(graph, &range),
        lowered: Lowered { described: Described::default(), uids: Vec::new() },
        known: HashMap::new(),
    };
    for node in prepared.nodes().skip(range.start).take(range.len()) {
        builder.node(node).map_err(|refusal| node.refusal(refusal))?;
    }
    view::innermost_second(&mut builder.lowered.described)?;
    Ok(builder.lowered)
}

/// The tensors that nodes share with the rest of the graph.
fn shared(graph: &Graph, range: &Range<usize>) -> HashSet<i64> {
    if range.len() == graph.nodes.len() {
        return HashSet::new();
    }
    let (mut inside, mut outside) = (HashSet::new(), HashSet::new());
    for (place, node) in graph.nodes.iter().enumerate() {
        let side = if range.contains(&place) { &mut inside } else { &mut outside };
        side.extend(node.operation.tensors());
    }
    inside.intersection(&outside).copied().collect()
}

impl Builder<'_> {
    /// Dispatches a node to the module that lowers it.
    fn node(&mut self, checked: CheckedNode<'_>) -> Result<(), Refusal> {
        let node = checked.node;
        match (checked.problem, &node.operation) {
            (Problem::Convolution(problem), _) => convolution::lower(self, node, problem),
            (Problem::Resample(problem), _) => resample::lower(self, node, problem),
            (Problem::Matmul(_), Operation::Matmul(operation)) => matmul::lower(self, node, operation),
            (Problem::Pointwise(_), Operation::Pointwise(operation)) => {
                pointwise::lower(self, node, operation)
            }
            (Problem::Reduction(problem), Operation::Reduction(_)) if problem.is_of_single() => {
                Err("out: dims are those of in, expected 1 where in has more".to_owned())
            }
            (Problem::Reduction(_), Operation::Reduction(operation)) => {
                reduction::lower(self, node, operation)
            }
            (Problem::Batchnorm(_), operation) => batchnorm::lower(self, node, operation),
            (Problem::Normalization(_), operation) => normalization::lower(self, operation),
            (Problem::Attention(problem), Operation::Sdpa(operation)) => {
                attention::lower(self, node, operation, problem)
            }
            (Problem::AttentionGradients(problem), Operation::SdpaBackward(operation)) => {
                gradient::lower(self, node, operation, problem)
            }
            (Problem::BlockScale(problem), operation) => block_scale::lower(self, node, operation, problem),
            (
                Problem::Matmul(_)
                | Problem::Pointwise(_)
                | Problem::Reduction(_)
                | Problem::Attention(_)
                | Problem::AttentionGradients(_)
                | Problem::Mixture(_)
                | Problem::MixtureGradient(_),
                _,
            ) => Err("operation is not supported by this engine".to_owned()),
        }
    }

    fn operation(&mut self, operation: Descriptor) {
        self.lowered.described.operations.push(operation);
    }

    fn add(&mut self, data_type: c_int, shape: Shape, alignment: usize, place: Place) -> TensorPlace {
        let alignment = i64::try_from(alignment).unwrap_or(1);
        let tensors = &mut self.lowered.described.tensors;
        tensors.push(Tensor { data_type, shape, alignment, place, offsets: None });
        tensors.len() - 1
    }

    /// A tensor of the graph in the shape that the graph's operations need.
    fn tensor(&mut self, uid: i64) -> Result<TensorPlace, Refusal> {
        let shape = self.view.shape(&self.layout(uid)?)?;
        self.tensor_as(uid, shape)
    }

    fn layout(&self, uid: i64) -> Result<Layout, Refusal> {
        let tensor =
            self.graph.tensor(uid).ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))?;
        Layout::of(tensor)
    }

    /// A tensor of the graph in another shape with the same elements.
    fn tensor_as(&mut self, uid: i64, shape: Shape) -> Result<TensorPlace, Refusal> {
        let offsets = self.graph.tensor(uid).and_then(|tensor| tensor.ragged_offset_uid);
        let offsets = offsets.map(|uid| self.offsets(uid)).transpose()?;
        let place = self.even(uid, shape)?;
        if let Some(tensor) = self.lowered.described.tensors.get_mut(place) {
            tensor.offsets = offsets;
        }
        Ok(place)
    }

    /// The same, ignoring ragged offsets.
    fn even(&mut self, uid: i64, shape: Shape) -> Result<TensorPlace, Refusal> {
        let key = (uid, shape);
        if let Some(place) = self.known.get(&key) {
            return Ok(*place);
        }
        let (uid, shape) = (key.0, key.1.clone());
        let graph = self.graph;
        let tensor = graph.tensor(uid).ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))?;
        let named = |refusal: Refusal| format!("tensor {uid} \"{}\": {refusal}", tensor.name);
        let number = data_type(tensor.data_type).map_err(named)?;
        let alignment = usize::try_from(tensor.alignment).ok().filter(|bytes| bytes.is_power_of_two());
        let alignment = alignment.unwrap_or(1);
        let place = match &tensor.value {
            Some(value) => {
                let (number, bytes) = constant(value).map_err(named)?;
                self.add(number, shape, alignment, Place::Constant(bytes))
            }
            None if tensor.is_virtual && !self.shared.contains(&uid) => {
                self.add(number, shape, 16, Place::Virtual)
            }
            None if number == DATA_BOOLEAN => {
                return Err(named(
                    "is boolean and in memory, where cuDNN packs elements as bits, expected another type or a virtual tensor"
                        .to_owned(),
                ));
            }
            None => {
                let index = self.lowered.uids.len();
                self.lowered.uids.push(uid);
                let is_number = tensor.is_runtime_pass_by_value;
                let place = if is_number { Place::Host(index) } else { Place::Given(index) };
                // A virtual tensor is placed by the plan, as aligned as other tensors.
                self.add(number, shape, if tensor.is_virtual { 16 } else { alignment }, place)
            }
        };
        self.known.insert(key, place);
        Ok(place)
    }

    fn take_scratch(&mut self, size: usize) -> Result<usize, Refusal> {
        let offset = self.lowered.described.scratch;
        let end = offset.checked_add(size).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        self.lowered.described.scratch = end.ok_or("the workspace would be larger than the address space")?;
        Ok(offset)
    }

    /// The shape of a tensor.
    fn shape(&self, place: TensorPlace) -> Shape {
        self.lowered.described.tensors.get(place).map(|tensor| tensor.shape.clone()).unwrap_or_default()
    }

    /// A virtual tensor.
    fn between(&mut self, data_type: c_int, dims: &[i64]) -> TensorPlace {
        self.add(data_type, packed(dims), 16, Place::Virtual)
    }

    /// The same with these strides.
    fn between_as(&mut self, data_type: c_int, shape: Shape) -> TensorPlace {
        self.add(data_type, shape, 16, Place::Virtual)
    }

    /// A dense float tensor in scratch memory.
    fn scratch(&mut self, shape: Shape) -> Result<TensorPlace, Refusal> {
        let dims = &shape.dims;
        let elements = dims.iter().try_fold(1_usize, |product, dim| {
            usize::try_from(*dim).ok().and_then(|dim| product.checked_mul(dim))
        });
        let elements = elements.filter(|elements| *elements <= isize::MAX as usize / 8);
        let elements = elements.ok_or_else(|| format!("dims {dims:?} reach beyond the address space"))?;
        let offset = self.take_scratch(4 * elements)?;
        // As aligned as other tensors: cuDNN compares some alignments.
        Ok(self.add(DATA_FLOAT, shape, 16, Place::Scratch(offset)))
    }

    /// The same, filled with these values.
    fn filled(&mut self, shape: Shape, numbers: &[f32]) -> Result<TensorPlace, Refusal> {
        let place = self.scratch(shape)?;
        let described = &mut self.lowered.described;
        if let Some(Place::Scratch(offset)) = described.tensors.get(place).map(|tensor| tensor.place) {
            described.fills.push((offset, numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()));
        }
        Ok(place)
    }

    /// A float constant.
    fn float(&mut self, value: f32) -> TensorPlace {
        let bytes = bytes_of(&value.to_ne_bytes());
        self.add(DATA_FLOAT, packed(&[1; 4]), 4, Place::Constant(bytes))
    }

    /// An integer constant.
    fn int(&mut self, value: i32) -> TensorPlace {
        let bytes = bytes_of(&value.to_ne_bytes());
        self.add(DATA_INT32, packed(&[1; 4]), 4, Place::Constant(bytes))
    }

    /// A tensor of one element that must be passed by value.
    fn by_value(&mut self, name: &str, uid: i64) -> Result<TensorPlace, Refusal> {
        let tensor = self.graph.tensor(uid);
        if tensor.is_some_and(|tensor| tensor.value.is_none() && !tensor.is_runtime_pass_by_value) {
            return Err(format!("{name}: is in device memory, expected a number that is passed by value"));
        }
        self.tensor_as(uid, packed(&[1; 4]))
    }

    /// The dims of a tensor of the graph.
    fn dims(&self, uid: i64) -> Result<Vec<i64>, Refusal> {
        let tensor =
            self.graph.tensor(uid).ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))?;
        Ok(tensor.dims.clone())
    }

    /// Records that a matmul or convolution reads these tensors; returns whether any is in single precision.
    fn multiplies(&mut self, uids: [i64; 2]) -> bool {
        let types = uids.map(|uid| self.graph.tensor(uid).map(|tensor| tensor.data_type));
        let is_half = |of: &Option<DataType>| matches!(of, Some(DataType::Half | DataType::Bfloat16));
        let multiplies = types.contains(&Some(DataType::Float));
        self.lowered.described.may_use_tf32 |= multiplies;
        self.lowered.described.multiplies_halves |= types.iter().any(is_half);
        multiplies
    }
}

fn bytes_of(bytes: &[u8]) -> [u8; 8] {
    let mut all = [0; 8];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    all
}

/// The type and bytes with which cuDNN is given a value.
fn constant(value: &TensorValue) -> Result<(c_int, [u8; 8]), Refusal> {
    Ok(match *value {
        TensorValue::Float32(value) | TensorValue::Float16(value) | TensorValue::BFloat16(value) => {
            (DATA_FLOAT, bytes_of(&value.to_ne_bytes()))
        }
        TensorValue::Float64(value) => (DATA_DOUBLE, value.to_ne_bytes()),
        TensorValue::Int32(value) => (DATA_INT32, bytes_of(&value.to_ne_bytes())),
        TensorValue::Int64(value) => (DATA_INT64, value.to_ne_bytes()),
        TensorValue::Bool(value) => (DATA_FLOAT, bytes_of(&f32::from(u8::from(value)).to_ne_bytes())),
        TensorValue::Float8(_) => {
            return Err("has an 8-bit float as its value, expected a wider type".to_owned());
        }
    })
}

#[cfg(test)]
mod tests;
