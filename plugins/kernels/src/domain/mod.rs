//! Kernels over the elements of a domain: values that are loaded, computed and reduced along rows, and stored.
//!
//! A [`Program`] is a list of values, each of earlier ones. [`write`](Program::write) makes it a kernel: without reductions each thread
//! computes some elements side by side; with reductions the threads of a workgroup pass over one or more rows, once for each reduction
//! that needs another's result, and once more to store elements.

mod axes;
mod elements;
mod epilogue;
mod rows;

use std::fmt;
use std::rc::Rc;

use crate::builder::Builder;
use crate::form::{Instruction, Kernel, Parameter, Pointer, Value};
use crate::scalar::Scalar;
use crate::target::Target;
pub use epilogue::Epilogue;
pub(crate) use epilogue::Finish;

/// A tensor, broadcast to the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its place in [`Program::parameters`].
    pub parameter: usize,
    /// The type of its elements.
    pub scalar: Scalar,
    /// Its stride along each dimension of the domain, in elements; 0 where it is broadcast.
    pub strides: Vec<usize>,
    /// What the address of its first element is a multiple of, in bytes.
    pub alignment: usize,
}

/// How values of a row are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The least; a NaN if any is.
    Least,
    /// The greatest; a NaN if any is.
    Greatest,
}

/// Writes a value computed from others.
pub type Write = Rc<dyn Fn(&mut Builder, &[Value]) -> Value>;

/// Writes a value gathered from whole tensors: their pointers, and the element's index along each dimension.
pub type Gather = Rc<dyn Fn(&mut Builder, &[Pointer], &[Value]) -> Value>;

/// How a value is obtained.
#[derive(Clone)]
pub enum Origin {
    /// From memory, in the value's type.
    Load(Access),
    /// The result that an [`Epilogue`] goes on from.
    Given,
    /// It is passed: the place of the parameter.
    Number(usize),
    /// The element's index along a dimension.
    Index(usize),
    /// From other values.
    Compute(Vec<usize>, Write),
    /// The combination of a row's values.
    Reduce(Join, usize),
    /// From whole tensors: the places of their parameters.
    Gather(Vec<usize>, Gather),
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(access) => write!(f, "Load({access:?})"),
            Self::Given => f.write_str("Given"),
            Self::Number(place) => write!(f, "Number({place})"),
            Self::Index(axis) => write!(f, "Index({axis})"),
            Self::Compute(inputs, _) => write!(f, "Compute({inputs:?})"),
            Self::Reduce(join, input) => write!(f, "Reduce({join:?}, {input})"),
            Self::Gather(tensors, _) => write!(f, "Gather({tensors:?})"),
        }
    }
}

/// A value.
#[derive(Clone, Debug)]
pub struct Node {
    /// How it is obtained.
    pub origin: Origin,
    /// Its type, of those that compute.
    pub scalar: Scalar,
    /// Whether it is the same for all elements of a row.
    pub is_of_row: bool,
    /// How many passes over the row come before it.
    pub pass: usize,
}

/// A value that is stored.
#[derive(Clone, Debug)]
pub struct Store {
    /// The value.
    pub value: usize,
    /// Where.
    pub access: Access,
}

/// Values over a domain.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Elements along each dimension.
    pub dims: Vec<usize>,
    /// Which dimensions are reduced, if any.
    pub reduced: Option<Vec<bool>>,
    /// What is passed.
    pub parameters: Vec<Parameter>,
    /// The values.
    pub nodes: Vec<Node>,
    /// What is stored.
    pub stores: Vec<Store>,
    /// Whether the bits of a row depend on its own elements only, not on how many rows there are.
    pub is_invariant: bool,
}

/// A kernel and how many workgroups it needs along each axis.
#[derive(Clone, Debug)]
pub struct Written {
    /// The kernel. Its parameters are those of the program.
    pub kernel: Kernel,
    /// Workgroups along each axis.
    pub groups: [u32; 3],
}

/// The most workgroups along the first axis; more continue along the second.
const ACROSS: usize = 32768;

/// Workgroups along the axes for a number of them; none if it is too large.
fn groups(count: usize) -> Option<[u32; 3]> {
    let down = count.div_ceil(ACROSS);
    if down > ACROSS {
        return None;
    }
    let across = if down > 1 { ACROSS } else { count.max(1) };
    Some([across as u32, down.max(1) as u32, 1])
}

/// The number of the workgroup.
fn group(b: &mut Builder, groups: [u32; 3]) -> Value {
    let own = b.index(crate::form::Index::Group(0));
    if groups[1] == 1 {
        return own;
    }
    let line = b.index(crate::form::Index::Group(1));
    let before = b.mul(line, ACROSS);
    b.add(before, own)
}

impl Program {
    /// Adds a value.
    pub fn push(&mut self, origin: Origin, scalar: Scalar) -> usize {
        let of = |inputs: &[usize]| {
            let nodes = || inputs.iter().filter_map(|input| self.nodes.get(*input));
            (nodes().all(|node| node.is_of_row), nodes().map(|node| node.pass).max().unwrap_or(0))
        };
        let (is_of_row, pass) = match &origin {
            Origin::Load(access) => (self.is_of_row(access), 0),
            Origin::Given | Origin::Index(_) | Origin::Gather(..) => (false, 0),
            Origin::Number(_) => (true, 0),
            Origin::Compute(inputs, _) => of(inputs),
            Origin::Reduce(_, input) => (true, of(&[*input]).1 + 1),
        };
        self.nodes.push(Node { origin, scalar, is_of_row, pass });
        self.nodes.len() - 1
    }

    /// Whether all elements of a row load the same.
    fn is_of_row(&self, access: &Access) -> bool {
        let Some(reduced) = &self.reduced else { return false };
        reduced.iter().zip(&access.strides).all(|(reduced, stride)| !reduced || *stride == 0)
    }

    /// Adds a value computed from others of its type.
    pub fn compute(
        &mut self,
        scalar: Scalar,
        inputs: &[usize],
        write: impl Fn(&mut Builder, &[Value]) -> Value + 'static,
    ) -> usize {
        self.push(Origin::Compute(inputs.to_vec(), Rc::new(write)), scalar)
    }

    /// Whether a value is gathered, which is too slow to repeat.
    pub fn gathers(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.origin, Origin::Gather(..)))
    }

    /// The accesses to memory, loads first.
    fn accesses(&self) -> impl Iterator<Item = &Access> {
        let loads = self.nodes.iter().filter_map(|node| match &node.origin {
            Origin::Load(access) => Some(access),
            _ => None,
        });
        loads.chain(self.stores.iter().map(|store| &store.access))
    }

    /// The kernel for a device.
    ///
    /// # Errors
    /// When there are more workgroups or elements than can be counted.
    pub fn write(&self, name: &str, target: &Target) -> Result<Written, String> {
        let too_large = || format!("dims {:?} have more elements than a kernel counts", self.dims);
        let elements = self.dims.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
        if elements.is_none_or(|elements| elements > i32::MAX as usize / 2) {
            return Err(too_large());
        }
        let written = if self.reduced.is_some() {
            rows::write(self, name, target)
        } else {
            elements::write(self, name, target)
        };
        written.ok_or_else(too_large)
    }
}

/// What is evaluated in one place: elements side by side, and the values that are known there.
struct Scope<'a> {
    program: &'a Program,
    /// The pointers of the program's parameters; numbers have none.
    pointers: &'a [Passed],
    /// The values of each node for each element.
    known: Vec<Option<Vec<Value>>>,
    /// Elements that are evaluated at once.
    lanes: usize,
    /// Where the first element is: the index along each dimension, if wanted, and the index in each tensor.
    place: Place<'a>,
}

/// A parameter in the kernel.
#[derive(Clone, Copy)]
enum Passed {
    Memory(Pointer),
    Number(Value),
}

/// Finds elements.
struct Place<'a> {
    /// The index along each dimension of the domain.
    indices: &'a dyn Fn(&mut Builder, usize) -> Value,
    /// The index in a tensor.
    offset: &'a dyn Fn(&mut Builder, &Access) -> Value,
    /// The distance of neighbouring elements in a tensor.
    apart: &'a dyn Fn(&Access) -> usize,
    /// How many neighbouring elements are accessed together, where their distance is not 0.
    together: &'a dyn Fn(&Access) -> usize,
}

/// Declares the program's parameters.
fn declare(b: &mut Builder, program: &Program) -> Vec<Passed> {
    let mut numbers = Vec::new();
    let pointers: Vec<(Pointer, Parameter)> =
        program.parameters.iter().map(|parameter| (b.parameter(*parameter), *parameter)).collect();
    for (pointer, parameter) in pointers {
        numbers.push(match parameter {
            Parameter::Memory { .. } => Passed::Memory(pointer),
            Parameter::Number(scalar) => {
                let out = b.value(scalar);
                b.push(Instruction::Number { out, parameter: pointer });
                Passed::Number(out)
            }
        });
    }
    numbers
}

impl Scope<'_> {
    /// The values of a node, one for each element.
    fn of(&mut self, b: &mut Builder, node: usize) -> Vec<Value> {
        if let Some(Some(known)) = self.known.get(node) {
            return known.clone();
        }
        let Some(Node { origin, scalar, is_of_row, .. }) = self.program.nodes.get(node) else {
            return Vec::new();
        };
        let values = match origin {
            Origin::Load(access) => self.load(b, access, *scalar),
            Origin::Number(place) => match self.pointers.get(*place) {
                Some(Passed::Number(value)) => vec![b.convert(*value, *scalar)],
                _ => Vec::new(),
            },
            Origin::Index(axis) => {
                let index = (self.place.indices)(b, *axis);
                vec![b.convert(index, *scalar)]
            }
            Origin::Compute(inputs, write) => {
                let inputs: Vec<(Vec<Value>, Scalar)> =
                    inputs.iter().map(|input| (self.of(b, *input), self.scalar(*input))).collect();
                // Values of a row are computed once for all elements.
                let lanes = if *is_of_row { 1 } else { self.lanes };
                let one = |lane: usize| {
                    let own: Vec<Value> = inputs
                        .iter()
                        .map(|(values, from)| {
                            let own = values.get(lane).or(values.first()).copied().unwrap_or(Value(0));
                            if *from == *scalar || *from == Scalar::Bool {
                                own
                            } else {
                                b.convert(own, *scalar)
                            }
                        })
                        .collect();
                    write(b, &own)
                };
                (0..lanes).map(one).collect()
            }
            Origin::Gather(places, gather) => {
                let pointers: Vec<Pointer> = places
                    .iter()
                    .filter_map(|place| match self.pointers.get(*place) {
                        Some(Passed::Memory(pointer)) => Some(*pointer),
                        _ => None,
                    })
                    .collect();
                let indices: Vec<Value> =
                    (0..self.program.dims.len()).map(|axis| (self.place.indices)(b, axis)).collect();
                vec![gather(b, &pointers, &indices)]
            }
            // The pass that computes it, or the kernel that goes on, has stored it here.
            Origin::Reduce(..) | Origin::Given => Vec::new(),
        };
        if let Some(place) = self.known.get_mut(node) {
            *place = Some(values.clone());
        }
        values
    }

    fn scalar(&self, node: usize) -> Scalar {
        self.program.nodes.get(node).map_or(Scalar::F32, |node| node.scalar)
    }

    fn pointer(&self, access: &Access) -> Option<crate::form::Memory> {
        match self.pointers.get(access.parameter)? {
            Passed::Memory(pointer) => Some(crate::form::Memory::Global(*pointer)),
            Passed::Number(_) => None,
        }
    }

    fn load(&mut self, b: &mut Builder, access: &Access, scalar: Scalar) -> Vec<Value> {
        let Some(memory) = self.pointer(access) else { return Vec::new() };
        let offset = (self.place.offset)(b, access);
        if self.lanes == 1 || (self.place.apart)(access) == 0 {
            let own = b.load(memory, offset);
            return vec![b.convert(own, scalar)];
        }
        let (together, apart) = ((self.place.together)(access).max(1), (self.place.apart)(access));
        let mut values = Vec::with_capacity(self.lanes);
        for first in (0..self.lanes).step_by(together) {
            let at = b.add(offset, first * apart);
            let all = b.load_vector(memory, at, together);
            values.extend((0..together).map(|lane| {
                let own = if together == 1 { all } else { b.extract(all, lane) };
                b.convert(own, scalar)
            }));
        }
        values
    }

    /// Stores a value's elements.
    fn store(&mut self, b: &mut Builder, store: &Store) {
        let values = self.of(b, store.value);
        let Some(memory) = self.pointer(&store.access) else { return };
        let offset = (self.place.offset)(b, &store.access);
        let parts: Vec<Value> = (0..self.lanes)
            .filter_map(|lane| values.get(lane).or(values.first()).copied())
            .map(|value| b.convert(value, store.access.scalar))
            .collect();
        let (together, apart) =
            ((self.place.together)(&store.access).max(1), (self.place.apart)(&store.access));
        for (place, parts) in parts.chunks(together).enumerate() {
            let at = b.add(offset, place * together * apart);
            match parts {
                [one] => b.store(memory, at, *one),
                parts => {
                    let all = b.build(parts);
                    b.store(memory, at, all);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
