//! A compiled subgraph: a plan for each shape, and its execution.

use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::graph::Graph;
use hipdnn::{ExecutionPlan, Handle, VariantPack};

use crate::failure::{Failure, Result};
use crate::library::{Engines, Library};
use crate::lowering::{Bound, Folds, Graphs, Host, Lowered, Lowering, Place, Reason, Slab, View, elements};
use crate::memory::Memory;
use crate::model::{Element, Model, ValueId};
use crate::operators::{self, Operator};
use crate::options::{Options, Pool};
use crate::partition::known;
use crate::profile;
use crate::rewrite;
use crate::samples;
use crate::shapes;
use crate::terminate;
use crate::threads::{Parallel, Threads};
use crate::weights::Weights;

mod attention;
mod bits;
mod chain;
mod copy;
mod device;
mod division;
mod host;
mod inputs;
mod integers;
mod overlap;
mod planning;
mod record;
mod replay;
mod staging;

pub use chain::Chain;
pub use division::{check, digest, divide, plain};

pub use inputs::{Input, Output, Residence};

use device::{Copies, OnGpu};
use planning::Stages;
use record::Recording;

/// The error for a place without memory.
const MISSING: &str = "the plan names memory that is not there";

/// The dimensions of the inputs that may change, each preceded by its rank; then the integers that decide
/// shapes, likewise.
type Key = Vec<i64>;

/// The integers of inputs that decide shapes, in the order of the inputs.
type Integers = Vec<Vec<i64>>;

/// Plans of a compiled model, by the text of their graphs.
pub type Saved = Arc<HashMap<String, Vec<u8>>>;

/// A subgraph.
pub struct Subgraph {
    name: String,
    model: Model,
    /// The operators of the model's nodes.
    operators: Vec<Lowered<&'static Operator>>,
    options: Options,
    library: &'static Library,
    engines: Engines,
    residence: Residence,
    /// Its state on a GPU, if one computes.
    on_gpu: Option<OnGpu>,
    /// The inputs whose integers decide shapes.
    parameters: Vec<usize>,
    /// The most recently used are last.
    plans: Mutex<Vec<(Key, Arc<Prepared>)>>,
    scratch: Mutex<Vec<Memory>>,
    /// Results of constant folding.
    folds: Folds,
    /// Inputs whose integers are raised to a dimension of another input: index among the parameters, input, axis.
    floors: Vec<(usize, usize, usize)>,
    /// The plans in use.
    stages: Mutex<Stages>,
    /// Where the plans of the session share packed weights, if the engine does.
    weights: Option<Arc<Weights>>,
    saved: Saved,
}

/// Computes a host operation: its kind, the tensors read, and the tensors written.
type OnHost<'a> = &'a dyn Fn(&Host, (&[Bound], &[Bound])) -> std::result::Result<(), String>;

/// A subgraph for one shape.
pub struct Prepared {
    stages: Vec<Ready>,
    scratch: usize,
    workspace: usize,
    /// The dimensions of the model's outputs, and behind them those of the sizes of `late`.
    outputs: Vec<Vec<i64>>,
    /// The outputs one of whose dimensions is only known after a run, each with that axis.
    late: Vec<(usize, usize)>,
    data: HashMap<usize, Arc<Memory>>,
    copies: Copies,
    /// The inputs that are continued in place, each with its output.
    continued: Vec<(usize, usize)>,
    /// How many more runs may be captured; engines keep memory for each.
    captures: AtomicUsize,
}

enum Ready {
    Plan {
        title: String,
        origins: Vec<Arc<str>>,
        plan: Arc<ExecutionPlan>,
        bindings: Vec<(i64, Place)>,
        recording: Option<Box<Recording>>,
    },
    Host {
        title: String,
        host: Host,
        reads: Vec<Bound>,
        writes: Vec<Bound>,
    },
}

impl Subgraph {
    /// A subgraph, planned now if its shape is known already.
    pub fn new(
        name: &str,
        model: Model,
        options: Options,
        (library, engines, residence): (&'static Library, Engines, Residence),
        (weights, saved): (Option<Arc<Weights>>, Saved),
    ) -> Result<Self> {
        let mut model = model;
        rewrite::rewrite(&mut model);
        let (wanted, floors) = samples::parameters(&model);
        let wanted: HashSet<ValueId> = wanted.into_iter().collect();
        let is_parameter = |(_, id): &(usize, &ValueId)| wanted.contains(*id);
        let parameters: Vec<usize> =
            model.inputs.iter().enumerate().filter(is_parameter).map(|(at, _)| at).collect();
        let floors = floors.into_iter().filter_map(|(value, other, axis)| {
            let input = |id: ValueId| model.inputs.iter().position(|input| *input == id);
            let at = parameters.iter().position(|at| Some(*at) == input(value))?;
            Some((at, input(other)?, axis))
        });
        let floors = floors.collect();
        let mut subgraph = Self {
            name: name.to_owned(),
            operators: model.nodes.iter().map(operators::find).collect(),
            model,
            options,
            library,
            on_gpu: engines.gpu().map(OnGpu::new),
            engines,
            residence,
            parameters,
            plans: Mutex::default(),
            scratch: Mutex::default(),
            folds: Folds::default(),
            floors,
            stages: Mutex::default(),
            weights,
            saved,
        };
        let dims = subgraph.model.inputs.iter().map(|id| {
            let value = subgraph.model.values.get(*id)?;
            known(value.dims.as_deref()?)
        });
        let dims = dims.collect::<Option<Vec<_>>>().filter(|_| subgraph.parameters.is_empty());
        if let Some(dims) = dims {
            let dims: Vec<&[i64]> = dims.iter().map(Vec::as_slice).collect();
            subgraph.plan(&dims, &Vec::new())?;
            subgraph.forget_constants();
        } else {
            subgraph.keep_constants()?;
        }
        Ok(subgraph)
    }

    /// How the engine borrows the session's threads, if it computes on those.
    pub fn threads(&self) -> Option<Threads> {
        self.library.threads().filter(|_| self.options.pool == Pool::Session)
    }

    /// The engine's threads for loops between executions, and the most of them; 0 for all.
    pub fn loops(&self) -> (Option<Threads>, usize) {
        (self.library.threads(), usize::try_from(self.options.threads).unwrap_or(0))
    }

    /// Its nodes.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The plan for a shape, made on first use.
    fn plan(&self, dims: &[&[i64]], integers: &Integers) -> Result<Arc<Prepared>> {
        let mut key = Key::new();
        for (id, dims) in self.model.inputs.iter().zip(dims) {
            if !self.model.values.get(*id).is_some_and(|value| value.is_constant) {
                key.push(i64::try_from(dims.len()).unwrap_or(i64::MAX));
                key.extend_from_slice(dims);
            }
        }
        for list in integers {
            key.push(i64::try_from(list.len()).unwrap_or(i64::MAX));
            key.extend_from_slice(list);
        }
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |plans: &mut Vec<(Key, Arc<Prepared>)>| {
            let at = plans.iter().rposition(|(of, _)| *of == key)?;
            let found = plans.get(at)?.1.clone();
            if at + 1 != plans.len() {
                let entry = plans.remove(at);
                plans.push(entry);
            }
            Some(found)
        };
        if let Some(found) = find(&mut plans()) {
            return Ok(found);
        }
        // Other threads go on with other shapes meanwhile; if two plan the same new shape, the first plan stays.
        let made = Arc::new(self.prepare(dims, integers)?);
        let mut plans = plans();
        if let Some(found) = find(&mut plans) {
            return Ok(found);
        }
        if plans.len() >= self.options.plans {
            plans.remove(0);
        }
        plans.push((key, made.clone()));
        Ok(made)
    }

    /// The name of the fused node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether every run finds the same elements in an input.
    fn is_constant(&self, input: usize) -> bool {
        let value = self.model.inputs.get(input).and_then(|id| self.model.values.get(*id));
        value.is_some_and(|value| value.is_constant)
    }

    /// The bytes of each output with these dimensions.
    fn output_sizes(&self, dims: &[Vec<i64>]) -> Vec<usize> {
        let size = |(at, dims): (usize, &Vec<i64>)| {
            let element = match self.model.outputs.get(at) {
                Some(id) => self.model.values.get(*id).and_then(|value| value.element),
                None => Some(Element::Int64),
            };
            usize::try_from(elements(dims)).unwrap_or(0) * element.map_or(0, |element| element.size())
        };
        dims.iter().enumerate().map(size).collect()
    }

    fn failure(&self, text: &str) -> Failure {
        Failure::ep(format!("subgraph {}: {text}", self.name))
    }

    /// The program for a shape, and the outputs whose size is only known after a run, each with the axis of that size.
    fn lower(&self, dims: &[&[i64]], integers: &Integers) -> Result<(Graphs, Vec<(usize, usize)>)> {
        let model = &self.model;
        let mut lowering = Lowering::whole(model);
        lowering.folds = Some(&self.folds);
        let is_invariant = self.options.is_batch_invariant();
        lowering.batch_invariant = is_invariant;
        lowering.images_last = self.options.wants_images_last();
        let attends = |graph: &Graph| attention::attends(self.library, &self.engines, graph, is_invariant);
        if self.engines.gpu().is_some() {
            lowering.on_gpu = true;
            // All memory is the provider's own.
            lowering.program.is_aligned = true;
            lowering.attends = Some(&attends);
        }
        for (id, dims) in model.inputs.iter().zip(dims) {
            let value = model.values.get(*id).ok_or_else(|| self.failure("an input is unknown"))?;
            let Some(element) = value.element else {
                return Err(self.failure(&format!("{:?} has an unknown type, expected a tensor", value.name)));
            };
            lowering.bind_input(*id, element, dims, value.is_constant);
        }
        for (at, list) in self.parameters.iter().zip(integers) {
            let is_read = dims.get(*at).is_some_and(|dims| usize::try_from(elements(dims)) == Ok(list.len()));
            if let Some(id) = model.inputs.get(*at).filter(|_| is_read) {
                lowering.known.insert(*id, list.clone());
            }
        }
        for (node, operator) in model.nodes.iter().zip(&self.operators) {
            lowering.program.origin = node.label().into();
            if let Some(of) = lowering.late.iter().find(|of| node.reads().any(|id| id == of.value)) {
                let name = model.values.get(of.value).map_or("", |value| &value.name);
                let text = format!("node {}: the size of {name:?} is not known before it", node.title());
                return Err(self.failure(&text));
            }
            let operator = operator.as_ref().map_err(Clone::clone);
            let built = operator.and_then(|operator| shapes::build(node, &mut lowering, operator.build));
            built.map_err(|Reason(reason)| self.failure(&format!("node {}: {reason}", node.title())))?;
        }
        let outputs = model.outputs.iter().map(|id| lowering.of(*id).cloned()).collect::<Option<Vec<View>>>();
        let mut outputs = outputs.ok_or_else(|| self.failure("an output is not computed"))?;
        let mut late = Vec::new();
        for of in &lowering.late {
            if let Some(at) = model.outputs.iter().position(|id| *id == of.value) {
                late.push((at, of.axis));
                outputs.push(of.size.clone());
            }
        }
        let program = &mut lowering.program;
        program.finish(&outputs).map_err(|text| self.failure(&text))?;
        let graphs = divide(self.library, &self.engines, program, &self.name);
        Ok((graphs.map_err(|text| self.failure(&text))?, late))
    }

    /// Executes the subgraph. `output` makes output `at` with its dimensions, and returns its memory; `parallel` has threads for
    /// the provider's own computations.
    ///
    /// # Safety
    /// The inputs' memory has as many elements as their dimensions say, and so does the memory that `output` returns.
    pub unsafe fn execute(
        &self,
        inputs: &[Input],
        parallel: Parallel<'_>,
        mut output: impl FnMut(usize, &[i64]) -> Result<Output>,
    ) -> Result<()> {
        self.verify(inputs)?;
        let dims: Vec<&[i64]> = inputs.iter().map(|input| input.dims.as_slice()).collect();
        // SAFETY: the inputs' memory has as many elements as their dimensions say, and so does the memory that `output` returns, as this
        // function requires.
        let integers = self.parameters.iter().map(|at| unsafe { self.integers_of(inputs.get(*at)) });
        let mut integers = integers.collect::<Result<Integers>>()?;
        for (at, input, axis) in &self.floors {
            let least = dims.get(*input).and_then(|dims| dims.get(*axis)).copied().unwrap_or(0);
            if let Some(list) = integers.get_mut(*at) {
                list.iter_mut().for_each(|number| *number = (*number).max(least));
            }
        }
        let prepared = self.plan(&dims, &integers)?;
        if self.on_gpu.is_some() && !prepared.late.is_empty() {
            return Err(self.failure("the number of results is not known on GPUs"));
        }
        let count = self.model.outputs.len();
        let outputs =
            prepared.outputs.iter().enumerate().map(|(at, dims)| match prepared.is_late(at, count) {
                true => Ok(Output::LATER),
                false => output(at, dims),
            });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        if let Some(on_gpu) = &self.on_gpu {
            // SAFETY: the inputs' memory has as many elements as their dimensions say, and so does the memory that `output` returns, as
            // this function requires.
            return unsafe { on_gpu.run(self, &prepared, (inputs, &outputs), parallel) };
        }
        let run = |scratch: &Memory, outputs: &[Output]| {
            // SAFETY: the inputs' memory has as many elements as their dimensions say, and so does the memory that `output` returns, as
            // this function requires; the scratch memory has room for both of its parts.
            unsafe { self.run(&prepared, inputs, outputs, scratch.as_ptr(), parallel) }
        };
        // SAFETY: the inputs' memory has as many elements as their dimensions say, and so does the memory that `output` returns, as this
        // function requires.
        unsafe {
            let first = prepared.scratch + prepared.workspace;
            self.beside(&prepared, (inputs, &outputs), first, run, &mut output)
        }
    }

    /// Calls `f` with scratch memory of at least this many bytes, reused if possible.
    fn with_scratch<R>(&self, bytes: usize, f: impl FnOnce(&Memory) -> Result<R>) -> Result<R> {
        let idle = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let memory = match taken {
            Some(memory) if memory.bytes() >= bytes => memory,
            other => {
                // Free a block that is too small first.
                drop(other);
                Memory::new(bytes)?
            }
        };
        let result = f(&memory);
        idle().push(memory);
        result
    }

    /// # Safety
    /// Inputs, outputs and scratch memory are valid for what the stages prepared for.
    unsafe fn run(
        &self,
        prepared: &Prepared,
        inputs: &[Input],
        outputs: &[Output],
        scratch: *mut u8,
        parallel: Parallel<'_>,
    ) -> Result<()> {
        let address = |place: &Place| -> Option<*mut u8> {
            let (base, offset) = match place {
                Place::Input(at, offset) => (inputs.get(*at)?.data.cast_mut().cast::<u8>(), *offset),
                Place::Output(at, offset) => (outputs.get(*at)?.data.cast::<u8>(), *offset),
                Place::Scratch(offset) => (scratch, *offset),
                Place::Data(at, offset) => (prepared.data.get(at)?.as_ptr(), *offset),
            };
            Some(base.wrapping_add(offset))
        };
        let on_host = |host: &Host, (reads, writes): (&[Bound], &[Bound])| {
            let (reads, to) = Slab::all(reads, &address).zip(Slab::all(writes, &address)).ok_or(MISSING)?;
            // SAFETY: tensors are views inside of inputs, outputs and scratch memory, which have their sizes as `execute` requires;
            // source and target are different buffers, or parts that do not overlap, unless the application keeps the past in the memory
            // of the result.
            unsafe { host::run(host, &reads, &to, parallel) }
        };
        let workspace = scratch.wrapping_add(prepared.scratch);
        self.library.with_handle(|handle| {
            let address = |place: &Place| Some(address(place)?.cast());
            // SAFETY: tensors are views inside of inputs and outputs, which have their sizes as `execute` requires, and of scratch memory
            // with room for them and, behind them, for the plans' workspace.
            unsafe { self.execute_stages(handle, &prepared.stages, workspace.cast(), &address, &on_host) }
        })
    }

    /// Executes stages in order. `address` returns the address of a place for plans, and `on_host` computes host operations.
    ///
    /// # Safety
    /// The addresses are those of memory that the plans' engines can access, with room for the tensors, and the workspace is as large as the
    /// plans need.
    unsafe fn execute_stages(
        &self,
        handle: &Handle,
        stages: &[Ready],
        workspace: *mut c_void,
        address: &dyn Fn(&Place) -> Option<*mut c_void>,
        on_host: OnHost<'_>,
    ) -> Result<()> {
        for stage in stages {
            terminate::check()?;
            match stage {
                Ready::Plan { title, origins, plan, bindings, recording } => {
                    let memory = bindings.iter().map(|(uid, place)| Some((*uid, address(place)?)));
                    let memory = memory.collect::<Option<Vec<_>>>().ok_or_else(|| self.failure(MISSING))?;
                    if let (Some(recording), Some(folder)) = (recording, &self.options.record) {
                        // SAFETY: tensors have room, as this function requires; only sessions on the host record.
                        unsafe { recording.write(folder, handle, &memory) }?;
                    }
                    let pack = VariantPack::new(handle.backend(), &memory, workspace)?;
                    // SAFETY: tensors and workspace have room, as this function requires.
                    profile::graph((&self.name, title, origins), || unsafe { plan.execute(handle, &pack) })
                        .map_err(|error| {
                        let failure = self.failure(&Failure::from(error).text);
                        terminate::check().err().unwrap_or(failure)
                    })?;
                }
                Ready::Host { title, host, reads, writes } => {
                    profile::event(title, || on_host(host, (reads, writes)))
                        .map_err(|text| self.failure(&text))?;
                }
            }
        }
        terminate::check()
    }
}
