//! A network as a list of graphs over shared memory, as a framework runs it: one graph for each layer and for each gradient, whose
//! tensors are views of the layers' memory.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, Node, Operation, PointwiseMode, ReductionMode, Tensor, TensorValue,
};

use crate::case::{Order, strides};

/// How far a step moves the weights along their gradients.
const RATE: f32 = 0.1;

/// Elements of a part of the memory.
#[derive(Clone, Debug)]
pub struct View {
    /// The number of the part.
    pub memory: usize,
    /// The first element.
    pub offset: usize,
    /// The dimensions.
    pub dims: Vec<i64>,
    strides: Vec<i64>,
}

impl View {
    /// The same elements without gaps, in other dimensions.
    pub fn shaped(&self, dims: &[i64]) -> Self {
        Self { dims: dims.to_vec(), strides: strides(dims, Order::ChannelsFirst), ..self.clone() }
    }

    /// In the dimensions of another view: without gaps unless it has them already.
    fn like(&self, other: &Self) -> Self {
        if self.dims == other.dims { self.clone() } else { self.shaped(&other.dims) }
    }

    /// The same elements in other dimensions with these strides, beginning some elements further.
    pub fn strided(&self, offset: i64, dims: &[i64], strides: &[i64]) -> Self {
        let offset = self.offset + offset.unsigned_abs() as usize;
        Self { memory: self.memory, offset, dims: dims.to_vec(), strides: strides.to_vec() }
    }

    /// The transposed matrix.
    pub fn transposed(&self) -> Self {
        let mut view = self.clone();
        view.dims.reverse();
        view.strides.reverse();
        view
    }

    /// Some of the channels, which are the second dimension.
    pub fn channels(&self, from: i64, count: i64) -> Self {
        let mut view = self.clone();
        if let (Some(dim), Some(stride)) = (view.dims.get_mut(1), self.strides.get(1)) {
            *dim = count;
            view.offset += (from * stride).unsigned_abs() as usize;
        }
        view
    }
}

/// A graph, and where its tensors are.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The layer.
    pub name: String,
    /// What it computes.
    pub graph: Graph,
    /// The uid, part of the memory and first element of each tensor in memory.
    pub places: Vec<(i64, usize, usize)>,
    /// The tensors in memory that it writes.
    pub results: Vec<i64>,
}

impl Piece {
    fn new(name: &str) -> Self {
        let float = DataType::Float;
        let graph = Graph {
            compute_type: float,
            intermediate_type: float,
            io_type: float,
            name: name.to_owned(),
            ..Graph::default()
        };
        Self { name: name.to_owned(), graph, places: Vec::new(), results: Vec::new() }
    }

    fn add(&mut self, dims: &[i64], strides: &[i64]) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        self.graph.tensors.push(Tensor::new(uid, DataType::Float, dims, strides));
        uid
    }

    /// A tensor that is read.
    pub fn from(&mut self, view: &View) -> i64 {
        let uid = self.add(&view.dims, &view.strides);
        self.places.push((uid, view.memory, view.offset));
        uid
    }

    /// A tensor that is written.
    pub fn to(&mut self, view: &View) -> i64 {
        let uid = self.from(view);
        self.results.push(uid);
        uid
    }

    /// A tensor between nodes.
    pub fn between(&mut self, dims: &[i64]) -> i64 {
        let uid = self.add(dims, &strides(dims, Order::ChannelsFirst));
        if let Some(tensor) = self.graph.tensors.last_mut() {
            tensor.is_virtual = true;
        }
        uid
    }

    /// A constant.
    pub fn value(&mut self, value: f32) -> i64 {
        let uid = self.add(&[1], &[1]);
        if let Some(tensor) = self.graph.tensors.last_mut() {
            tensor.value = Some(TensorValue::Float32(value));
        }
        uid
    }

    /// A node.
    pub fn node(&mut self, operation: impl Into<Operation>) {
        let name = format!("{} {}", self.name, self.graph.nodes.len());
        self.graph.nodes.push(Node { name, compute_type: DataType::Float, operation: operation.into() });
    }

    /// A function of each element, between nodes.
    pub fn pointwise(&mut self, mode: PointwiseMode, a: i64, b: Option<i64>, dims: &[i64]) -> i64 {
        let out = self.between(dims);
        self.node(Pointwise::new(mode, a, b, out));
        out
    }

    /// A reduction to these dimensions, between nodes.
    pub fn reduction(&mut self, mode: ReductionMode, in_: i64, dims: &[i64]) -> i64 {
        let out = self.between(dims);
        self.node(Reduction { in_, out, mode, is_deterministic: false });
        out
    }
}

/// What adds the gradients of a layer.
type Backward = Box<dyn FnOnce(&mut Tape)>;

/// The graphs so far, and what they need.
#[derive(Default)]
pub struct Tape {
    /// The initial values of each part of the memory; NaN where a graph writes first.
    pub memory: Vec<Vec<f32>>,
    /// The graphs of a step, in order.
    pub pieces: Vec<Piece>,
    /// The weights, each with its new values after a step.
    pub weights: Vec<(View, View)>,
    /// The layers' gradients, to be added from the last to the first.
    backward: Vec<Backward>,
    gradients: HashMap<usize, View>,
    trained: Vec<View>,
    seed: u32,
}

impl Tape {
    /// Memory that a graph writes.
    pub fn room(&mut self, dims: &[i64]) -> View {
        let count = dims.iter().product::<i64>().unsigned_abs() as usize;
        self.filled(dims, vec![f32::NAN; count])
    }

    /// Memory with values.
    pub fn filled(&mut self, dims: &[i64], values: Vec<f32>) -> View {
        self.memory.push(values);
        let memory = self.memory.len() - 1;
        View { memory, offset: 0, dims: dims.to_vec(), strides: strides(dims, Order::ChannelsFirst) }
    }

    /// A number from -1 to 1, from Numerical Recipes' linear congruential generator.
    pub fn random(&mut self) -> f32 {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.seed >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Random values of a magnitude.
    pub fn randoms(&mut self, dims: &[i64], magnitude: f32) -> View {
        let count = dims.iter().product::<i64>();
        let values = (0..count).map(|_| magnitude * self.random()).collect();
        self.filled(dims, values)
    }

    /// Random weights that keep the scale of what they multiply; `inputs` is how many products are added.
    pub fn weight(&mut self, dims: &[i64], inputs: i64) -> View {
        let view = self.randoms(dims, (3.0 / inputs as f32).sqrt());
        self.trained.push(view.clone());
        view
    }

    /// Weights of one value.
    pub fn constant(&mut self, dims: &[i64], value: f32) -> View {
        let count = dims.iter().product::<i64>().unsigned_abs() as usize;
        let view = self.filled(dims, vec![value; count]);
        self.trained.push(view.clone());
        view
    }

    /// Adds a graph.
    pub fn piece(&mut self, name: &str, write: impl FnOnce(&mut Piece)) {
        let mut piece = Piece::new(name);
        write(&mut piece);
        self.pieces.push(piece);
    }

    /// Registers what adds a layer's gradients.
    pub fn on_way_back(&mut self, add: impl FnOnce(&mut Self) + 'static) {
        self.backward.push(Box::new(add));
    }

    /// The sum of the gradients that layers have added for a result so far, zeros before the first.
    pub fn gradient(&mut self, of: &View) -> View {
        match self.gradients.get(&of.memory) {
            Some(gradient) => gradient.like(of),
            None => {
                let count = of.dims.iter().product::<i64>().unsigned_abs() as usize;
                self.filled(&of.dims, vec![0.0; count])
            }
        }
    }

    /// Adds to the gradient of a layer's result or of a weight.
    pub fn add_gradient(&mut self, of: &View, gradient: &View) {
        let sum = match self.gradients.get(&of.memory).cloned() {
            None => gradient.clone(),
            Some(other) => {
                let (other, gradient) = (other.like(of), gradient.like(of));
                let sum = self.room(&of.dims);
                self.piece("sum of gradients", |piece| {
                    let (a, b) = (piece.from(&other), piece.from(&gradient));
                    let out = piece.to(&sum);
                    piece.node(Pointwise::new(PointwiseMode::Add, a, Some(b), out));
                });
                sum
            }
        };
        self.gradients.insert(of.memory, sum);
    }

    /// Adds the graphs of the gradients, and those that move the weights.
    pub fn finish(&mut self) {
        while let Some(add) = self.backward.pop() {
            add(self);
        }
        for weight in std::mem::take(&mut self.trained) {
            let (gradient, next) = (self.gradient(&weight), self.room(&weight.dims));
            self.piece("new weights", |piece| {
                let (old, slope, rate) = (piece.from(&weight), piece.from(&gradient), piece.value(-RATE));
                let step = piece.pointwise(PointwiseMode::Mul, slope, Some(rate), &weight.dims);
                let out = piece.to(&next);
                piece.node(Pointwise::new(PointwiseMode::Add, old, Some(step), out));
            });
            self.weights.push((weight, next));
        }
    }
}
