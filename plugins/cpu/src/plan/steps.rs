//! An executable plan: kernels in order, and where each finds its tensors.

mod extent;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Tensor, TensorValue};
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::{PluginError, bound, trace};

use crate::dtype::element::Element;
use crate::kernel::{Choice, Kernel, MAX_TENSORS, Part, Refusal, algorithms};
use crate::layout::{Layout, storage_size};
use crate::plan::late::{self, Late};
use crate::plan::own_memory::OwnMemory;
use crate::plan::steps::extent::Extent;
use crate::prepare::{CheckedNode, Prepared};
use crate::problem::{index_tensors, pointers};
use crate::reference;
use crate::threading::stop::Stop;
use crate::threading::{partition, subnormals};
use crate::workspace::{Place, place_in_steps};

/// Alignment of tensors in the workspace, in bytes.
const ALIGNMENT: usize = 64;

/// A fully planned graph. Threads may run a plan concurrently, each with its own workspace or none.
pub struct Plan {
    steps: Vec<Step>,
    /// The uids that a caller must bind, in the order of their first use, then those that it may bind.
    bound: Vec<i64>,
    /// How many of them must be bound.
    required: usize,
    /// Values from the graph, each in the first bytes of a word.
    constants: Box<[u64]>,
    /// Bytes of virtual tensors, which precede the scratch memory in the aligned workspace.
    scratch_offset: usize,
    workspace: usize,
    /// For executions without a workspace.
    own: OwnMemory,
    /// For copies of operands that share memory with a result, and the most bytes that a step's copies take.
    copies: OwnMemory,
    copied: usize,
    /// The most threads of a step, or 1 if fewer than two steps use several.
    threads: usize,
    /// Whether the thread that runs the steps flushes subnormal numbers, as the steps' workers do.
    flushes: bool,
    /// The name of each step in a trace, made on first use.
    names: OnceLock<Box<[CString]>>,
}

struct Step {
    /// The node at whose position the step runs.
    node: usize,
    /// All nodes that the step computes.
    members: Vec<usize>,
    kernel: Box<dyn Kernel>,
    slots: Box<[Slot]>,
    /// Tensors of lengths, offsets and indices, which kernels read again after the check, and the outputs.
    indices: Box<[Extent]>,
    written: Box<[Extent]>,
    /// Operands that are copied if they share memory with the result.
    late: Box<[Late]>,
}

impl Step {
    /// Checks that neither outputs nor the workspace overlap an index, which would change after its check.
    fn check_indices(&self, tensors: &[*mut u8], workspace: (*mut u8, usize)) -> Result<(), ExecuteError> {
        for index in &self.indices {
            let is_bound = matches!(self.slots.get(index.slot), Some(Slot::Bound { .. }));
            let text = if is_bound && workspace.1 > 0 && index.lies_in(workspace, tensors) {
                "the workspace".to_owned()
            } else {
                let mut written = self.written.iter().filter(|written| written.uid != index.uid);
                let Some(met) = written.find(|of| index.meets(of, tensors)) else { continue };
                format!("tensor {}, which is written", met.uid)
            };
            return Err(ExecuteError::Invalid(format!(
                "node {}: tensor {} of {} bytes overlaps {text}, expected lengths, offsets and indices in separate memory",
                self.node, index.uid, index.size
            )));
        }
        Ok(())
    }
}

/// Where a step's tensor is.
#[derive(Clone, Copy)]
enum Slot {
    /// In the caller's memory: the uid and its index in `Plan::bound`.
    Bound { uid: i64, place: usize },
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// A virtual tensor that no node reads: in the caller's memory if bound, else here in the workspace.
    Unmarked { uid: i64, offset: usize },
    /// In `Plan::constants`.
    Constant(usize),
}

/// Why a plan did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecuteError {
    /// An invalid argument. Lengths, offsets or indices out of range stop a plan before a node reads them.
    Invalid(String),
    /// Out of memory: bytes in place of a workspace, or for copies of operands.
    NoMemory(usize),
    /// The program stopped it before this node.
    Stopped(usize),
}

impl std::fmt::Display for ExecuteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid(text) => f.write_str(text),
            Self::NoMemory(size) => {
                write!(f, "there is no memory for {size} bytes in place of a workspace or an operand")
            }
            Self::Stopped(node) => write!(f, "the program stopped the execution before node {node}"),
        }
    }
}

impl std::error::Error for ExecuteError {}

impl From<ExecuteError> for PluginError {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Invalid(text) => Self::invalid_value(text),
            ExecuteError::NoMemory(_) => Self::alloc_failed(error.to_string()),
            ExecuteError::Stopped(_) => Self::internal(error.to_string()),
        }
    }
}

impl Plan {
    /// Plans each node with `choose`. A refusal names the node and the reason.
    pub fn new(
        prepared: &Prepared,
        choose: impl Fn(&CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal>,
    ) -> Result<Self, Refusal> {
        Self::in_parts(prepared, |prepared| {
            prepared.nodes().map(|node| Part::of_node(&prepared.graph, node, &choose)).collect()
        })
    }

    /// Plans the graph with `divide`, which returns parts that cover all nodes, in a valid order.
    pub fn in_parts(
        prepared: &Prepared,
        divide: impl FnOnce(&Prepared) -> Result<Vec<Part>, Refusal>,
    ) -> Result<Self, Refusal> {
        let Prepared { graph, unmarked, .. } = prepared;
        let parts = divide(prepared)?;
        let tensors_of = parts.iter().map(|part| part.tensors.as_slice());
        let virtuals = place_in_steps(graph, unmarked, tensors_of, ALIGNMENT)?;
        let tensors: HashMap<i64, &Tensor> =
            graph.tensors.iter().map(|tensor| (tensor.uid, tensor)).collect();
        let slot = |place: &Place| match unmarked.contains(&place.uid) {
            true => Slot::Unmarked { uid: place.uid, offset: place.offset },
            false => Slot::Workspace(place.offset),
        };
        // The slot of each tensor met so far.
        let mut known: HashMap<i64, Slot> =
            virtuals.places.iter().map(|place| (place.uid, slot(place))).collect();
        let mut plan = Self {
            steps: Vec::with_capacity(parts.len()),
            bound: Vec::new(),
            required: 0,
            constants: Box::default(),
            scratch_offset: 0,
            workspace: 0,
            own: OwnMemory::default(),
            copies: OwnMemory::default(),
            copied: 0,
            threads: 1,
            flushes: false,
            names: OnceLock::new(),
        };
        let operations = || graph.nodes.iter().map(|node| &node.operation);
        let indices: HashSet<i64> = operations().flat_map(|it| index_tensors(graph, it)).collect();
        let written: HashSet<i64> = operations().flat_map(|it| it.outputs()).collect();
        let mut constants = Vec::new();
        let mut scratch = 0;
        for part in parts {
            let refuse = |refusal: Refusal| prepared.refusal(part.node, refusal);
            check_count(part.tensors.len()).map_err(refuse)?;
            scratch = scratch.max(part.kernel.scratch_size());
            let mut slots = Vec::with_capacity(part.tensors.len());
            for uid in &part.tensors {
                let slot = match known.entry(*uid) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(unknown) => {
                        let tensor = tensors.get(uid);
                        let value = tensor.and_then(|tensor| Some((*tensor, tensor.value.as_ref()?)));
                        let slot = match value {
                            Some((tensor, value)) => {
                                constants.push(word(tensor, value).map_err(refuse)?);
                                Slot::Constant(constants.len() - 1)
                            }
                            None => {
                                plan.bound.push(*uid);
                                Slot::Bound { uid: *uid, place: plan.bound.len() - 1 }
                            }
                        };
                        *unknown.insert(slot)
                    }
                };
                slots.push(slot);
            }
            let extents = |of: &HashSet<i64>| Extent::of(&part.tensors, of, &tensors).map_err(refuse);
            let indices = extents(&indices)?;
            let written = if indices.is_empty() { Box::default() } else { extents(&written)? };
            let last = graph.nodes.get(part.node).map(|node| node.operation.outputs()).unwrap_or_default();
            let late = match last.first() {
                Some(result) => late::of(&part, *result, &tensors).map_err(refuse)?,
                None => Box::default(),
            };
            plan.copied = plan.copied.max(late::bytes(&late).map_err(refuse)?);
            let (slots, Part { node, members, kernel, .. }) = (slots.into_boxed_slice(), part);
            plan.steps.push(Step { node, members, kernel, slots, indices, written, late });
        }
        let shared =
            || plan.steps.iter().map(|step| step.kernel.facts().threads).filter(|threads| *threads > 1);
        plan.threads = shared().max().filter(|_| shared().count() > 1).unwrap_or(1);
        plan.required = plan.bound.len();
        plan.bound.extend(virtuals.places.iter().map(|place| place.uid).filter(|uid| unmarked.contains(uid)));
        plan.constants = constants.into_boxed_slice();
        plan.scratch_offset = virtuals.size;
        plan.workspace = virtuals
            .size
            .checked_add(scratch)
            .filter(|size| *size <= isize::MAX as usize - ALIGNMENT)
            .ok_or_else(|| {
                format!("{scratch} bytes of scratch and {} of virtual tensors overflow", virtuals.size)
            })?;
        Ok(plan)
    }

    /// The same plan, whose executions flush subnormal numbers if `flushes`.
    pub(crate) fn flushing(self, flushes: bool) -> Self {
        Self { flushes, ..self }
    }

    /// The uids that [`Plan::execute`] requires, in the order of their first use in the graph.
    pub fn bound(&self) -> &[i64] {
        self.bound.get(..self.required).unwrap_or_default()
    }

    /// These, followed by the virtual tensors that no node reads, which are written if they are bound.
    pub fn bindable(&self) -> &[i64] {
        &self.bound
    }

    /// Bytes of workspace that [`Plan::execute`] needs, with any alignment.
    pub fn workspace_size(&self) -> usize {
        match self.workspace {
            0 => 0,
            // Aligning the address takes up to this much.
            size => size + ALIGNMENT - 1,
        }
    }

    /// The choices in the order of the steps, each with the node at whose position its step runs.
    pub fn choices(&self) -> Vec<(usize, &Choice)> {
        self.steps.iter().flat_map(|step| step.kernel.choices().into_iter().map(|c| (step.node, c))).collect()
    }

    /// Each step's nodes and kernel, in order.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = (&[usize], &dyn Kernel)> {
        self.steps.iter().map(|step| (step.members.as_slice(), &*step.kernel))
    }

    /// The name of each step in a trace: its algorithms and the nodes that it computes.
    #[cold]
    fn names(&self) -> &[CString] {
        self.names.get_or_init(|| {
            let name = |step: &Step| trace::name(&algorithms(&*step.kernel).join(", "), &step.members);
            self.steps.iter().map(name).collect()
        })
    }

    /// Runs the graph and returns when all results are written. Takes no lock and allocates nothing, unless it fails, is the first
    /// with weights of a store (`tensor::store`), or has a null workspace while more executions than ever run concurrently:
    /// the plan then allocates memory and keeps it.
    ///
    /// `buffers` bind tensors by uid in any order; other uids are ignored. If a uid is bound twice, either
    /// binding may be used. The error names a uid that is unbound or bound to null.
    ///
    /// # Safety
    /// Every bound tensor is valid for its extent in bytes, for writes too if the graph writes it, and
    /// `workspace` is null or valid for [`Plan::workspace_size`] bytes, until the call returns. Outputs
    /// overlap no other tensor of the graph, except that new running statistics of a batch normalization may
    /// overwrite the old ones. No other thread writes what is read or touches what is written.
    pub unsafe fn execute(
        &self,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut u8,
    ) -> Result<(), ExecuteError> {
        // Everything is checked before the first step, so that failures leave all tensors unchanged.
        for (place, uid) in self.bound().iter().enumerate() {
            find(buffers, *uid, place)?;
        }
        let own;
        let workspace = if workspace.is_null() && self.workspace > 0 {
            let size = self.workspace_size();
            own = self.own.take(size).ok_or(ExecuteError::NoMemory(size))?;
            own.memory()
        } else {
            workspace
        };
        let aligned = workspace.wrapping_add(workspace.addr().wrapping_neg() % ALIGNMENT);
        let stop = Stop::of_thread();
        // SAFETY: this function requires valid buffers; the workspace has `ALIGNMENT` bytes more than the steps use.
        let run = || unsafe { self.run(buffers, aligned, stop) };
        partition::enter(self.threads, || if self.flushes { subnormals::flushed(run) } else { run() })
    }

    /// Runs the steps, on the thread that leads the others, until the program stops it.
    ///
    /// # Safety
    /// As for [`Plan::execute`], with an aligned workspace.
    unsafe fn run(
        &self,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        aligned: *mut u8,
        stop: Stop<'_>,
    ) -> Result<(), ExecuteError> {
        let scratch = aligned.wrapping_add(self.scratch_offset);
        let mut pointers = [std::ptr::null_mut(); MAX_TENSORS];
        let mut told = trace::Execution::begin(|| self.names());
        for step in &self.steps {
            if stop.is_asked_for() {
                return Err(ExecuteError::Stopped(step.node));
            }
            for (pointer, slot) in pointers.iter_mut().zip(&step.slots) {
                *pointer = match *slot {
                    Slot::Bound { uid, place } => find(buffers, uid, place)?,
                    Slot::Workspace(offset) => aligned.wrapping_add(offset),
                    Slot::Unmarked { uid, offset } => {
                        bound(buffers, uid).map_or(aligned.wrapping_add(offset), <*mut _>::cast)
                    }
                    // Never written: a tensor with a value is not an output.
                    Slot::Constant(place) => self.constants.as_ptr().wrapping_add(place).cast_mut().cast(),
                };
            }
            let copies;
            if step.late.iter().any(|operand| operand.meets(&pointers)) {
                copies = self.copies.take(self.copied).ok_or(ExecuteError::NoMemory(self.copied))?;
                // SAFETY: every tensor is valid for its extent, and the copies have room for those of every step.
                unsafe { late::copy(&step.late, &mut pointers, copies.memory()) };
            }
            let tensors = pointers.get(..step.slots.len()).unwrap_or_default();
            step.check_indices(tensors, (aligned, self.workspace))?;
            // SAFETY: the tensors are in the operation's order. The caller provides the bound memory and a
            // workspace that, once aligned, has room for all virtual tensors and the largest scratch; live
            // tensors do not overlap in it.
            unsafe {
                step.kernel
                    .check(tensors)
                    .map_err(|refusal| ExecuteError::Invalid(format!("node {}: {refusal}", step.node)))?;
                step.kernel.run(tensors, scratch);
            }
            told.end_step();
        }
        Ok(())
    }
}

/// Whether the reference, and so every engine, can compute a graph: finds what [`Plan::new`] would refuse,
/// without planning.
///
/// # Errors
/// The first node that it cannot compute, and why.
pub fn check(prepared: &Prepared) -> Result<(), Refusal> {
    let graph = &prepared.graph;
    let mut scratch = 0;
    for node in prepared.nodes() {
        let mut check_node = || {
            scratch = scratch.max(reference::plan_node(&node)?.scratch_size());
            check_count(pointers(graph, &node.node.operation).len())
        };
        check_node().map_err(|refusal| node.refusal(refusal))?;
    }
    // As if every virtual tensor stayed live to the end.
    let mut size = scratch;
    let in_workspace = |tensor: &&Tensor| tensor.is_virtual || prepared.unmarked.contains(&tensor.uid);
    for tensor in graph.tensors.iter().filter(in_workspace) {
        let own = storage_size(tensor.data_type, Layout::of(tensor)?.extent())?;
        size = own
            .checked_next_multiple_of(ALIGNMENT)
            .and_then(|own| own.checked_add(size))
            .filter(|size| *size <= isize::MAX as usize - 2 * ALIGNMENT)
            .ok_or_else(|| {
                format!("virtual tensor {}: the workspace would be larger than the address space", tensor.uid)
            })?;
    }
    Ok(())
}

fn check_count(count: usize) -> Result<(), Refusal> {
    if count > MAX_TENSORS {
        return Err(format!("has {count} tensors, expected at most {MAX_TENSORS}"));
    }
    Ok(())
}

/// The pointer bound to `uid`. Tries index `place` first, for callers that bind in the plan's order.
fn find(buffers: &[hipdnnPluginDeviceBuffer_t], uid: i64, place: usize) -> Result<*mut u8, ExecuteError> {
    let buffer = buffers
        .get(place)
        .filter(|buffer| buffer.uid == uid)
        .or_else(|| buffers.iter().find(|buffer| buffer.uid == uid))
        .ok_or_else(|| {
            ExecuteError::Invalid(format!(
                "tensor {uid} is bound by none of the {} buffers, expected a pointer",
                buffers.len()
            ))
        })?;
    if buffer.ptr.is_null() {
        return Err(ExecuteError::Invalid(format!(
            "tensor {uid} is bound to null, expected a pointer to its first element"
        )));
    }
    Ok(buffer.ptr.cast())
}

/// A tensor's value in the tensor's type, in the first bytes of a word.
fn word(tensor: &Tensor, value: &TensorValue) -> Result<u64, Refusal> {
    if let (TensorValue::Int64(value), DataType::Int64) = (value, tensor.data_type) {
        // A double cannot hold every such number.
        return Ok(value.cast_unsigned());
    }
    let refuse = |text: String| format!("tensor {} \"{}\": value: {text}", tensor.uid, tensor.name);
    let number = value.as_f64().ok_or_else(|| refuse("cannot be read as a number".to_owned()))?;
    let element = Element::<f64>::of(tensor.data_type).map_err(refuse)?;
    let mut word = 0_u64;
    // SAFETY: no element is larger than the word.
    unsafe { element.store((&raw mut word).cast(), 0, number) };
    Ok(word)
}
