//! An ONNX graph as plain data, copied from ONNX Runtime: nodes, values, attributes, small constants.

mod attributes;
mod element;
mod part;
mod read;
pub mod save;

pub use element::{Element, compute_type, half_to_f64, nibble};
pub use read::{Source, of_fused, of_graph};

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::memory::Memory;

/// The index of a value in [`Model::values`].
pub type ValueId = usize;

/// A graph.
#[derive(Debug, Default)]
pub struct Model {
    /// All values that nodes read and write.
    pub values: Vec<Value>,
    /// The nodes in an order in which every value is written before it is read.
    pub nodes: Vec<Node>,
    /// The inputs of a fused node, in its order. Empty for graphs.
    pub inputs: Vec<ValueId>,
    /// The outputs of a fused node, in its order. Empty for graphs.
    pub outputs: Vec<ValueId>,
}

/// A dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number known before execution.
    Known(i64),
    /// A symbol: open dimensions of one name have one number.
    Open(usize),
}

/// A value that nodes read and write.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Its name, unique in the graph.
    pub name: String,
    /// The type of an element; none if the value is not a tensor.
    pub element: Option<Element>,
    /// Its dimensions; none if not even their number is known.
    pub dims: Option<Vec<Dim>>,
    /// Whether it is the same in every execution.
    pub is_constant: bool,
    /// The elements of a small constant.
    pub constant: Option<Constant>,
    /// The elements of a large constant.
    pub kept: Option<Kept>,
}

/// Elements in ONNX Runtime's memory, which keeps constants in place as long as a session lives; or a copy of them.
#[derive(Clone, Debug)]
pub struct Kept {
    start: *const u8,
    bytes: usize,
    /// The copy.
    _own: Option<Arc<Memory>>,
}

// SAFETY: `new` requires that the bytes are never written, and nothing writes a copy.
unsafe impl Send for Kept {}
// SAFETY: `new` requires that the bytes are never written, and nothing writes a copy.
unsafe impl Sync for Kept {}

impl Kept {
    /// Elements at an address.
    ///
    /// # Safety
    /// `start` is readable for this many bytes, which are never written, as long as this object and its clones; without bytes it may
    /// be null.
    pub unsafe fn new(start: *const u8, bytes: usize) -> Self {
        Self { start, bytes, _own: None }
    }

    /// The first bytes, and their number.
    pub fn of(memory: Arc<Memory>, bytes: usize) -> Self {
        Self { start: memory.as_ptr(), bytes: bytes.min(memory.bytes()), _own: Some(memory) }
    }

    /// The elements as stored in memory.
    pub fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: `new` requires that the bytes stay as long as this object, or they are in the object's own memory.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Elements known before execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The type of an element.
    pub element: Element,
    /// Its dimensions.
    pub dims: Vec<i64>,
    /// The elements as stored in memory.
    pub bytes: Vec<u8>,
}

impl Constant {
    /// The elements as integers, for integer types.
    pub fn integers(&self) -> Option<Vec<i64>> {
        match self.element {
            Element::Int64 => Some(self.chunks().map(i64::from_ne_bytes).collect()),
            Element::Int32 => Some(self.chunks().map(|b| i64::from(i32::from_ne_bytes(b))).collect()),
            Element::Int8 => Some(self.chunks().map(|b| i64::from(i8::from_ne_bytes(b))).collect()),
            Element::Int16 => Some(self.chunks().map(|b| i64::from(i16::from_ne_bytes(b))).collect()),
            Element::Uint16 => Some(self.chunks().map(|b| i64::from(u16::from_ne_bytes(b))).collect()),
            Element::Uint4 | Element::Int4 => {
                let is_signed = self.element == Element::Int4;
                let of = |at: usize| {
                    let byte = nibble(*self.bytes.get(at / 2)?, at % 2, is_signed);
                    Some(if is_signed { i64::from(byte.cast_signed()) } else { i64::from(byte) })
                };
                let count = self
                    .dims
                    .iter()
                    .try_fold(1_usize, |all, dim| all.checked_mul(usize::try_from(*dim).ok()?))?;
                (0..count).map(of).collect()
            }
            Element::Uint8 | Element::Bool => self.bytes.iter().map(|b| Some(i64::from(*b))).collect(),
            _ => None,
        }
    }

    /// The elements as doubles.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        match self.element {
            Element::Float => Some(self.chunks().map(|b| f64::from(f32::from_ne_bytes(b))).collect()),
            Element::Double => Some(self.chunks().map(f64::from_ne_bytes).collect()),
            Element::Half => Some(self.chunks().map(|b| half_to_f64(u16::from_ne_bytes(b))).collect()),
            Element::Bfloat16 => {
                let wide = |b| f64::from(f32::from_bits(u32::from(u16::from_ne_bytes(b)) << 16));
                Some(self.chunks().map(wide).collect())
            }
            _ => Some(self.integers()?.into_iter().map(|number| number as f64).collect()),
        }
    }

    /// The single element of a scalar, or of a tensor with one element.
    pub fn scalar(&self) -> Option<f64> {
        match self.numbers()?.as_slice() {
            [number] => Some(*number),
            _ => None,
        }
    }

    fn chunks<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> {
        self.bytes.as_chunks::<N>().0.iter().copied()
    }
}

/// A node of the graph.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name; may be empty.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// The operator's domain; empty means ONNX's own.
    pub domain: String,
    /// The operator set version of its definition.
    pub since: i32,
    /// Its inputs; none for an absent optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// Its outputs; none for an unwanted optional output.
    pub outputs: Vec<Option<ValueId>>,
    /// The values of this graph that its subgraphs read.
    pub implicit: Vec<ValueId>,
    /// Its attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// The execution provider that has claimed it already; empty if none has.
    pub taken_by: String,
}

/// An attribute of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
    /// Numbers.
    Floats(Vec<f32>),
    /// A text.
    Text(String),
    /// A tensor.
    Tensor(Constant),
    /// Texts.
    Texts(Vec<String>),
    /// A text that is not UTF-8.
    NotUtf8,
    /// A graph, or an unknown kind.
    Other,
}

impl Node {
    /// The attribute, or its default.
    pub fn int(&self, name: &str, absent: i64) -> i64 {
        match self.attributes.get(name) {
            Some(Attribute::Int(value)) => *value,
            _ => absent,
        }
    }

    /// The attribute, or its default.
    pub fn float(&self, name: &str, absent: f32) -> f32 {
        match self.attributes.get(name) {
            Some(Attribute::Float(value)) => *value,
            _ => absent,
        }
    }

    /// The attribute, if present.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// The attribute, or its default.
    pub fn text<'a>(&'a self, name: &str, absent: &'a str) -> &'a str {
        match self.attributes.get(name) {
            Some(Attribute::Text(text)) => text,
            _ => absent,
        }
    }

    /// Its name in messages.
    pub fn title(&self) -> String {
        let domain = if self.domain.is_empty() { String::new() } else { format!("{}.", self.domain) };
        format!("{domain}{} {:?}", self.operator, self.name)
    }

    /// Its name in profiles: that of its operator if it has none.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { &self.operator } else { &self.name }
    }

    /// The values that it reads, including those that its subgraphs read.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().flatten().chain(&self.implicit).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_without_elements_may_be_at_null() {
        // SAFETY: no bytes are read.
        let kept = unsafe { Kept::new(std::ptr::null(), 0) };
        assert!(kept.clone().bytes().is_empty());
    }
}
