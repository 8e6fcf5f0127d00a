//! Operations in order, on tensors that are views of buffers.

use std::sync::Arc;

use hipdnn::graph::operation::Pointwise;
use hipdnn::graph::{DataType, Operation, PointwiseMode, Tensor, TensorValue};

use super::slab::OnHost;
use super::view::{View, elements};
use crate::bits::Form;
use crate::hash::{Map, Set};
use crate::memory::Memory;
use crate::model::{Element, compute_type};

/// The alignment that engines may assume by default.
const ALIGNMENT: i64 = Tensor::DEFAULT_ALIGNMENT;

/// The kind of a buffer.
#[derive(Clone, Debug)]
pub enum Kind {
    /// An input of the fused node.
    Input(usize),
    /// An output of the fused node.
    Output(usize),
    /// A temporary between operations.
    Scratch,
    /// The program's own data.
    Data(Arc<Memory>),
}

/// Memory of tensors.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What it is.
    pub kind: Kind,
    /// The type of its elements.
    pub element: Element,
    /// Number of elements.
    pub elements: i64,
    /// Whether every execution finds the same elements in the same place.
    pub is_constant: bool,
}

/// A tensor of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// In a buffer.
    View(View),
    /// A number in the graph, of this rank.
    Number(TensorValue, usize),
}

/// What a step is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its own name.
    pub name: String,
    /// The name of the model's node that it belongs to.
    pub origin: Arc<str>,
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// hipDNN computes an operation, whose tensors are indices into [`Program::operands`], from 1 on.
    Node {
        /// For messages.
        label: Label,
        /// The operation.
        operation: Operation,
        /// Its compute type.
        compute: DataType,
    },
    /// The provider computes a host operation, between graphs.
    Host {
        /// The name of the model's node that it belongs to.
        origin: Arc<str>,
        /// The operation.
        host: Host,
        /// The tensors read.
        reads: Vec<i64>,
        /// The tensors written.
        writes: Vec<i64>,
    },
}

impl Step {
    /// The tensors that it reads and writes.
    pub fn tensors(&self) -> (Vec<i64>, Vec<i64>) {
        match self {
            Self::Node { operation, .. } => (operation.inputs(), operation.outputs()),
            Self::Host { reads, writes, .. } => (reads.clone(), writes.clone()),
        }
    }
}

/// Operations that hipDNN lacks.
#[derive(Clone, Debug)]
pub enum Host {
    /// Copies elements between tensors of equal dimensions.
    Copy,
    /// A pointwise integer operation; the operands have the dimensions of the result.
    Integers(Integer),
    /// Gathers parts of the first tensor by the indices in the second, along an axis.
    Gather(usize),
    /// The past keys or values, [B, H, L, D], with new ones after the number of rows that a third tensor has for each sequence. The
    /// past may be in the result's memory.
    Append,
    /// Unpacks block-quantized weights with scales and zero points to single precision.
    Unpack(Form),
    /// The product of the first tensor's rows with such a matrix.
    Multiply(Form),
    /// Another operation.
    Own(Arc<dyn OnHost>),
}

/// Integer operations. Results wrap at the ends of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of ONNX's operators")]
pub enum Integer {
    Cast,
    Neg,
    Abs,
    Sign,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    /// The rest of a division, which has the sign of the dividend.
    Rem,
    Pow,
    Max,
    Min,
    And,
    Or,
    Xor,
    Not,
    ShiftLeft,
    ShiftRight,
    Equal,
    Less,
    LessOrEqual,
    /// The second operand where the first is true, else the third.
    Where,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Memory.
    pub buffers: Vec<Buffer>,
    /// The tensors of operations.
    pub operands: Vec<Operand>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The dimensions of each output.
    pub outputs: Vec<Vec<i64>>,
    /// Whether all memory is the provider's, which aligns every buffer to 16 bytes.
    pub is_aligned: bool,
    /// The name of the model's node whose steps are added.
    pub origin: Arc<str>,
    inputs: usize,
    known: Map<View, i64>,
}

impl Program {
    /// Makes room for the steps of this many nodes.
    pub(super) fn reserve(&mut self, nodes: usize) {
        self.steps.reserve(2 * nodes);
        self.operands.reserve(4 * nodes);
        self.buffers.reserve(2 * nodes);
        self.known.reserve(4 * nodes);
    }

    /// The next input.
    pub fn input(&mut self, element: Element, dims: &[i64], is_constant: bool) -> usize {
        let kind = Kind::Input(self.inputs);
        self.inputs += 1;
        self.buffer(kind, element, elements(dims), is_constant)
    }

    /// Memory between operations.
    pub fn scratch(&mut self, element: Element, dims: &[i64]) -> usize {
        self.buffer(Kind::Scratch, element, elements(dims), false)
    }

    /// The program's own data.
    pub fn data(&mut self, element: Element, bytes: Arc<Memory>, count: i64) -> usize {
        self.buffer(Kind::Data(bytes), element, count, true)
    }

    fn buffer(&mut self, kind: Kind, element: Element, elements: i64, is_constant: bool) -> usize {
        self.buffers.push(Buffer { kind, element, elements, is_constant });
        self.buffers.len() - 1
    }

    /// Enlarges the memory of a view to a packed tensor of these dimensions that begins with its elements, so that they need no copy;
    /// `None` if it is not all of a temporary buffer, or its elements would not stay together.
    pub fn enlarged(&mut self, view: &View, axis: usize, dims: &[i64]) -> Option<View> {
        let buffer = self.buffers.get_mut(view.buffer)?;
        let is_whole = matches!(buffer.kind, Kind::Scratch)
            && view.offset == 0
            && view.is_packed()
            && view.elements() == buffer.elements;
        let is_first = dims.iter().take(axis).all(|dim| *dim == 1);
        (is_whole && is_first && view.elements() > 0).then(|| {
            buffer.elements = elements(dims);
            View::packed(view.buffer, view.element, dims)
        })
    }

    /// The tensor of a view: equal views are one tensor.
    pub fn tensor(&mut self, view: &View) -> i64 {
        if let Some(id) = self.known.get(view) {
            return *id;
        }
        let id = self.operand(Operand::View(view.clone()));
        self.known.insert(view.clone(), id);
        id
    }

    /// A number in the graph, of this rank.
    pub fn number(&mut self, number: f64, is_double: bool, rank: usize) -> i64 {
        let value =
            if is_double { TensorValue::Float64(number) } else { TensorValue::Float32(number as f32) };
        self.operand(Operand::Number(value, rank.max(1)))
    }

    pub(super) fn operand(&mut self, operand: Operand) -> i64 {
        self.operands.push(operand);
        i64::try_from(self.operands.len()).unwrap_or(i64::MAX)
    }

    /// The tensor with an id.
    pub fn get(&self, id: i64) -> Option<&Operand> {
        self.operands.get(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    /// The tensor of a view, if it has one.
    pub(super) fn id_of(&self, view: &View) -> Option<i64> {
        self.known.get(view).copied()
    }

    /// Forgets which tensor a view is.
    pub(super) fn forget(&mut self, view: &View) {
        self.known.remove(view);
    }

    /// Replaces a tensor.
    pub(super) fn replace(&mut self, id: i64, operand: Operand) {
        if let Operand::View(view) = &operand {
            self.known.insert(view.clone(), id);
        }
        let at = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        if let Some(slot) = at.and_then(|at| self.operands.get_mut(at)) {
            *slot = operand;
        }
    }

    /// The view with an id; none for numbers.
    pub fn view(&self, id: i64) -> Option<&View> {
        match self.get(id)? {
            Operand::View(view) => Some(view),
            Operand::Number(..) => None,
        }
    }

    /// Adds an operation. Skips one whose results have no elements.
    pub fn node(&mut self, name: &str, operation: Operation) -> Result<(), String> {
        let (inputs, outputs) = (operation.inputs(), operation.outputs());
        let view = |id: &i64| self.view(*id);
        if outputs.iter().filter_map(view).all(|view| view.elements() == 0) {
            return Ok(());
        }
        if inputs.iter().filter_map(view).any(|view| view.elements() == 0) {
            return Err("a tensor has no elements".to_owned());
        }
        let mut types = Vec::with_capacity(inputs.len() + outputs.len());
        for view in inputs.iter().chain(&outputs).filter_map(view) {
            if view.element.data_type().is_none() {
                return Err(format!("hipDNN has no type {}", view.element.name()));
            }
            if view.rank() > 8 {
                return Err(format!("a tensor has {} dimensions, expected at most 8", view.rank()));
            }
            types.push(view.element);
        }
        let compute = compute_type(&types);
        let label = Label { name: name.to_owned(), origin: self.origin.clone() };
        self.steps.push(Step::Node { label, operation, compute });
        Ok(())
    }

    /// Copies elements: floating-point numbers and bytes by hipDNN, which may fuse the copy with what comes before, others as they are
    /// in memory.
    pub fn copy(&mut self, from: &View, to: &View) -> Result<(), String> {
        if from.elements() == 0 {
            return Ok(());
        }
        let (source, target) = (self.tensor(from), self.tensor(to));
        if from.element.is_float() || matches!(from.element, Element::Int8 | Element::Uint8) {
            return self.node("copy", Pointwise::new(PointwiseMode::Identity, source, None, target).into());
        }
        let origin = self.origin.clone();
        self.steps.push(Step::Host { origin, host: Host::Copy, reads: vec![source], writes: vec![target] });
        Ok(())
    }

    /// Adds a host operation. Skips one whose result has no elements.
    pub fn host(&mut self, host: Host, reads: &[&View], to: &View) {
        self.host_all(host, reads, &[to]);
    }

    /// The same, with several results.
    pub fn host_all(&mut self, host: Host, reads: &[&View], results: &[&View]) {
        if results.iter().any(|to| to.elements() > 0) {
            let reads = reads.iter().map(|view| self.tensor(view)).collect();
            let writes = results.iter().map(|view| self.tensor(view)).collect();
            let origin = self.origin.clone();
            self.steps.push(Step::Host { origin, host, reads, writes });
        }
    }

    /// Removes the steps whose results nothing reads.
    fn prune(&mut self) {
        let mut read: Set<usize> = Set::default();
        let mut kept = Vec::with_capacity(self.steps.len());
        while let Some(step) = self.steps.pop() {
            let (reads, writes) = step.tensors();
            let buffers = |ids: Vec<i64>| {
                ids.into_iter().filter_map(|id| Some(self.view(id)?.buffer)).collect::<Vec<_>>()
            };
            let is_kept = |at: &usize| {
                let is_scratch = self.buffers.get(*at).is_some_and(|of| matches!(of.kind, Kind::Scratch));
                !is_scratch || read.contains(at)
            };
            if buffers(writes).iter().any(is_kept) {
                read.extend(buffers(reads));
                kept.push(step);
            }
        }
        kept.reverse();
        self.steps = kept;
    }

    /// Sets the views of the outputs, in order. One that does not have an output's layout and its own memory is copied.
    pub fn finish(&mut self, outputs: &[View]) -> Result<(), String> {
        let mut outputs = outputs.to_vec();
        self.write_as_outputs(&mut outputs);
        for (at, view) in outputs.iter().enumerate() {
            self.outputs.push(view.dims.to_vec());
            let buffer = self.buffers.get_mut(view.buffer);
            match buffer {
                Some(buffer)
                    if matches!(buffer.kind, Kind::Scratch)
                        && view.offset == 0
                        && view.is_packed()
                        && view.elements() == buffer.elements =>
                {
                    buffer.kind = Kind::Output(at);
                }
                _ => {
                    let own = self.buffer(Kind::Output(at), view.element, view.elements(), false);
                    let to = View::packed(own, view.element, &view.dims);
                    self.copy(view, &to)?;
                }
            }
        }
        self.compute_as_read();
        self.prune();
        Ok(())
    }

    /// The tensor in hipDNN's graph.
    pub fn as_graph_tensor(&self, id: i64, is_virtual: bool) -> Option<Tensor> {
        match self.get(id)? {
            Operand::Number(value, rank) => {
                let kind =
                    if matches!(value, TensorValue::Float64(_)) { DataType::Double } else { DataType::Float };
                let ones = vec![1; *rank];
                Some(Tensor { value: Some(*value), ..Tensor::new(id, kind, &ones, &ones) })
            }
            Operand::View(view) => {
                let kind = view.element.data_type()?;
                let tensor = if view.dims.is_empty() {
                    Tensor::new(id, kind, &[1], &[1])
                } else {
                    Tensor::new(id, kind, &view.dims, &view.strides)
                };
                // The application's memory may be unaligned, and so may a part of a tensor.
                let size = view.element.size() as i64;
                let is_aligned = is_virtual || self.is_aligned && view.offset * size % ALIGNMENT == 0;
                let alignment = if is_aligned { ALIGNMENT } else { size };
                Some(Tensor { is_virtual, alignment, ..tensor })
            }
        }
    }
}
