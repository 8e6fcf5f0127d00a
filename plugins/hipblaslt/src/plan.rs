//! A graph made ready to run: calls in order, and where each finds its tensors.

use std::collections::HashMap;
use std::ffi::c_void;

use hipdnn_plugin_planner::prepare::{Prepared, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::workspace::place_in_steps;
use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::gpu::plan_memory::PlanMemory;
use hipdnn_plugin_sdk::gpu::workspace::{ALIGNMENT, Workspace, same_device};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{PluginError, Refusal, bound, buffer};

use crate::algorithm::{AlgorithmName, AlgorithmRun};
use crate::chain::{Chain, Part, Tensors, explain, longest};
use crate::gemm::GemmRun;
use crate::handle::Ready;
use crate::knob::{Library, Options};
use crate::product::Product;

/// The form of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"HBLT", version: 1, owner: "HIPBLASLT_ENGINE" };

/// A chain that is ready to run.
pub trait Run: Send + Sync {
    /// Bytes of device memory that a run may use for itself.
    fn workspace_size(&self) -> usize;

    /// Puts the work on the stream.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// Each tensor is valid for its extent until the work is done, and `workspace` for [`Run::workspace_size`] bytes.
    unsafe fn run(
        &self,
        ready: &mut Ready<'_>,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError>;
}

/// Where the matrices of a call begin: a, b, the result, and the summand or, where there is none, the result.
pub(crate) fn offset(
    product: &Product,
    begins: &[usize; 4],
    tensors: &Tensors<*mut c_void>,
) -> [*mut c_void; 4] {
    let [a, b, c, summand] = *begins;
    let at = |tensor: *mut c_void, elements: usize, matrix: &crate::product::Matrix| {
        tensor.wrapping_byte_add(elements * matrix.data_type.size().unwrap_or(1))
    };
    let result = at(tensors.c, c, &product.c);
    let added = match (tensors.summand, &product.summand) {
        (Some(tensor), Some(matrix)) => at(tensor, summand, matrix),
        _ => result,
    };
    [at(tensors.a, a, &product.a), at(tensors.b, b, &product.b), result, added]
}

/// A graph with every decision made. It may run with any handle of the device that it was made on.
pub struct Plan {
    graph: Graph,
    config: EngineConfig,
    steps: Vec<Placed>,
    /// HIP's number of the device that the algorithms are for.
    device: i32,
    memory: PlanMemory,
}

struct Placed {
    run: Box<dyn Run>,
    choice: Choice,
    slots: Tensors<Slot>,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// In the caller's memory.
    Bound(i64),
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// An output that nobody marked as one: where the caller binds it, else in the workspace at this offset.
    Unmarked(i64, usize),
}

/// What was decided for a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    /// Its last node, and the number of its nodes.
    last: usize,
    nodes: usize,
    library: Library,
    algorithm: AlgorithmName,
}

/// The decisions of a saved plan.
#[derive(Clone, Debug, Default)]
pub struct Saved(Vec<Choice>);

impl Choice {
    /// Bytes of a saved choice.
    const SIZE: usize = 25;

    fn write(&self, bytes: &mut Vec<u8>) -> Result<(), PluginError> {
        for number in [self.last, self.nodes] {
            let number = u32::try_from(number).map_err(|_| {
                PluginError::internal(format!("{number} is too large a number for a saved plan"))
            })?;
            bytes.extend(number.to_le_bytes());
        }
        bytes.push(match self.library {
            Library::HipblasLt => 1,
            Library::Rocblas => 2,
        });
        bytes.extend(self.algorithm);
        Ok(())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (last, bytes) = bytes.split_first_chunk::<4>()?;
        let (nodes, bytes) = bytes.split_first_chunk::<4>()?;
        let (library, bytes) = bytes.split_first()?;
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        Some(Self {
            last: number(last),
            nodes: number(nodes),
            library: match library {
                1 => Library::HipblasLt,
                2 => Library::Rocblas,
                _ => return None,
            },
            algorithm: bytes.try_into().ok()?,
        })
    }
}

impl Saved {
    /// What was decided for a chain, if it was.
    fn of(&self, part: &Part) -> Option<&Choice> {
        let last = part.nodes.last()?;
        self.0.iter().find(|choice| choice.last == *last && choice.nodes == part.nodes.len())
    }

    /// The graph and the configuration of a saved plan, and what was decided.
    ///
    /// # Errors
    /// When the bytes are no saved plan of this plugin.
    pub fn read(bytes: &[u8]) -> Result<(Graph, EngineConfig, Self), PluginError> {
        let [config, choices, graph] = PAYLOAD.read(bytes)?;
        let choices: Option<Vec<Choice>> = choices.chunks(Choice::SIZE).map(Choice::read).collect();
        let choices = choices
            .ok_or_else(|| PluginError::invalid_value("a saved choice is of no library or ends too early"))?;
        Ok((wire::read(graph)?, wire::read_engine_config(config)?, Self(choices)))
    }
}

/// A chain with what computes it.
struct Made {
    part: Part,
    run: Box<dyn Run>,
    choice: Choice,
}

/// Whether every node of the graph may belong to a chain that begins with a product, found out without a device.
///
/// # Errors
/// The first node that does not, and why.
pub fn check(graph: &Graph) -> Result<(), Refusal> {
    match parts(&prepare(graph)?, Ok) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::new(error.message().to_owned())),
    }
}

/// The chains that a graph falls into, each as long as it can be, in an order in which they can be computed, and what `make`
/// makes of them. Nothing computes what a shorter chain would leave over.
fn parts<T: AsRef<Part>>(
    prepared: &Prepared,
    mut make: impl FnMut(Part) -> Result<T, PluginError>,
) -> Result<Vec<T>, PluginError> {
    let readers = prepared.readers();
    let mut parts: Vec<T> = Vec::new();
    let mut taken = vec![false; prepared.problems.len()];
    for node in prepared.nodes() {
        let first = node.place;
        if taken.get(first) == Some(&true) {
            continue;
        }
        let refuse = |refusal| Refusal::new(node.refusal(refusal));
        // A node behind a product is refused for what keeps it out of the product's call.
        let inputs = node.node.operation.inputs();
        let before = parts.iter().map(T::as_ref).find(|part| inputs.contains(&part.tensors.c));
        if !matches!(node.problem, Problem::Matmul(_))
            && let Some(before) = before
        {
            explain(prepared, before, first).map_err(refuse)?;
        }
        let part = longest(prepared, first, &readers).map_err(refuse)?;
        let made = make(part).map_err(|error| error.with_context(|text| node.refusal(text)))?;
        for place in &made.as_ref().nodes {
            if let Some(taken) = taken.get_mut(*place) {
                *taken = true;
            }
        }
        parts.push(made);
    }
    // What a chain reads may be written between its nodes.
    parts.sort_by_key(|made| made.as_ref().nodes.last().copied());
    Ok(parts)
}

impl AsRef<Self> for Part {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<Part> for Made {
    fn as_ref(&self) -> &Part {
        &self.part
    }
}

/// What computes a chain: what was saved, else the first library that can. The refusal says what keeps each from it.
fn make(
    ready: &mut Ready<'_>,
    chain: &Chain,
    options: &Options,
    saved: Option<&Choice>,
) -> Result<(Box<dyn Run>, Library, AlgorithmName), PluginError> {
    let mut reasons: Vec<PluginError> = Vec::new();
    let mut order = [Library::HipblasLt, Library::Rocblas];
    if saved.is_some_and(|choice| choice.library == Library::Rocblas) {
        order.reverse();
    }
    for library in order.into_iter().filter(|library| options.allows(*library)) {
        let made = match library {
            Library::HipblasLt => {
                AlgorithmRun::new(ready, chain, options, saved.map(|choice| choice.algorithm))
                    .map(|run| (run.name(), Box::new(run) as Box<dyn Run>))
            }
            Library::Rocblas => {
                GemmRun::new(ready, chain, options).map(|run| ([0; 16], Box::new(run) as Box<dyn Run>))
            }
        };
        match made {
            Ok((algorithm, run)) => return Ok((run, library, algorithm)),
            Err(error) => reasons.push(error),
        }
    }
    let failed = reasons.iter().any(|reason| reason.status() == HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR);
    let words: Vec<&str> = reasons.iter().map(PluginError::message).collect();
    let words = words.join("; ");
    Err(if failed { PluginError::internal(words) } else { PluginError::not_applicable(words) })
}

/// The steps of a prepared graph, in order.
fn steps(
    ready: &mut Ready<'_>,
    prepared: &Prepared,
    options: &Options,
    saved: &Saved,
) -> Result<Vec<Made>, PluginError> {
    parts(prepared, |part| {
        let (run, library, algorithm) = make(ready, &part.chain, options, saved.of(&part))?;
        let last = part.nodes.last().copied().unwrap_or_default();
        let choice = Choice { last, nodes: part.nodes.len(), library, algorithm };
        Ok(Made { part, run, choice })
    })
}

impl Plan {
    /// Plans a graph that [`check`] accepts. `saved` is what was once decided for it.
    ///
    /// # Errors
    /// What neither library computes, and the libraries' own errors; they name the node.
    pub fn new(
        ready: &mut Ready<'_>,
        original: &Graph,
        config: EngineConfig,
        options: &Options,
        saved: &Saved,
    ) -> Result<Self, PluginError> {
        let prepared = prepare(original).map_err(Refusal::new)?;
        let made = steps(ready, &prepared, options, saved)?;
        let Prepared { graph, unmarked, .. } = prepared;
        let touched: Vec<Vec<i64>> = made.iter().map(|made| made.part.tensors.all().collect()).collect();
        let virtuals = place_in_steps(&graph, &unmarked, touched.iter().map(Vec::as_slice), ALIGNMENT)
            .map_err(Refusal::new)?;
        let offsets: HashMap<i64, usize> =
            virtuals.places.iter().map(|place| (place.uid, place.offset)).collect();
        let mut steps = Vec::with_capacity(made.len());
        let mut scratch = 0;
        for Made { part, run, choice } in made {
            scratch = scratch.max(run.workspace_size());
            let slots = part.tensors.try_map(|uid| {
                Ok::<_, PluginError>(match offsets.get(&uid) {
                    Some(offset) if unmarked.contains(&uid) => Slot::Unmarked(uid, *offset),
                    Some(offset) => Slot::Workspace(*offset),
                    None => Slot::Bound(uid),
                })
            })?;
            steps.push(Placed { run, choice, slots });
        }
        let workspace = Workspace::new(virtuals.size, scratch)?;
        let memory = PlanMemory::new(Gpu::Hip(ready.runtime.hip), workspace);
        Ok(Self { graph: original.clone(), config, steps, device: ready.device, memory })
    }

    /// Makes the memory that a plan has itself, for a plan that will be executed.
    ///
    /// # Errors
    /// HIP's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        self.memory.make_first()?;
        Ok(self)
    }

    /// The plan as bytes: the configuration, what was decided, and the graph.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let mut choices = Vec::new();
        for step in &self.steps {
            step.choice.write(&mut choices)?;
        }
        PAYLOAD.write(&[
            &wire::write_engine_config(&self.config),
            &choices,
            &wire::write(&self.graph, Layout::G2)?,
        ])
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// Puts the work of the graph on the stream of `ready`. Returns when the libraries have taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or a library fails.
    ///
    /// # Safety
    /// The buffers are device memory, valid for their tensors until the work is done, and `workspace` is null or valid for
    /// [`Plan::workspace_size`] bytes as long.
    pub unsafe fn execute(
        &self,
        ready: &mut Ready<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        same_device(self.device, ready.device)?;
        let stream = ready.stream;
        self.memory.run(workspace, stream, |[virtuals, scratch]| {
            for Placed { run, slots, .. } in &self.steps {
                let tensors = slots.try_map(|slot| match slot {
                    Slot::Bound(uid) => buffer(buffers, uid),
                    Slot::Workspace(offset) => Ok(virtuals.wrapping_byte_add(offset)),
                    Slot::Unmarked(uid, offset) => {
                        Ok(bound(buffers, uid).unwrap_or(virtuals.wrapping_byte_add(offset)))
                    }
                })?;
                // SAFETY: the caller vouches for the bound tensors and for a workspace that, once aligned, has room for the virtual
                // tensors and for what the largest run needs.
                unsafe { run.run(ready, &tensors, scratch) }?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
