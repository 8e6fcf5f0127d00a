//! Nodes that one kernel computes together.

use std::collections::HashMap;

use hipdnn_kernels::domain::{Access, Epilogue, Join, Origin, Program, Store};
use hipdnn_kernels::form::Parameter;
use hipdnn_kernels::{Builder, Scalar, Value};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::{Layout, MAX_RANK};
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::{Graph, Tensor};

use crate::Argument;
use crate::codes::{scalar, seen};

/// Maximum number of tensors of a kernel's nodes, so that its arguments stay within the limit.
pub const MAX_TENSORS: usize = 128;

/// Maximum extent of a tensor in elements.
const MAX_ELEMENTS: usize = i32::MAX as usize;

/// The dimensions that a kernel iterates over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Number of elements along each dimension.
    pub dims: Vec<usize>,
    /// Which dimensions are reduced, if any.
    pub reduced: Option<Vec<bool>>,
}

impl Domain {
    /// The dims of reduced results.
    pub fn rows(&self) -> Option<Vec<usize>> {
        let reduced = self.reduced.as_ref()?;
        Some(self.dims.iter().zip(reduced).map(|(dim, reduced)| if *reduced { 1 } else { *dim }).collect())
    }
}

/// A kernel's values while nodes are added.
#[derive(Clone, Debug)]
pub struct Group {
    /// The values.
    pub program: Program,
    /// What is passed, in the order of the program's parameters.
    pub arguments: Vec<Argument>,
    /// The indices of its nodes in the graph, without duplicates.
    pub nodes: Vec<usize>,
    /// Number of tensors of its nodes.
    pub tensors: usize,
    written: HashMap<i64, usize>,
    /// The tensors of the program's stores.
    stored: Vec<i64>,
}

/// Whether a computing type has every value of a type of elements.
fn holds(real: Scalar, element: Scalar) -> bool {
    element == real || (element == Scalar::F64 && real == Scalar::F32)
}

impl Group {
    /// A kernel without nodes.
    pub fn new(domain: Domain) -> Self {
        Self {
            program: Program { dims: domain.dims, reduced: domain.reduced, ..Program::default() },
            arguments: Vec::new(),
            nodes: Vec::new(),
            tensors: 0,
            written: HashMap::new(),
            stored: Vec::new(),
        }
    }

    /// Its domain.
    pub fn domain(&self) -> Domain {
        Domain { dims: self.program.dims.clone(), reduced: self.program.reduced.clone() }
    }

    /// Whether a tensor that this kernel writes is of rows, or of elements; none if it does not write it.
    pub fn is_of_row(&self, uid: i64) -> Option<bool> {
        let value = self.written.get(&uid)?;
        self.program.nodes.get(*value).map(|node| node.is_of_row)
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// The tensors in memory that the kernel reads.
    pub fn reads(&self) -> impl Iterator<Item = i64> + '_ {
        let places = self.program.nodes.iter().flat_map(|node| match &node.origin {
            Origin::Load(access) => vec![access.parameter],
            Origin::Gather(places, _) => places.clone(),
            _ => Vec::new(),
        });
        places.filter_map(|place| self.arguments.get(place)).map(Argument::uid)
    }

    /// Keeps only the stores of some tensors.
    pub fn retain(&mut self, keeps: impl Fn(i64) -> bool) {
        let kept: Vec<bool> = self.stored.iter().map(|uid| keeps(*uid)).collect();
        let mut next = kept.iter();
        self.program.stores.retain(|_| next.next().copied().unwrap_or(false));
        let mut next = kept.iter();
        self.stored.retain(|_| next.next().copied().unwrap_or(false));
        // Arguments that no access names any more are not passed.
        let mut used = vec![false; self.arguments.len()];
        self.each_parameter(|place| {
            if let Some(used) = used.get_mut(*place) {
                *used = true;
            }
        });
        let mut names = Vec::with_capacity(used.len());
        let mut count = 0;
        for used in &used {
            names.push(count);
            count += usize::from(*used);
        }
        self.each_parameter(|place| *place = names.get(*place).copied().unwrap_or(0));
        let mut next = used.iter();
        self.arguments.retain(|_| next.next().copied().unwrap_or(false));
        let mut next = used.iter();
        self.program.parameters.retain(|_| next.next().copied().unwrap_or(false));
    }

    /// The group as the epilogue of a kernel that computes this tensor, and what is passed for it; none if it does not read each of the
    /// tensor's elements once, in its place.
    pub fn epilogue_of(&self, tensor: &Tensor) -> Option<(Epilogue, Vec<Argument>)> {
        let dims = self.program.dims.iter().copied();
        let is_whole = dims.eq(tensor.dims.iter().map(|dim| *dim as usize));
        if self.program.reduced.is_some() || self.program.gathers() || !is_whole {
            return None;
        }
        let own = |axis: usize| match (tensor.dims.get(axis), tensor.strides.get(axis)) {
            (Some(dim), Some(stride)) if *dim != 1 => *stride as usize,
            _ => 0,
        };
        let of_tensor = Argument::Memory(tensor.uid);
        let mut made = self.clone();
        let mut reads = false;
        for node in &mut made.program.nodes {
            let Origin::Load(access) = &node.origin else { continue };
            if made.arguments.get(access.parameter) != Some(&of_tensor) {
                continue;
            }
            if access.strides.iter().enumerate().any(|(axis, stride)| *stride != own(axis)) {
                return None;
            }
            node.origin = Origin::Given;
            reads = true;
        }
        // A group that reads other tensors only must not take the place of the result.
        if !reads {
            return None;
        }
        made.retain(|_| true);
        let scalar = scalar(tensor.data_type).ok()?;
        // It is stored by no kernel then.
        let is_gone = !made.arguments.contains(&of_tensor);
        is_gone.then_some((Epilogue { program: made.program, scalar }, made.arguments))
    }

    /// Calls a function with the parameter of every access.
    fn each_parameter(&mut self, mut f: impl FnMut(&mut usize)) {
        for node in &mut self.program.nodes {
            match &mut node.origin {
                Origin::Load(access) => f(&mut access.parameter),
                Origin::Number(place) => f(place),
                Origin::Gather(places, _) => places.iter_mut().for_each(&mut f),
                Origin::Given | Origin::Index(_) | Origin::Compute(..) | Origin::Reduce(..) => {}
            }
        }
        self.program.stores.iter_mut().for_each(|store| f(&mut store.access.parameter));
    }

    /// The place of a parameter, which is added if it is new.
    fn parameter(&mut self, argument: Argument, parameter: Parameter) -> usize {
        let known = self.arguments.iter().zip(&self.program.parameters).position(|(known, own)| {
            let is_same = match (own, &parameter) {
                (Parameter::Memory { scalar, .. }, Parameter::Memory { scalar: other, .. }) => {
                    scalar == other
                }
                (own, other) => own == other,
            };
            *known == argument && is_same
        });
        known.unwrap_or_else(|| {
            self.arguments.push(argument);
            self.program.parameters.push(parameter);
            self.arguments.len() - 1
        })
    }

    /// A tensor in memory, broadcast to the domain.
    fn access(&mut self, tensor: &Tensor, strides: &[usize], writes: bool) -> Result<Access, Refusal> {
        let scalar = scalar(tensor.data_type)
            .map_err(|refusal| format!("tensor {} \"{}\": {refusal}", tensor.uid, tensor.name))?;
        self.access_as(scalar, tensor, strides, writes)
    }

    /// The same, of elements that kernels see as another type.
    fn access_as(
        &mut self,
        scalar: Scalar,
        tensor: &Tensor,
        strides: &[usize],
        writes: bool,
    ) -> Result<Access, Refusal> {
        let name = |refusal: String| format!("tensor {} \"{}\": {refusal}", tensor.uid, tensor.name);
        let layout = Layout::of(tensor).map_err(name)?;
        if layout.elements() > MAX_ELEMENTS || layout.extent() > MAX_ELEMENTS {
            let reach = layout.extent().max(layout.elements());
            return Err(name(format!(
                "dims {:?} with strides {:?} reach over {reach} elements, expected at most {MAX_ELEMENTS}",
                tensor.dims, tensor.strides
            )));
        }
        // Virtual tensors are in the workspace, where the plan aligns them.
        let promised = if tensor.is_virtual { ALIGNMENT as i64 } else { tensor.alignment };
        let alignment =
            usize::try_from(promised).ok().filter(|alignment| alignment.is_power_of_two()).unwrap_or(1);
        let parameter = Parameter::Memory { scalar, written: writes, alignment: scalar.size() };
        let place = self.parameter(Argument::Memory(tensor.uid), parameter);
        if let Some(Parameter::Memory { written, .. }) = self.program.parameters.get_mut(place) {
            *written |= writes;
        }
        let mut own = strides.to_vec();
        own.resize(self.program.dims.len(), 0);
        Ok(Access { parameter: place, scalar, strides: own, alignment })
    }

    /// The value of a tensor's element: computed by this kernel, or else loaded.
    ///
    /// # Errors
    /// When its type or size is not supported.
    pub fn operand(
        &mut self,
        graph: &Graph,
        uid: i64,
        strides: &[usize],
        real: Scalar,
    ) -> Result<usize, Refusal> {
        if let Some(value) = self.written.get(&uid) {
            return Ok(*value);
        }
        let tensor = tensor(graph, uid)?;
        let name = |refusal: String| format!("tensor {uid} \"{}\": {refusal}", tensor.name);
        let element = scalar(tensor.data_type).map_err(name)?;
        if let Some(value) = &tensor.value {
            let number = value.as_f64().ok_or_else(|| name(BYTE_FLOAT.to_owned()))?;
            return Ok(self.constant(number, real, element));
        }
        if tensor.is_runtime_pass_by_value {
            if matches!(element, Scalar::Fp8E4m3 | Scalar::Fp8E5m2) {
                return Err(name(BYTE_FLOAT.to_owned()));
            }
            let argument = Argument::Number { uid, data_type: tensor.data_type };
            let place = self.parameter(argument, Parameter::Number(Scalar::F64));
            return Ok(self.program.push(Origin::Number(place), real));
        }
        let access = self.access(tensor, strides, false)?;
        let known = self.program.nodes.iter().position(|node| {
            node.scalar == real && matches!(&node.origin, Origin::Load(known) if *known == access)
        });
        Ok(known.unwrap_or_else(|| self.program.push(Origin::Load(access), real)))
    }

    /// A number that was rounded to a type of elements.
    pub fn constant(&mut self, number: f64, real: Scalar, element: Scalar) -> usize {
        self.program.compute(real, &[], move |b, _| {
            let own = b.float(number, real);
            rounded(b, own, element)
        })
    }

    /// A value computed from others.
    pub fn compute(
        &mut self,
        real: Scalar,
        inputs: &[usize],
        write: impl Fn(&mut Builder, &[Value]) -> Value + 'static,
    ) -> usize {
        self.program.compute(real, inputs, write)
    }

    /// The combination of a row's values.
    pub fn reduce(&mut self, real: Scalar, join: Join, input: usize) -> usize {
        self.program.push(Origin::Reduce(join, input), real)
    }

    /// A value gathered from whole tensors. Types that kernels do not have are seen as bytes.
    ///
    /// # Errors
    /// When a tensor is passed by value, or its type or size is not supported.
    pub fn gather(
        &mut self,
        graph: &Graph,
        real: Scalar,
        tensors: &[i64],
        gather: hipdnn_kernels::domain::Gather,
    ) -> Result<usize, Refusal> {
        let mut places = Vec::with_capacity(tensors.len());
        for uid in tensors {
            let tensor = tensor(graph, *uid)?;
            if tensor.value.is_some() || tensor.is_runtime_pass_by_value {
                return Err(format!(
                    "tensor {uid} \"{}\": is passed by value, expected a tensor in memory",
                    tensor.name
                ));
            }
            places.push(self.access_as(seen(tensor.data_type), tensor, &[0; MAX_RANK], false)?.parameter);
        }
        Ok(self.program.push(Origin::Gather(places, gather), real))
    }

    /// Makes a value an element of a tensor, rounded to the tensor's type.
    ///
    /// # Errors
    /// When the tensor's type or size is not supported.
    pub fn write(&mut self, graph: &Graph, uid: i64, strides: &[usize], value: usize) -> Result<(), Refusal> {
        let tensor = tensor(graph, uid)?;
        let access = self.access(tensor, strides, true)?;
        let (element, real) = (access.scalar, self.scalar(value));
        // The store rounds; nodes that read the tensor use the rounded value.
        let seen = if holds(real, element) {
            value
        } else {
            self.compute(real, &[value], move |b, own| {
                own.first().map_or(Value(0), |own| rounded(b, *own, element))
            })
        };
        self.written.insert(uid, seen);
        self.program.stores.push(Store { value, access });
        self.stored.push(uid);
        Ok(())
    }

    /// The type of a value.
    pub fn scalar(&self, value: usize) -> Scalar {
        self.program.nodes.get(value).map_or(Scalar::F32, |node| node.scalar)
    }
}

/// A value as it comes back from memory of a type.
fn rounded(b: &mut Builder, value: Value, element: Scalar) -> Value {
    let real = b.type_of(value).scalar;
    if holds(real, element) {
        return value;
    }
    let stored = b.convert(value, element);
    b.convert(stored, real)
}

fn tensor(graph: &Graph, uid: i64) -> Result<&Tensor, Refusal> {
    graph.tensor(uid).ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))
}

/// The reason to refuse a scalar.
const BYTE_FLOAT: &str = "has an 8-bit float as its value, expected a wider type";
