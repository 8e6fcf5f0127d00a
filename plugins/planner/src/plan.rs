//! A graph prepared to run on a GPU: steps in order, and where each finds its tensors.
//!
//! A plugin divides a [`Prepared`](crate::prepare::Prepared) graph into steps of its own type and lists the
//! tensors of each. [`Placed`] assigns memory to them, [`Plan`] holds the steps and what an execution needs
//! of the device, and [`Found`] the results that were expensive to compute.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CString, c_int, c_void};
use std::ops::Range;

use hipdnn_plugin_sdk::dynlib::answer::{self, MOST_WORKSPACE};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::gpu::handle::Device;
use hipdnn_plugin_sdk::gpu::plan_memory::PlanMemory;
use hipdnn_plugin_sdk::gpu::workspace::{ALIGNMENT, Workspace, same_device};
use hipdnn_plugin_sdk::graph::{Graph, Tensor};
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::{Numerics, PluginError, Step, bound, buffer, trace};

use crate::Refusal;
use crate::numerics::{Engine, of_step};
use crate::prepare::prepare;
use crate::shapes::Asked;
use crate::step::described;
use crate::workspace::{Places, place_in_steps};

/// Maximum number of tensors of a step.
pub const MAX_TENSORS: usize = 128;

/// The tensors of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTensors {
    /// The tensors whose pointers it receives, in its order.
    pub all: Vec<i64>,
    /// Those that exist only inside the step; their pointers are null.
    pub inside: Vec<i64>,
}

impl From<Vec<i64>> for StepTensors {
    fn from(all: Vec<i64>) -> Self {
        Self { all, inside: Vec::new() }
    }
}

/// Where a step's tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// In the caller's device memory.
    Device(i64),
    /// In host memory of the caller, as a scalar passed at execution.
    Host(i64),
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// An unmarked output: where the caller binds it, else in the workspace at this offset.
    Unmarked(i64, usize),
    /// Nowhere: the graph contains its value, or it exists only inside the step.
    Nowhere,
}

/// The memory of the steps' tensors.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    slots: Vec<Box<[Slot]>>,
    virtuals: Places,
}

impl Placed {
    /// Assigns memory to the tensors of each step of a prepared graph. Tensors share workspace if their
    /// lifetimes do not overlap.
    ///
    /// # Errors
    /// When a step has too many tensors, or the workspace exceeds the address space.
    pub fn new<'a>(
        graph: &Graph,
        unmarked: &HashSet<i64>,
        steps: impl Iterator<Item = &'a StepTensors> + Clone,
    ) -> Result<Self, Refusal> {
        let outside: Vec<Vec<i64>> = steps
            .clone()
            .map(|step| step.all.iter().copied().filter(|uid| !step.inside.contains(uid)).collect())
            .collect();
        let virtuals = place_in_steps(graph, unmarked, outside.iter().map(Vec::as_slice), ALIGNMENT)?;
        let offsets: HashMap<i64, usize> =
            virtuals.places.iter().map(|place| (place.uid, place.offset)).collect();
        let tensors: HashMap<i64, &Tensor> =
            graph.tensors.iter().map(|tensor| (tensor.uid, tensor)).collect();
        let slot = |uid: i64| match (offsets.get(&uid), tensors.get(&uid)) {
            (Some(offset), _) if unmarked.contains(&uid) => Slot::Unmarked(uid, *offset),
            (Some(offset), _) => Slot::Workspace(*offset),
            (None, Some(tensor)) if tensor.value.is_some() => Slot::Nowhere,
            (None, Some(tensor)) if tensor.is_runtime_pass_by_value => Slot::Host(uid),
            (None, _) => Slot::Device(uid),
        };
        let mut slots = Vec::with_capacity(outside.len());
        for step in steps {
            if step.all.len() > MAX_TENSORS {
                let count = step.all.len();
                return Err(format!("a step has {count} tensors, expected at most {MAX_TENSORS}"));
            }
            let own =
                step.all.iter().map(|uid| if step.inside.contains(uid) { Slot::Nowhere } else { slot(*uid) });
            slots.push(own.collect());
        }
        Ok(Self { slots, virtuals })
    }

    /// The tensors in the workspace.
    pub fn virtuals(&self) -> &Places {
        &self.virtuals
    }

    /// The workspace of a plan whose largest step needs `scratch` bytes for itself.
    ///
    /// # Errors
    /// When it exceeds the address space.
    pub fn workspace(&self, scratch: usize) -> Result<Workspace, hipdnn_plugin_sdk::Refusal> {
        Workspace::new(self.virtuals.size, scratch)
    }
}

impl Slot {
    /// The tensor's address in an execution.
    #[inline]
    fn pointer(
        self,
        gpu: &Gpu,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        virtuals: *mut c_void,
    ) -> Result<*mut c_void, PluginError> {
        let checked = |uid, pointer: *mut c_void| gpu.check_memory(uid, pointer).map(|()| pointer);
        match self {
            Self::Device(uid) => checked(uid, buffer(buffers, uid)?),
            Self::Host(uid) => buffer(buffers, uid),
            Self::Workspace(offset) => Ok(virtuals.wrapping_byte_add(offset)),
            Self::Unmarked(uid, offset) => match bound(buffers, uid) {
                Some(pointer) => checked(uid, pointer),
                None => Ok(virtuals.wrapping_byte_add(offset)),
            },
            Self::Nowhere => Ok(std::ptr::null_mut()),
        }
    }
}

/// A plugin's step, as it is described to users.
pub trait Call {
    /// The nodes that it computes.
    fn nodes(&self) -> &[usize];

    /// The library that computes them, or another means.
    fn library(&self) -> &'static str;

    /// The function that is called.
    fn call(&self) -> Cow<'static, str>;

    /// What steps of its kind do to numbers.
    fn engine(&self) -> Engine;

    /// What else it does to them.
    fn numerics(&self) -> Numerics {
        Numerics::default()
    }
}

/// A complete plan of a plugin's steps. It may run with any handle of the device that it was made on.
#[derive(Debug)]
pub struct Plan<S> {
    request: Request,
    steps: Vec<(S, Box<[Slot]>)>,
    gpu: Gpu,
    /// The driver's number of the steps' device.
    device: c_int,
    memory: PlanMemory,
    /// The steps' names in a trace, once they were requested.
    names: OnceLock<Box<[CString]>>,
}

impl<S: Call> Plan<S> {
    /// A plan for this device, with one step per entry of `placed`. The largest step needs `scratch` bytes
    /// for itself.
    ///
    /// # Errors
    /// When the workspace exceeds the address space.
    pub fn new<T>(
        device: &Device<T>,
        request: Request,
        steps: Vec<S>,
        placed: Placed,
        scratch: usize,
    ) -> Result<Self, PluginError> {
        let scratch = answer::size("a step's library", scratch, MOST_WORKSPACE)?;
        let memory = PlanMemory::new(device.gpu, placed.workspace(scratch)?);
        let steps = steps.into_iter().zip(placed.slots).collect();
        Ok(Self { request, steps, gpu: device.gpu, device: device.number, memory, names: OnceLock::new() })
    }

    /// Allocates the memory that the plan owns, if it will be executed.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        self.memory.make_first()?;
        Ok(self)
    }

    /// The request that the plan answers.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &S> {
        self.steps.iter().map(|(step, _)| step)
    }

    /// What an execution does.
    pub fn describe(&self) -> Option<Vec<Step>> {
        let call = |step: &S| (step.nodes().to_vec(), step.library(), step.call().into_owned());
        let mut told = described(&self.request.graph, self.steps().map(call))?;
        let prepared = prepare(&self.request.graph).ok()?;
        for (told, step) in told.iter_mut().zip(self.steps()) {
            told.numerics = of_step(&prepared, step.nodes(), step.engine());
            told.numerics.add(&step.numerics());
        }
        Some(told)
    }

    /// What all of its steps do to numbers.
    pub fn numerics(&self) -> Option<Numerics> {
        let mut all = Numerics::default();
        self.describe()?.iter().for_each(|step| all.add(&step.numerics));
        Some(all)
    }

    /// The steps' names in a trace: the function called, and the nodes.
    #[cold]
    fn names(&self) -> &[CString] {
        self.names.get_or_init(|| self.steps().map(|step| trace::name(&step.call(), step.nodes())).collect())
    }

    /// Bytes of device memory that [`Plan::execute`] expects, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// Makes `run` put each step on the stream, with the addresses of its tensors and its scratch memory.
    /// Returns when the work is queued, not when it is done.
    ///
    /// # Errors
    /// When the handle is of another device or a buffer is missing, and those of `run`.
    ///
    /// # Safety
    /// The buffers are device memory (host memory for a scalar passed at execution), valid for their tensors
    /// until the work is done; `workspace` is null or valid for [`Plan::workspace_size`] bytes for as long.
    pub unsafe fn execute<T>(
        &self,
        device: &Device<T>,
        stream: hipStream_t,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
        mut run: impl FnMut(&S, &[*mut c_void], *mut c_void) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        same_device(self.device, device.number)?;
        self.memory.run(workspace, stream, |[virtuals, scratch]| {
            let mut pointers = [std::ptr::null_mut(); MAX_TENSORS];
            let mut told = trace::Execution::begin(|| self.names());
            for (step, slots) in &self.steps {
                for (pointer, slot) in pointers.iter_mut().zip(slots) {
                    *pointer = slot.pointer(&self.gpu, buffers, virtuals)?;
                }
                run(step, pointers.get(..slots.len()).unwrap_or_default(), scratch)?;
                told.end_step();
            }
            Ok(())
        })
    }
}

impl<S: Call> Asked for Plan<S> {
    fn request(&self) -> &Request {
        &self.request
    }

    fn finish(&self) {
        // A failure means that the device and all its work are lost.
        drop(self.gpu.synchronize());
    }
}

/// Results of steps that were expensive to compute, saved with the plan: bytes per step, keyed by its last
/// node and number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found(BTreeMap<usize, (usize, Vec<u8>)>);

impl Found {
    /// Adds the result of the step with these nodes.
    pub fn add(&mut self, nodes: &[usize], bytes: impl Into<Vec<u8>>) {
        if let Some(last) = nodes.last() {
            self.0.insert(*last, (nodes.len(), bytes.into()));
        }
    }

    /// The result of the step with these nodes; none if there was no such step.
    pub fn of(&self, nodes: &[usize]) -> Option<&[u8]> {
        let (count, bytes) = self.0.get(nodes.last()?)?;
        (*count == nodes.len()).then_some(bytes)
    }

    /// The nodes of each step, if they cover `count` nodes in order without gaps.
    pub fn ranges(&self, count: usize) -> Option<Vec<Range<usize>>> {
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(self.0.len());
        for (last, (nodes, _)) in &self.0 {
            let start = ranges.last().map_or(0, |before| before.end);
            if start.checked_add(*nodes)? != last.checked_add(1)? || *nodes == 0 {
                return None;
            }
            ranges.push(start..last + 1);
        }
        (ranges.last()?.end == count).then_some(ranges)
    }

    /// Whether there are no results, as for a new plan.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Encodes the results for [`Found::read`].
    ///
    /// # Errors
    /// When a number does not fit.
    pub fn write(&self) -> Result<Vec<u8>, PluginError> {
        let mut all = Vec::new();
        for (last, (count, bytes)) in &self.0 {
            for number in [*last, *count, bytes.len()] {
                let number = u32::try_from(number).map_err(|_| {
                    PluginError::internal(format!("{number} is too large a number for a saved plan"))
                })?;
                all.extend(number.to_le_bytes());
            }
            all.extend(bytes);
        }
        Ok(all)
    }

    /// Decodes what [`Found::write`] wrote.
    ///
    /// # Errors
    /// When the bytes are truncated.
    pub fn read(mut bytes: &[u8]) -> Result<Self, PluginError> {
        let mut found = BTreeMap::new();
        while !bytes.is_empty() {
            let (last, count, own, rest) = record(bytes)
                .ok_or_else(|| PluginError::invalid_value("the saved result of a step ends too early"))?;
            found.insert(last, (count, own.to_vec()));
            bytes = rest;
        }
        Ok(Self(found))
    }
}

/// The first record: last node, number of nodes, bytes; and the rest.
fn record(bytes: &[u8]) -> Option<(usize, usize, &[u8], &[u8])> {
    let (last, bytes) = bytes.split_first_chunk::<4>()?;
    let (count, bytes) = bytes.split_first_chunk::<4>()?;
    let (size, bytes) = bytes.split_first_chunk::<4>()?;
    let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    let (own, rest) = bytes.split_at_checked(number(size))?;
    Some((number(last), number(count), own, rest))
}

#[cfg(test)]
mod tests;
