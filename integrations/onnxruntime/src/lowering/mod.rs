//! ONNX nodes as a program of hipDNN operations on buffers.
//!
//! A value is a [`View`] of a buffer. Layout changes (reshape, transpose, slice) make another view and compute nothing.

mod as_read;
mod batches;
mod dims;
mod edge;
mod late;
mod parts;
mod plan;
mod program;
mod slab;
mod view;

pub use batches::{calls, seconds_of_calls};
pub use dims::Dims;
pub use late::Late;
pub use plan::{Bound, Graphs, Place, Stage, Work, weights};
pub use program::{Buffer, Host, Integer, Kind, Label, Program, Step};
pub use slab::{Item, OnHost, Shared, Slab};
pub use view::{View, broadcast, broadcast_dims, elements, packed};

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hipdnn::graph::operation::{Pointwise, Reduction};
use hipdnn::graph::{Graph, Operation, PointwiseMode, ReductionMode};

use crate::hash::Map;
use crate::memory::Memory;
use crate::model::{Constant, Element, Kept, Model, Node, ValueId};

/// Why a node is not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub String);

/// The result of lowering.
pub type Lowered<T> = Result<T, Reason>;

/// Rejects a node.
pub fn refuse<T>(text: impl Into<String>) -> Lowered<T> {
    Err(Reason(text.into()))
}

/// Memory of folded constants.
pub type Folds = Mutex<HashMap<ValueId, Arc<Memory>>>;

/// A program being built from a model's nodes.
pub struct Lowering<'m> {
    /// The model.
    pub model: &'m Model,
    /// The program so far.
    pub program: Program,
    /// Why engines compute a part slowly, if they do.
    pub slow: Option<String>,
    /// The integers of inputs that decide shapes, known only at run time.
    pub known: Map<ValueId, Vec<i64>>,
    /// Integers that follow from shapes, and the bits of such floats.
    pub folded_integers: Map<ValueId, Vec<i64>>,
    /// Whether such integers are made up, to test whether a node can be built at all.
    pub guesses: bool,
    /// The values whose integers were made up.
    pub guessed: Vec<ValueId>,
    /// Where an integer is raised to a dimension of another value: value, other value, axis.
    pub floors: Vec<(ValueId, ValueId, usize)>,
    /// Constants folded for other shapes, by the value that needs them.
    pub folds: Option<&'m Folds>,
    /// Whether the number of rows must not decide how one is computed.
    pub batch_invariant: bool,
    /// Whether convolutions write images of single precision with their channels last.
    pub images_last: bool,
    /// Whether engines of a GPU compute: what they cannot is copied to the host and back.
    pub on_gpu: bool,
    /// Whether an engine of a GPU computes an attention at once, faster than its operations one by one.
    pub attends: Option<&'m dyn Fn(&Graph) -> bool>,
    /// The values one of whose dimensions is only known when they are computed.
    pub late: Vec<Late>,
    views: Map<ValueId, View>,
}

impl<'m> Lowering<'m> {
    /// An empty program.
    pub fn new(model: &'m Model) -> Self {
        Self {
            model,
            program: Program::default(),
            slow: None,
            known: Map::default(),
            folded_integers: Map::default(),
            guesses: false,
            guessed: Vec::new(),
            floors: Vec::new(),
            folds: None,
            batch_invariant: false,
            images_last: false,
            on_gpu: false,
            attends: None,
            late: Vec::new(),
            // Few where a node is lowered alone.
            views: Map::default(),
        }
    }

    /// The same, with room for all nodes of the model.
    pub fn whole(model: &'m Model) -> Self {
        let mut whole = Self::new(model);
        whole.views.reserve(model.values.len());
        whole.program.reserve(model.nodes.len());
        whole
    }

    /// Binds a value to the program's next input.
    pub fn bind_input(&mut self, value: ValueId, element: Element, dims: &[i64], is_constant: bool) {
        let buffer = self.program.input(element, dims, is_constant);
        self.put(value, View::packed(buffer, element, dims));
    }

    /// The view of a value, if it has one.
    pub fn of(&self, value: ValueId) -> Option<&View> {
        self.views.get(&value)
    }

    fn put(&mut self, value: ValueId, view: View) {
        if value < self.model.values.len() {
            self.views.insert(value, view);
        }
    }

    /// A required input of a node.
    pub fn input(&self, node: &Node, at: usize) -> Lowered<View> {
        self.optional(node, at).ok_or_else(|| Reason(format!("input {at} is absent or of an unknown shape")))
    }

    /// An optional input of a node.
    pub fn optional(&self, node: &Node, at: usize) -> Option<View> {
        self.of((*node.inputs.get(at)?)?).cloned()
    }

    /// Whether a node has an input.
    pub fn has_input(node: &Node, at: usize) -> bool {
        matches!(node.inputs.get(at), Some(Some(_)))
    }

    /// Whether an output of a node is wanted.
    pub fn has_output(node: &Node, at: usize) -> bool {
        matches!(node.outputs.get(at), Some(Some(_)))
    }

    /// The elements of an input that is a small constant.
    pub fn constant(&self, node: &Node, at: usize) -> Option<&'m Constant> {
        self.model.values.get((*node.inputs.get(at)?)?)?.constant.as_ref()
    }

    /// The integers of an input that decides shapes: constant, or read at run time. `guess` makes up as many as the node needs to be
    /// built, whatever they will be.
    pub fn parameter(
        &mut self,
        node: &Node,
        at: usize,
        what: &str,
        guess: impl FnOnce(i64) -> Vec<i64>,
    ) -> Lowered<Option<Vec<i64>>> {
        let Some(Some(value)) = node.inputs.get(at).copied() else { return Ok(None) };
        if let Some(integers) = self.constant(node, at).and_then(Constant::integers) {
            return Ok(Some(integers));
        }
        let element = self.model.values.get(value).and_then(|value| value.element);
        if let Some(list) = self.folded_integers.get(&value).or_else(|| self.known.get(&value)) {
            // Lists of floats are kept as their bits.
            let whole = |bits: &i64| u32::try_from(*bits).ok().map(|bits| f32::from_bits(bits) as i64);
            let is_float = element == Some(Element::Float);
            return Ok(if is_float { list.iter().map(whole).collect() } else { Some(list.clone()) });
        }
        let is_integer = matches!(element, Some(Element::Int64 | Element::Int32));
        if !self.guesses || !is_integer {
            return refuse(format!("{what} is neither constant nor a list of at most 4096 integers"));
        }
        self.guessed.push(value);
        Ok(Some(guess(self.of(value).map_or(1, View::elements))))
    }

    /// The numbers of an input that decides shapes, like [`Self::parameter`]: made up as `ones` ones.
    pub fn factors(&mut self, node: &Node, at: usize, ones: usize) -> Lowered<Option<Vec<f64>>> {
        let Some(Some(value)) = node.inputs.get(at).copied() else { return Ok(None) };
        if let Some(numbers) = self.numbers(node, at) {
            return Ok(Some(numbers));
        }
        if let Some(bits) = self.folded_integers.get(&value).or_else(|| self.known.get(&value)) {
            let number = |bits: &i64| u32::try_from(*bits).map(|bits| f64::from(f32::from_bits(bits)));
            return Ok(bits.iter().map(number).collect::<Result<_, _>>().ok());
        }
        let element = self.model.values.get(value).and_then(|value| value.element);
        if !self.guesses || element != Some(Element::Float) {
            return refuse("the factors are not constant");
        }
        self.guessed.push(value);
        Ok(Some(vec![1.0; ones]))
    }

    /// The bytes of a constant input.
    pub fn bytes(&self, node: &Node, at: usize) -> Option<&'m [u8]> {
        let value = self.model.values.get((*node.inputs.get(at)?)?)?;
        match &value.constant {
            Some(constant) => Some(&constant.bytes),
            None => value.kept.as_ref().map(Kept::bytes),
        }
    }

    /// The elements of a constant input, as numbers.
    pub fn numbers(&self, node: &Node, at: usize) -> Option<Vec<f64>> {
        let View { element, dims, .. } = self.optional(node, at)?;
        Constant { element, dims: dims.to_vec(), bytes: self.bytes(node, at)?.to_vec() }.numbers()
    }

    /// A number that must be constant; none if the input is absent.
    pub fn scalar(&self, node: &Node, at: usize, what: &str) -> Lowered<Option<f64>> {
        if !Self::has_input(node, at) {
            return Ok(None);
        }
        let scalar = self.constant(node, at).and_then(Constant::scalar);
        scalar.map(Some).ok_or_else(|| Reason(format!("{what} is not a constant number")))
    }

    /// Sets the view of an output of a node.
    pub fn set(&mut self, node: &Node, at: usize, view: View) -> Lowered<()> {
        let Some(Some(value)) = node.outputs.get(at) else { return Ok(()) };
        let declared = self.model.values.get(*value).and_then(|value| value.element);
        if declared != Some(view.element) {
            return refuse(format!("output {at} has another type than is computed, {}", view.element.name()));
        }
        self.put(*value, view);
        Ok(())
    }

    /// A new tensor that is channels last.
    pub fn channels_last(&mut self, element: Element, dims: &[i64]) -> View {
        let rank = dims.len();
        let inner = dims.get(1).copied().into_iter();
        let order: Vec<i64> = dims.iter().take(1).chain(dims.iter().skip(2)).copied().chain(inner).collect();
        let back: Vec<usize> =
            [0, rank.saturating_sub(1)].into_iter().chain(1..rank.saturating_sub(1)).collect();
        let whole = self.fresh(element, &order);
        whole.permuted(&back).filter(|_| rank > 2).unwrap_or_else(|| self.fresh(element, dims))
    }

    /// A new tensor with the layout of another one, if that has the same rank.
    pub fn fresh_like(&mut self, element: Element, dims: &[i64], like: &View) -> View {
        if like.rank() == dims.len() && like.is_channels_last() {
            self.channels_last(element, dims)
        } else {
            self.fresh(element, dims)
        }
    }

    /// A packed tensor of the program's own data.
    pub fn data(&mut self, element: Element, dims: &[i64], bytes: &[u8]) -> Lowered<View> {
        let memory = Memory::of(bytes).map_err(|failure| Reason(failure.text))?;
        let buffer = self.program.data(element, Arc::new(memory), elements(dims));
        Ok(View::packed(buffer, element, dims))
    }

    /// Sets the integers of a value, or the bits of its floats.
    pub fn keep_integers(&mut self, value: ValueId, dims: &[i64], list: &[i64]) -> Lowered<()> {
        let element = self.model.values.get(value).and_then(|value| value.element);
        let bytes: Vec<u8> = match element {
            Some(Element::Bool) => list.iter().map(|number| u8::from(*number != 0)).collect(),
            Some(Element::Float) => list.iter().flat_map(|bits| (*bits as u32).to_ne_bytes()).collect(),
            Some(Element::Int32) => list.iter().flat_map(|number| (*number as i32).to_ne_bytes()).collect(),
            _ => list.iter().flat_map(|number| number.to_ne_bytes()).collect(),
        };
        let view = self.data(element.unwrap_or(Element::Int64), dims, &bytes)?;
        self.put(value, view);
        self.folded_integers.insert(value, list.to_vec());
        Ok(())
    }

    /// An integer tensor of the program's own data.
    pub fn int32s(&mut self, dims: &[i64], numbers: impl IntoIterator<Item = i32>) -> Lowered<View> {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(i32::to_ne_bytes).collect();
        self.data(Element::Int32, dims, &bytes)
    }

    /// A tensor computed from a node's constant inputs, once for all shapes. `make` returns its bytes.
    pub fn folded(
        &mut self,
        node: &Node,
        element: Element,
        dims: &[i64],
        make: impl FnOnce() -> Lowered<Vec<u8>>,
    ) -> Lowered<View> {
        // Whether the node is supported does not depend on the elements.
        if self.guesses {
            let buffer = self.program.input(element, dims, true);
            return Ok(View::packed(buffer, element, dims));
        }
        let output = node.outputs.iter().copied().flatten().next();
        let known = output.and_then(|id| self.folds?.lock().ok()?.get(&id).cloned());
        let memory = match known {
            Some(memory) => memory,
            None => {
                let memory = Arc::new(Memory::of(&make()?).map_err(|failure| Reason(failure.text))?);
                if let Some((id, folds)) = output.zip(self.folds)
                    && let Ok(mut folds) = folds.lock()
                {
                    // If another thread was faster, its memory stays.
                    folds.entry(id).or_insert(memory).clone()
                } else {
                    memory
                }
            }
        };
        let buffer = self.program.data(element, memory, elements(dims));
        Ok(View::packed(buffer, element, dims))
    }

    /// A host operation, into a new tensor.
    pub fn host(&mut self, host: Host, reads: &[&View], element: Element, dims: &[i64]) -> View {
        let to = self.fresh(element, dims);
        self.program.host(host, reads, &to);
        to
    }

    /// The provider's own operation, into new packed tensors.
    pub fn on_host(
        &mut self,
        own: impl OnHost + 'static,
        reads: &[&View],
        results: &[(Element, Vec<i64>)],
    ) -> Vec<View> {
        let made: Vec<View> = results.iter().map(|(element, dims)| self.fresh(*element, dims)).collect();
        self.program.host_all(Host::Own(Arc::new(own)), reads, &made.iter().collect::<Vec<_>>());
        made
    }

    /// A view without gaps: itself, or a copy.
    pub fn packed(&mut self, view: &View) -> Lowered<View> {
        if view.is_packed() {
            return Ok(view.clone());
        }
        let to = self.fresh(view.element, &view.dims);
        self.copy(view, &to)?;
        Ok(to)
    }

    /// An integer operation with broadcast operands.
    pub fn on_integers(&mut self, integer: Integer, operands: &[&View], element: Element) -> Lowered<View> {
        let dims = broadcast(operands)?;
        let wide = operands.iter().map(|view| view.expanded(&dims)).collect::<Option<Vec<_>>>();
        let wide = wide.ok_or_else(|| Reason("operands do not broadcast".to_owned()))?;
        Ok(self.host(Host::Integers(integer), &wide.iter().collect::<Vec<_>>(), element, &dims))
    }

    /// A new packed tensor.
    pub fn fresh(&mut self, element: Element, dims: &[i64]) -> View {
        View::packed(self.program.scratch(element, dims), element, dims)
    }

    /// The tensor of a view, for an operation.
    pub fn tensor(&mut self, view: &View) -> i64 {
        self.program.tensor(view)
    }

    /// Adds an operation. Results without elements are skipped.
    pub fn op(&mut self, name: &str, operation: impl Into<Operation>) -> Lowered<()> {
        self.program.node(name, operation.into()).map_err(Reason)
    }

    /// Whether an attention is computed at once, which was added as the step at an index; else removes it.
    pub fn keeps_attention(&mut self, at: usize) -> bool {
        let Some(attends) = self.attends else { return true };
        let keeps = self.program.graph_of_step(at).is_some_and(|graph| attends(&graph));
        if !keeps {
            self.program.steps.truncate(at);
        }
        keeps
    }

    /// A pointwise operation with broadcast operands and a result of this type.
    pub fn map(&mut self, mode: PointwiseMode, operands: &[&View], element: Element) -> Lowered<View> {
        self.map_with(mode, operands, element, |_| {})
    }

    /// The same, with the operation's parameters changed.
    pub fn map_with(
        &mut self,
        mode: PointwiseMode,
        operands: &[&View],
        element: Element,
        change: impl FnOnce(&mut Pointwise),
    ) -> Lowered<View> {
        let dims = broadcast(operands)?;
        let like = operands.iter().find(|view| view.dims == dims);
        let to = match like {
            Some(like) => self.fresh_like(element, &dims, like),
            None => self.fresh(element, &dims),
        };
        let uids: Vec<i64> = operands.iter().map(|view| self.tensor(view)).collect();
        let out = self.tensor(&to);
        let Some(first) = uids.first() else { return refuse("an operation without operands") };
        let mut operation = Pointwise::new(mode, *first, uids.get(1).copied(), out);
        operation.in_2 = uids.get(2).copied();
        change(&mut operation);
        self.op(mode.name(), operation)?;
        Ok(to)
    }

    /// A unary operation whose result has the operand's type.
    pub fn unary(&mut self, mode: PointwiseMode, x: &View) -> Lowered<View> {
        self.map(mode, &[x], x.element)
    }

    /// A binary operation whose result has the first operand's type.
    pub fn binary(&mut self, mode: PointwiseMode, x: &View, y: &View) -> Lowered<View> {
        self.map(mode, &[x, y], x.element)
    }

    /// An operation of a tensor and a number; the result has the tensor's type.
    pub fn with_number(&mut self, mode: PointwiseMode, x: &View, number: f64) -> Lowered<View> {
        self.with_number_to(mode, x, number, x.element)
    }

    /// The same, with a result of another type.
    pub fn with_number_to(
        &mut self,
        mode: PointwiseMode,
        x: &View,
        number: f64,
        element: Element,
    ) -> Lowered<View> {
        let to = self.fresh_like(element, &x.dims, x);
        let (from, out) = (self.tensor(x), self.tensor(&to));
        let number = self.program.number(number, x.element == Element::Double, x.rank());
        self.op(mode.name(), Pointwise::new(mode, from, Some(number), out))?;
        Ok(to)
    }

    /// A number in the graph.
    pub fn number(&mut self, number: f64, is_double: bool, rank: usize) -> i64 {
        self.program.number(number, is_double, rank)
    }

    /// A reduction along some dimensions, which become 1.
    pub fn reduce(&mut self, mode: ReductionMode, x: &View, axes: &[usize]) -> Lowered<View> {
        let mut dims = x.dims.clone();
        for axis in axes {
            if let Some(dim) = dims.get_mut(*axis) {
                if *dim == 0 {
                    return refuse("a reduction of no elements");
                }
                *dim = 1;
            }
        }
        if dims == x.dims {
            // Single elements: sums, products, extremes and means are the element itself.
            return match mode {
                ReductionMode::Norm1 | ReductionMode::Norm2 | ReductionMode::Amax => {
                    self.unary(PointwiseMode::Abs, x)
                }
                _ => Ok(x.clone()),
            };
        }
        let to = self.fresh(x.element, &dims);
        let (in_, out) = (self.tensor(x), self.tensor(&to));
        self.op(mode.name(), Reduction { in_, out, mode, is_deterministic: false })?;
        Ok(to)
    }

    /// Reshapes, copying if strides cannot express it.
    pub fn reshape(&mut self, x: &View, dims: &[i64]) -> Lowered<View> {
        if elements(dims) != x.elements() {
            return refuse(format!("{:?} cannot be reshaped to {dims:?}", x.dims));
        }
        if let Some(view) = x.reshaped(dims) {
            return Ok(view);
        }
        let copied = self.fresh(x.element, &x.dims);
        self.copy(x, &copied)?;
        copied.reshaped(dims).ok_or_else(|| Reason("a copy without gaps has any shape".to_owned()))
    }

    /// Copies elements.
    pub fn copy(&mut self, from: &View, to: &View) -> Lowered<()> {
        self.program.copy(from, to).map_err(Reason)
    }
}
