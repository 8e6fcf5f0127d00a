//! A graph made ready to run on a GPU: steps in order, and where each finds its tensors.
//!
//! A plugin divides a [`Prepared`](crate::prepare::Prepared) graph into steps of its own type and says which tensors each gets. [`Placed`]
//! gives them places, [`Plan`] keeps the steps with what an execution needs of the device, and [`Found`] what they took long to find out.

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
use hipdnn_plugin_sdk::{PluginError, Step, bound, buffer, trace};

use crate::Refusal;
use crate::shapes::Asked;
use crate::step::described;
use crate::workspace::{Places, place_in_steps};

/// The most tensors that one step may have.
pub const MAX_TENSORS: usize = 128;

/// The tensors of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTensors {
    /// Those that it gets pointers to, in its order.
    pub all: Vec<i64>,
    /// Those of them that exist only inside it, whose pointers are null.
    pub inside: Vec<i64>,
}

impl From<Vec<i64>> for StepTensors {
    fn from(all: Vec<i64>) -> Self {
        Self { all, inside: Vec::new() }
    }
}

/// Where a tensor of a step lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// In the caller's device memory.
    Device(i64),
    /// In the caller's host memory, as a number that is passed at execution.
    Host(i64),
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// An output that is not marked as one: where the caller binds it, else in the workspace at this offset.
    Unmarked(i64, usize),
    /// In no memory: the graph has its value, or it exists only inside the step.
    Nowhere,
}

/// The places of the tensors of steps.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    slots: Vec<Box<[Slot]>>,
    virtuals: Places,
}

impl Placed {
    /// Gives the tensors of each step of a prepared graph places. Those in the workspace share it by the time that they live.
    ///
    /// # Errors
    /// When a step has too many tensors, or the workspace would be larger than the address space.
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

    /// The tensors that lie in the workspace.
    pub fn virtuals(&self) -> &Places {
        &self.virtuals
    }

    /// The workspace of a plan, of whose steps the largest needs so many bytes for itself.
    ///
    /// # Errors
    /// When it is larger than the address space.
    pub fn workspace(&self, scratch: usize) -> Result<Workspace, hipdnn_plugin_sdk::Refusal> {
        Workspace::new(self.virtuals.size, scratch)
    }
}

impl Slot {
    /// The tensor's memory in an execution.
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

/// A step of a plugin's, as people are told of it.
pub trait Call {
    /// The nodes that it computes.
    fn nodes(&self) -> &[usize];

    /// The library or other means that computes them.
    fn library(&self) -> &'static str;

    /// What is called of that.
    fn call(&self) -> Cow<'static, str>;
}

/// A graph with every decision made, in steps of a plugin's. It may run with any handle of the device that it was made on.
#[derive(Debug)]
pub struct Plan<S> {
    request: Request,
    steps: Vec<(S, Box<[Slot]>)>,
    gpu: Gpu,
    /// The driver's number of the device that the steps are for.
    device: c_int,
    memory: PlanMemory,
    /// What a trace calls the steps, once one was asked for.
    names: OnceLock<Box<[CString]>>,
}

impl<S: Call> Plan<S> {
    /// A plan for this device, with as many steps as have places. The largest needs `scratch` bytes for itself.
    ///
    /// # Errors
    /// When the workspace would be larger than the address space.
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

    /// Makes the memory that a plan has itself, for a plan that will be executed.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        self.memory.make_first()?;
        Ok(self)
    }

    /// What the plan was asked for.
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
        described(&self.request.graph, self.steps().map(call))
    }

    /// What a trace calls each step: what is called of the library, and the nodes.
    #[cold]
    fn names(&self) -> &[CString] {
        self.names.get_or_init(|| self.steps().map(|step| trace::name(&step.call(), step.nodes())).collect())
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// Has `run` put each step on the stream, with the pointers of its tensors and memory for itself. Returns when that is done, not when
    /// the work is.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing, or those of `run`.
    ///
    /// # Safety
    /// The buffers are device memory (host memory where a tensor is passed by value at execution), valid for their tensors until the
    /// work is done, and `workspace` is null or valid for [`Plan::workspace_size`] bytes as long.
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
        // A failure says that the device is lost, with all work on it.
        drop(self.gpu.synchronize());
    }
}

/// What the steps of a plan took long to find out, to be saved with it: for each some bytes, by its last node and the number of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found(BTreeMap<usize, (usize, Vec<u8>)>);

impl Found {
    /// Adds what the step with these nodes found out.
    pub fn add(&mut self, nodes: &[usize], bytes: impl Into<Vec<u8>>) {
        if let Some(last) = nodes.last() {
            self.0.insert(*last, (nodes.len(), bytes.into()));
        }
    }

    /// What the step with these nodes found out; none where there was no such step.
    pub fn of(&self, nodes: &[usize]) -> Option<&[u8]> {
        let (count, bytes) = self.0.get(nodes.last()?)?;
        (*count == nodes.len()).then_some(bytes)
    }

    /// The nodes of the steps, where these are so many nodes in order without gaps.
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

    /// Whether nothing is known, as for a new plan.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of [`Found::read`].
    ///
    /// # Errors
    /// When a number is too large.
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

    /// What [`Found::write`] wrote.
    ///
    /// # Errors
    /// When the bytes end too early.
    pub fn read(mut bytes: &[u8]) -> Result<Self, PluginError> {
        let mut found = BTreeMap::new();
        while !bytes.is_empty() {
            let (last, count, own, rest) = record(bytes).ok_or_else(|| {
                PluginError::invalid_value("what a saved plan found out for a step ends too early")
            })?;
            found.insert(last, (count, own.to_vec()));
            bytes = rest;
        }
        Ok(Self(found))
    }
}

/// The first record: last node, number of nodes, bytes; and what comes after it.
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
