//! A test case: one graph, run by an engine on the device and by the reference on the host.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;

use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor, TensorValue};
use hipdnn_plugin_sdk::json;
use hipdnn_tool::comparison::{Judged, judge_alone};
use hipdnn_tool::computation::Arrays;
use hipdnn_tool::data_type::DataType as TypeOfTool;
use hipdnn_tool::failure::Failure as FailureOfTool;
use hipdnn_tool::graph::{Graph as GraphOfTool, Tensor as TensorOfTool};
use hipdnn_tool::rounding::Limits;
use hipdnn_tool::tensor::{Tolerance, steps};

use crate::Failure;
use crate::backend::{Backend, Plan};
use crate::gate;
use crate::memory::{array, arrays, half_step, pack, unpack};
use crate::runs::{allocated, only_runs};

/// The reference engine.
const REFERENCE: &str = "CPU_REFERENCE_ENGINE";

/// The layout of an image tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Channels outside pixels.
    ChannelsFirst,
    /// Channels inside pixels.
    ChannelsLast,
}

/// A graph with the values of its inputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, for people.
    pub name: String,
    /// The graph.
    pub graph: Graph,
    inputs: HashMap<i64, Vec<f32>>,
    outputs: Vec<i64>,
    /// What is allowed beside the bound that follows from the plan's notes, relative to the largest result: what no note tells.
    pub allowance: f64,
    /// Whether results follow from a definition: nothing is allowed but the last bit of a value in single precision.
    pub is_defined: bool,
    /// The most bytes of workspace that the plan may need, to check that the graph is fused.
    pub workspace_limit: Option<usize>,
    /// Values of the engine's knobs.
    pub knobs: Vec<(&'static str, i64)>,
    /// A tensor between nodes whose rounding results have, also where they are smaller.
    pub rounded: Option<i64>,
    /// Whether executions on the device get a null workspace, whatever the plan requires.
    pub without_workspace: bool,
    seed: u32,
}

impl Case {
    /// A case without tensors. Uids start at 1.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            graph: Graph {
                compute_type: DataType::Float,
                intermediate_type: DataType::Float,
                io_type: DataType::Float,
                ..Graph::default()
            },
            inputs: HashMap::new(),
            outputs: Vec::new(),
            allowance: 0.0,
            is_defined: false,
            workspace_limit: None,
            knobs: Vec::new(),
            rounded: None,
            without_workspace: false,
            seed: 1,
        }
    }

    /// Gives inputs that are added from now on other values.
    pub fn seed(&mut self, seed: u32) {
        self.seed = seed;
    }

    fn add(&mut self, data_type: DataType, dims: &[i64], strides: &[i64]) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        self.graph.tensors.push(Tensor::new(uid, data_type, dims, strides));
        uid
    }

    /// An input with values spread evenly over a range.
    pub fn input(&mut self, data_type: DataType, dims: &[i64], order: Order, range: [f32; 2]) -> i64 {
        self.input_with_strides(data_type, dims, &strides(dims, order), range)
    }

    /// The same with strides that may leave gaps or overlap.
    pub fn input_with_strides(
        &mut self,
        data_type: DataType,
        dims: &[i64],
        strides: &[i64],
        range: [f32; 2],
    ) -> i64 {
        let uid = self.add(data_type, dims, strides);
        let [low, high] = range;
        let extent = 1 + dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<i64>();
        let values = (0..extent).map(|_| {
            // A linear congruential generator (Numerical Recipes' numbers) is random enough for data.
            self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            low + (high - low) * (self.seed >> 8) as f32 / (1 << 24) as f32
        });
        let values = values.collect();
        self.inputs.insert(uid, values);
        uid
    }

    /// An input with these values, without gaps.
    pub fn input_of(&mut self, data_type: DataType, dims: &[i64], values: Vec<f32>) -> i64 {
        let uid = self.add(data_type, dims, &strides(dims, Order::ChannelsFirst));
        self.inputs.insert(uid, values);
        uid
    }

    /// Sets another tensor as a tensor's ragged offsets.
    pub fn ragged(&mut self, uid: i64, offsets: i64) {
        if let Some(tensor) = self.graph.tensors.iter_mut().find(|tensor| tensor.uid == uid) {
            tensor.ragged_offset_uid = Some(offsets);
        }
    }

    /// An output.
    pub fn output(&mut self, data_type: DataType, dims: &[i64], order: Order) -> i64 {
        self.output_with_strides(data_type, dims, &strides(dims, order))
    }

    /// The same with strides that leave no gaps.
    pub fn output_with_strides(&mut self, data_type: DataType, dims: &[i64], strides: &[i64]) -> i64 {
        let uid = self.add(data_type, dims, strides);
        self.outputs.push(uid);
        uid
    }

    /// A tensor between two nodes.
    pub fn between(&mut self, data_type: DataType, dims: &[i64], order: Order) -> i64 {
        let uid = self.add(data_type, dims, &strides(dims, order));
        if let Some(tensor) = self.graph.tensors.last_mut() {
            tensor.is_virtual = true;
        }
        uid
    }

    /// Makes the last result a tensor between two nodes, of another type.
    pub fn hide(&mut self, data_type: DataType) {
        if let Some(tensor) = self.graph.tensors.last_mut() {
            tensor.is_virtual = true;
            tensor.data_type = data_type;
            self.outputs.retain(|uid| *uid != tensor.uid);
        }
    }

    /// Makes the results virtual but still binds them, as frontends do with unmarked outputs.
    pub fn unmark(&mut self) {
        for tensor in self.graph.tensors.iter_mut().filter(|tensor| self.outputs.contains(&tensor.uid)) {
            tensor.is_virtual = true;
        }
    }

    /// A constant in the graph.
    pub fn value(&mut self, value: f32) -> i64 {
        let uid = self.add(DataType::Float, &[1], &[1]);
        if let Some(tensor) = self.graph.tensors.last_mut() {
            tensor.value = Some(TensorValue::Float32(value));
        }
        uid
    }

    /// A node.
    pub fn node(&mut self, operation: impl Into<Operation>) {
        let name = format!("node{}", self.graph.nodes.len());
        let compute_type = self.graph.compute_type;
        self.graph.nodes.push(Node { name, compute_type, operation: operation.into() });
    }

    /// The same graph, planned by timing the library's recommended plans.
    pub fn timed(self) -> Self {
        self.with_knob("timed", "global.benchmarking", 1)
    }

    /// The same graph, planned with another value of a knob.
    pub fn with_knob(mut self, word: &str, knob: &'static str, value: i64) -> Self {
        self.name.push_str(", ");
        self.name.push_str(word);
        self.knobs.push((knob, value));
        self
    }

    /// The same graph with `float` between the nodes, the default of frontends.
    pub fn with_wide_tensors(mut self) -> Self {
        self.name.push_str(", float between");
        let outputs = &self.outputs;
        let between = |tensor: &&mut Tensor| tensor.is_virtual && !outputs.contains(&tensor.uid);
        for tensor in self.graph.tensors.iter_mut().filter(between) {
            tensor.data_type = DataType::Float;
        }
        self
    }

    /// Runs the graph with the engine and with the reference, then again with the engine's plan saved and loaded with another
    /// handle. Returns the largest part of
    /// the tolerance that is used.
    ///
    /// # Errors
    /// The engine's message, or the tensor that differs most.
    pub fn run(&self, backend: &Backend, loader: &Backend, gpu: Gpu, engine: &str) -> Result<f32, Failure> {
        let expected = self.run_on_host(backend)?;
        let before = gate::count();
        let plan = backend.plan(engine, &self.graph, &self.knobs)?;
        // The plan allocates small workspaces itself when it is made.
        let size = plan.workspace_size + allocated(&gate::since(before));
        if let Some(limit) = self.workspace_limit.filter(|limit| size > *limit) {
            return Err(Failure(format!(
                "the plan needs {size} bytes of workspace, expected at most {limit}"
            )));
        }
        let worst = self.compare(&expected, &self.run_on_device(gpu, &plan)?, &plan)?;
        let loaded = loader.load(&plan.save()?)?;
        let loaded = self
            .compare(&expected, &self.run_on_device(gpu, &loaded)?, &plan)
            .map_err(|failure| Failure(format!("the same plan, saved and loaded: {failure}")))?;
        Ok(worst.max(loaded))
    }

    /// Runs any plan of the graph. Returns as [`Case::run`].
    ///
    /// # Errors
    /// As [`Case::run`].
    pub fn run_plan(&self, backend: &Backend, gpu: Gpu, plan: &Plan<'_>) -> Result<f32, Failure> {
        self.compare(&self.run_on_host(backend)?, &self.run_on_device(gpu, plan)?, plan)
    }

    /// The graph as the tool reads it.
    fn described(&self) -> Result<GraphOfTool, Failure> {
        GraphOfTool::from_json(&json::write(&self.graph)).map_err(|failure| Failure(failure.to_string()))
    }

    /// What a result may differ by, of what follows from a plan's notes.
    fn allow(&self, tensor: &TensorOfTool, derived: Tolerance) -> Tolerance {
        let (step, smallest) = steps(TypeOfTool::Float);
        if self.is_defined {
            return Tolerance { relative: 0.0, of_largest: 2.0 * step, absolute: smallest };
        }
        let mut limit = derived;
        limit.of_largest += self.allowance;
        if tensor.data_type == TypeOfTool::Double {
            // The values are kept in single precision here.
            limit.relative = limit.relative.max(2.0 * step);
        }
        limit
    }

    /// What a plan's result may differ by from the reference, relative to the largest value.
    ///
    /// # Errors
    /// The library's message.
    pub fn limit(&self, uid: i64, plan: &Plan<'_>) -> Result<f64, Failure> {
        let (graph, steps) = (self.described()?, plan.steps()?);
        let limits = Limits { steps: steps.as_deref(), factor: 1.0 };
        let limit = graph.tensor(uid).map(|tensor| self.allow(tensor, limits.of(&graph, tensor)));
        Ok(limit.map_or(0.0, |limit| limit.relative + limit.of_largest))
    }

    /// By how much the [rounded](Case::rounded) tensor may differ where two engines round to different neighbours.
    fn of_rounded(&self, expected: &HashMap<i64, Vec<f32>>) -> f64 {
        let Some((tensor, values)) =
            self.rounded.and_then(|uid| Some((self.graph.tensor(uid)?, expected.get(&uid)?)))
        else {
            return 0.0;
        };
        let finite = values.iter().filter(|value| value.is_finite());
        let largest = finite.fold(0.0_f32, |most, value| most.max(value.abs()));
        2.0 * half_step(tensor.data_type) * f64::from(largest)
    }

    /// The largest part that a plan's results use of what they may differ by.
    ///
    /// # Errors
    /// The tensor that differs by more.
    pub fn compare(
        &self,
        expected: &HashMap<i64, Vec<f32>>,
        got: &HashMap<i64, Vec<f32>>,
        plan: &Plan<'_>,
    ) -> Result<f32, Failure> {
        let (graph, steps) = (self.described()?, plan.steps()?);
        let limits = Limits { steps: steps.as_deref(), factor: 1.0 };
        let of_rounded = self.of_rounded(expected);
        for uid in &self.outputs {
            let Some(expected) = expected.get(uid).filter(|_| got.contains_key(uid)) else {
                return Err(Failure(format!("tensor {uid} was not computed")));
            };
            // Elements between sequences are not written.
            let is_ragged = self.graph.tensor(*uid).is_some_and(|tensor| tensor.ragged_offset_uid.is_some());
            if let Some(place) = expected.iter().position(|value| value.is_nan() && !is_ragged) {
                return Err(Failure(format!("tensor {uid}, element {place}: the reference is not a number")));
            }
        }
        let allow = |tensor: &TensorOfTool, derived| {
            let limit = self.allow(tensor, derived);
            Tolerance { absolute: limit.absolute + of_rounded, ..limit }
        };
        let (inputs, outputs) = (arrays(&self.inputs), self.results(got));
        let own = (&inputs, &outputs, &self.results(expected));
        let compute = |inputs: &Arrays| {
            let mut moved = self.clone();
            moved.inputs = inputs
                .iter()
                .map(|(uid, array)| (*uid, array.values.iter().map(|value| *value as f32).collect()))
                .collect();
            let results = moved.run_on_host(plan.backend());
            Ok(moved.results(&results.map_err(|failure| FailureOfTool::work(failure.0))?))
        };
        let judged = judge_alone(&graph, own, (limits, allow), compute);
        let mut worst = 0.0_f64;
        for Judged { tensor, comparison: found, change, is_wrong } in
            judged.map_err(|failure| Failure(failure.to_string()))?
        {
            if is_wrong {
                let (got, expected) = found.pair;
                return Err(Failure(format!(
                    "tensor {}, element {:?}: {got}, expected {expected}; {} of {} elements beyond {:?}, \
                     moved inputs change it by {:e}",
                    tensor.uid,
                    found.worst,
                    found.beyond,
                    found.count,
                    allow(tensor, limits.of(&graph, tensor)),
                    change.unwrap_or_default()
                )));
            }
            // What moved inputs explain is right.
            worst = worst.max(found.used.min(1.0));
        }
        Ok(worst as f32)
    }

    /// Values of the results.
    fn results(&self, values: &HashMap<i64, Vec<f32>>) -> Arrays {
        let of = |uid: &i64| Some((*uid, array(values.get(uid)?)));
        self.outputs.iter().filter_map(of).collect()
    }

    /// The initial bytes of a tensor: the values of an input, and NaN for a result.
    ///
    /// # Errors
    /// Test data of its type is not supported.
    pub fn bytes(&self, tensor: &Tensor) -> Result<Vec<u8>, Failure> {
        let count = tensor.dims.iter().product::<i64>() as usize;
        match self.inputs.get(&tensor.uid) {
            Some(values) => pack(tensor.data_type, values),
            // Kernels must not depend on a result's initial content.
            None => pack(tensor.data_type, &vec![f32::NAN; count]),
        }
    }

    /// The tensors that are bound to memory.
    pub fn bound(&self) -> impl Iterator<Item = &Tensor> {
        let is_bound = |tensor: &&Tensor| !tensor.is_virtual || self.outputs.contains(&tensor.uid);
        self.graph.tensors.iter().filter(is_bound).filter(|tensor| tensor.value.is_none())
    }

    /// The results of the reference.
    ///
    /// # Errors
    /// The engine's message.
    pub fn run_on_host(&self, backend: &Backend) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        let mut memory = Vec::new();
        let mut case = self.clone();
        for tensor in case.graph.tensors.iter_mut().filter(|tensor| Some(tensor.uid) == self.rounded) {
            tensor.is_virtual = false;
        }
        case.run_in_host_memory(&backend.plan(REFERENCE, &case.graph, &[])?, |size| {
            memory.push(vec![0_u8; size].into_boxed_slice());
            Ok(memory.last_mut().map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast()))
        })
    }

    /// Runs a plan of a CPU engine in memory from `allocate`, which must have the given size at least and live until this
    /// returns.
    ///
    /// # Errors
    /// Those of `allocate`, and the engine's message.
    pub fn run_in_host_memory(
        &self,
        plan: &Plan<'_>,
        allocate: impl FnMut(usize) -> Result<*mut c_void, Failure>,
    ) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        self.run_and_wait(plan, allocate, || Ok(()))
    }

    /// Runs a plan as [`Case::run_in_host_memory`] in memory that the host sees, too; `wait` waits for the engine.
    ///
    /// # Errors
    /// Those of `allocate` and `wait`, and the engine's message.
    pub fn run_and_wait(
        &self,
        plan: &Plan<'_>,
        mut allocate: impl FnMut(usize) -> Result<*mut c_void, Failure>,
        wait: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        let mut memory = Vec::new();
        for tensor in self.bound() {
            let bytes = self.bytes(tensor)?;
            let pointer = allocate(bytes.len())?;
            // SAFETY: the memory is new and has the size.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pointer.cast(), bytes.len()) };
            memory.push((tensor, pointer, bytes.len()));
        }
        let workspace = allocate(plan.workspace_size.max(1))?;
        let tensors: Vec<(i64, *mut c_void)> =
            memory.iter().map(|(tensor, pointer, _)| (tensor.uid, *pointer)).collect();
        // SAFETY: every tensor has its bytes and the workspace its size, and the engine is done when `wait` returns.
        unsafe { plan.execute(&tensors, workspace) }?;
        wait()?;
        memory
            .iter()
            .map(|(tensor, pointer, size)| {
                // SAFETY: the memory has that many bytes, and the engine is done.
                let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), *size) };
                Ok((tensor.uid, unpack(tensor.data_type, bytes)?))
            })
            .collect()
    }

    /// Runs a plan in device memory, and waits.
    ///
    /// # Errors
    /// The device's errors, and the engine's message.
    pub fn run_on_device(&self, gpu: Gpu, plan: &Plan<'_>) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        let bound = self.bind(gpu, plan.workspace_size)?;
        let before = gate::count();
        // SAFETY: the memory lives until the device is done.
        unsafe { bound.execute(plan) }?;
        only_runs(&gate::since(before))?;
        gpu.synchronize()?;
        bound.results()
    }

    /// The same graph with other values: each input rotated by some elements, except lengths, offsets and indices.
    pub fn moved(&self, elements: usize) -> Self {
        let mut case = self.clone();
        let is_whole = |uid| self.graph.tensor(uid).is_some_and(|tensor| tensor.data_type == DataType::Int32);
        for (_, values) in case.inputs.iter_mut().filter(|(uid, _)| !is_whole(**uid)) {
            let places = elements % values.len().max(1);
            values.rotate_left(places);
        }
        case
    }
}

/// Packed strides.
pub fn strides(dims: &[i64], order: Order) -> Vec<i64> {
    let rank = dims.len();
    let inner_to_outer: Vec<usize> = match order {
        Order::ChannelsLast if rank > 2 => {
            std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)).collect()
        }
        _ => (0..rank).rev().collect(),
    };
    let mut strides = vec![1; rank];
    let mut next = 1;
    for axis in inner_to_outer {
        if let (Some(stride), Some(dim)) = (strides.get_mut(axis), dims.get(axis)) {
            *stride = next;
            next *= dim;
        }
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_may_differ_by_what_was_rounded() {
        let mut case = Case::new("difference");
        let between = case.between(DataType::Half, &[2], Order::ChannelsFirst);
        let expected = HashMap::from([(between, vec![0.86, f32::INFINITY])]);
        assert_eq!(case.of_rounded(&expected), 0.0);
        case.rounded = Some(between);
        assert_eq!(case.of_rounded(&expected), f64::from(0.86_f32) * 2.0_f64.powi(-10));
    }
}
