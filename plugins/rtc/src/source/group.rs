//! Nodes that one kernel computes together.

#![expect(
    clippy::indexing_slicing,
    reason = "numbers and accesses are named by the places they were given here"
)]

use std::collections::{BTreeSet, HashMap};

pub use hipdnn_plugin_lowering::group::{Domain, MAX_TENSORS};
use hipdnn_plugin_planner::layout::MAX_RANK;
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Tensor, TensorValue};

use super::strip::Strip;
use super::value::{Access, Level, Origin, Place, Real, Store, Value, element};
use crate::Refusal;

/// Maximum number of elements that a kernel iterates over, and maximum extent of a tensor in elements.
const MAX_ELEMENTS: usize = i32::MAX as usize;

/// A kernel's values while nodes are added.
#[derive(Clone, Debug)]
pub struct Group {
    /// The iteration domain.
    pub domain: Domain,
    /// The values; each depends on earlier ones only.
    pub values: Vec<Value>,
    /// The memory accesses for reading.
    pub accesses: Vec<Access>,
    /// The tensors written by the kernel; not all of them need memory.
    pub stores: Vec<Store>,
    /// Number of tensors of its nodes.
    pub tensors: usize,
    /// Whether the last workgroup processes the first elements, to reuse what an earlier kernel left in the
    /// cache.
    pub backward: bool,
    /// Whether the order of a row's sums may not depend on the number of rows.
    pub batch_invariant: bool,
    /// The indices of its nodes in the graph, without duplicates, even if it computes only part of a node.
    pub nodes: Vec<usize>,
    /// The strips in which its only gathered value is computed; none if a thread computes one element.
    pub strip: Option<Strip>,
    written: HashMap<i64, usize>,
    loads: Vec<(usize, i64, Real)>,
}

impl Group {
    /// A kernel without nodes.
    pub fn new(domain: Domain) -> Self {
        Self {
            domain,
            values: Vec::new(),
            accesses: Vec::new(),
            stores: Vec::new(),
            tensors: 0,
            backward: false,
            batch_invariant: false,
            nodes: Vec::new(),
            strip: None,
            written: HashMap::new(),
            loads: Vec::new(),
        }
    }

    /// The level of a tensor written by this kernel.
    pub fn level_of(&self, uid: i64) -> Option<Level> {
        self.written.get(&uid).map(|value| self.values[*value].level)
    }

    /// The tensors in memory that the kernel reads.
    pub fn reads(&self) -> impl Iterator<Item = i64> + '_ {
        self.accesses.iter().filter_map(|access| match access.place {
            Place::Memory(uid) => Some(uid),
            Place::Argument(_) | Place::Offset => None,
        })
    }

    /// Makes the kernel start at the end of its largest input that the last kernel ended at. `walked` has the
    /// tensors that earlier kernels accessed, and whether each was last walked backward.
    pub fn turn(&mut self, walked: &mut HashMap<i64, bool>) {
        let memory = |access: &Access| match access.place {
            Place::Memory(uid) => Some((self.covers(access), uid)),
            Place::Argument(_) | Place::Offset => None,
        };
        let largest = self.accesses.iter().filter_map(memory).max();
        self.backward = largest.and_then(|(_, uid)| walked.get(&uid)).is_some_and(|backward| !backward);
        let touched: Vec<i64> = self.reads().chain(self.stores.iter().map(|store| store.uid)).collect();
        walked.extend(touched.into_iter().map(|uid| (uid, self.backward)));
    }

    /// Number of distinct bytes that an access touches in the domain.
    fn covers(&self, access: &Access) -> usize {
        let dims = self.domain.dims.iter().zip(&access.strides);
        let elements: usize = dims.filter(|(_, stride)| **stride > 0).map(|(dim, _)| dim).product();
        elements * access.data_type.size().unwrap_or(1)
    }

    /// The value of a tensor's element: computed by this kernel, or else loaded.
    pub fn operand(
        &mut self,
        graph: &Graph,
        uid: i64,
        strides: [usize; MAX_RANK],
        real: Real,
    ) -> Result<usize, Refusal> {
        if let Some(value) = self.written.get(&uid) {
            return Ok(*value);
        }
        let tensor = tensor(graph, uid)?;
        let name = |refusal: String| format!("tensor {uid} \"{}\": {refusal}", tensor.name);
        let tag = element(tensor.data_type).map_err(name)?;
        if let Some(value) = &tensor.value {
            let number = given(value).map_err(name)?;
            let number = real.literal(number);
            let text = if real.holds(tensor.data_type) {
                number
            } else {
                format!("({})({tag}::load({tag}::store({number})))", real.name())
            };
            return Ok(self.compute(Level::Row, real, text, &[]));
        }
        let is_small = matches!(tensor.data_type, DataType::Fp8E4m3 | DataType::Fp8E5m2);
        let place = match tensor.is_runtime_pass_by_value {
            true if is_small => return Err(name(BYTE_FLOAT.to_owned())),
            true => Place::Argument(uid),
            false => Place::Memory(uid),
        };
        let access = access(tensor, place, strides)?;
        Ok(self.load(access, uid, real))
    }

    /// The index along a dimension.
    pub fn index(&mut self, axis: usize, real: Real, data_type: DataType) -> usize {
        let mut strides = [0; MAX_RANK];
        strides[axis] = 1;
        let access = Access { place: Place::Offset, data_type, strides, alignment: 1 };
        self.load(access, -1, real)
    }

    /// A value that a function of the element's indices gathers from whole tensors, which have these names in
    /// it.
    pub fn gather(
        &mut self,
        graph: &Graph,
        real: Real,
        tensors: &[(&'static str, i64)],
        body: String,
        strip: Option<Strip>,
    ) -> Result<usize, Refusal> {
        let mut whole = Vec::with_capacity(tensors.len());
        for (name, uid) in tensors {
            let tensor = tensor(graph, *uid)?;
            if tensor.value.is_some() || tensor.is_runtime_pass_by_value {
                return Err(format!("{name}: is passed by value, expected a tensor in memory"));
            }
            self.accesses.push(access(tensor, Place::Memory(*uid), [0; MAX_RANK])?);
            whole.push((*name, self.accesses.len() - 1));
        }
        let indices = (0..self.domain.dims.len()).map(|axis| {
            let mut strides = [0; MAX_RANK];
            strides[axis] = 1;
            self.accesses.push(Access {
                place: Place::Offset,
                data_type: DataType::Int64,
                strides,
                alignment: 1,
            });
            self.accesses.len() - 1
        });
        let indices = indices.collect();
        let origin = Origin::Gather { whole, indices, body };
        self.strip = strip;
        self.values.push(Value { level: Level::Element, real, pass: 0, origin });
        Ok(self.values.len() - 1)
    }

    /// The values that a value is computed from.
    pub fn inputs(&self, value: usize) -> &[usize] {
        match &self.values[value].origin {
            Origin::Load(_) | Origin::Gather { .. } => &[],
            Origin::Compute { inputs, .. } => inputs,
            Origin::Reduce { input, .. } => std::slice::from_ref(input),
        }
    }

    /// What is stored, and its dependencies.
    pub fn needed(&self) -> BTreeSet<usize> {
        let mut needed: BTreeSet<usize> = BTreeSet::new();
        let mut wanted: Vec<usize> = self.stores.iter().map(|store| store.value).collect();
        while let Some(value) = wanted.pop() {
            if needed.insert(value) {
                wanted.extend(self.inputs(value));
            }
        }
        needed
    }

    /// Whether a value is gathered, which is too slow to repeat.
    pub fn gathers(&self) -> bool {
        self.values.iter().any(|value| matches!(value.origin, Origin::Gather { .. }))
    }

    fn load(&mut self, access: Access, uid: i64, real: Real) -> usize {
        let known = self.loads.iter().find(|(value, known, known_real)| {
            let Origin::Load(place) = self.values[*value].origin else { return false };
            *known == uid && *known_real == real && self.accesses[place] == access
        });
        if let Some((value, ..)) = known {
            return *value;
        }
        self.accesses.push(access);
        let origin = Origin::Load(self.accesses.len() - 1);
        self.values.push(Value { level: Level::Element, real, pass: 0, origin });
        self.loads.push((self.values.len() - 1, uid, real));
        self.values.len() - 1
    }

    /// How a value is spelled where type `real` is needed.
    pub fn name(&self, value: usize, real: Real) -> String {
        if self.values[value].real == real {
            format!("v{value}")
        } else {
            format!("({})v{value}", real.name())
        }
    }

    /// A value computed from `inputs`, which the text refers to.
    pub fn compute(&mut self, level: Level, real: Real, text: String, inputs: &[usize]) -> usize {
        let pass = inputs.iter().map(|input| self.values[*input].pass).max().unwrap_or(0);
        let origin = Origin::Compute { text, inputs: inputs.to_vec() };
        self.values.push(Value { level, real, pass, origin });
        self.values.len() - 1
    }

    /// The value that combines those of a row.
    pub fn reduce(&mut self, real: Real, join: &'static str, start: f64, input: usize) -> usize {
        let pass = self.values[input].pass + 1;
        self.values.push(Value {
            level: Level::Row,
            real,
            pass,
            origin: Origin::Reduce { join, start, input },
        });
        self.values.len() - 1
    }

    /// Whether `power` is e^(x - the row's maximum) and `sum` the sum of that over the row, in single
    /// precision. The sum is at least 1 and far from overflow, or NaN, so its reciprocal can replace a
    /// division.
    pub fn is_softmax(&self, power: usize, sum: usize) -> bool {
        let computed = |value: usize, count: usize, wanted: &dyn Fn(&[usize]) -> String| match &self.values
            [value]
            .origin
        {
            Origin::Compute { text, inputs } if inputs.len() == count && *text == wanted(inputs) => {
                Some(inputs.as_slice())
            }
            _ => None,
        };
        // A reduction is followed by a conversion.
        let joined = |value: usize, function: &str| {
            let [joined] = computed(value, 1, &|inputs| format!("(float)v{}", inputs[0]))? else {
                return None;
            };
            match self.values[*joined].origin {
                Origin::Reduce { join, input, .. } if join == function => Some(input),
                _ => None,
            }
        };
        let exponent = || {
            let [exponent] = computed(power, 1, &|inputs| format!("m_exp(v{})", inputs[0]))? else {
                return None;
            };
            let [x, largest] = computed(*exponent, 2, &|inputs| format!("v{} - v{}", inputs[0], inputs[1]))?
            else {
                return None;
            };
            (joined(*largest, "join_largest")? == *x).then_some(())
        };
        self.values[power].real == Real::Single
            && joined(sum, "join_sum") == Some(power)
            && exponent().is_some()
    }

    /// Makes a value an element of a tensor, rounded to the tensor's type.
    pub fn write(
        &mut self,
        graph: &Graph,
        uid: i64,
        strides: [usize; MAX_RANK],
        value: usize,
    ) -> Result<(), Refusal> {
        let tensor = tensor(graph, uid)?;
        let tag = element(tensor.data_type)
            .map_err(|refusal| format!("tensor {uid} \"{}\": {refusal}", tensor.name))?;
        let Value { level, real, .. } = self.values[value];
        let rounded = if real.holds(tensor.data_type) {
            value
        } else {
            let text = format!("({})({tag}::load({tag}::store(v{value})))", real.name());
            self.compute(level, real, text, &[value])
        };
        let access = access(tensor, Place::Memory(uid), strides)?;
        self.written.insert(uid, rounded);
        // The store rounds; nodes that read the tensor use the rounded value.
        self.stores.push(Store { uid, value, access });
        Ok(())
    }
}

fn tensor(graph: &Graph, uid: i64) -> Result<&Tensor, Refusal> {
    graph.tensor(uid).ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))
}

fn given(value: &TensorValue) -> Result<f64, Refusal> {
    value.as_f64().ok_or_else(|| BYTE_FLOAT.to_owned())
}

/// The reason to refuse a scalar.
const BYTE_FLOAT: &str = "has an 8-bit float as its value, expected a wider type";

/// A tensor broadcast to a domain.
pub(super) fn access(tensor: &Tensor, place: Place, strides: [usize; MAX_RANK]) -> Result<Access, Refusal> {
    let layout = hipdnn_plugin_planner::layout::Layout::of(tensor)?;
    if layout.elements() > MAX_ELEMENTS || layout.extent() > MAX_ELEMENTS {
        return Err(format!(
            "tensor {} \"{}\": dims {:?} with strides {:?} reach over {} elements, expected at most {MAX_ELEMENTS}",
            tensor.uid,
            tensor.name,
            tensor.dims,
            tensor.strides,
            layout.extent().max(layout.elements())
        ));
    }
    // Virtual tensors are in the workspace, where the plan aligns them.
    let promised = if tensor.is_virtual { ALIGNMENT as i64 } else { tensor.alignment };
    let alignment = usize::try_from(promised).ok().filter(|alignment| alignment.is_power_of_two());
    Ok(Access { place, data_type: tensor.data_type, strides, alignment: alignment.unwrap_or(1) })
}
