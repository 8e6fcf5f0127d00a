//! A graph as calls of cuBLASLt in order, and where each finds its tensors.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_planner::step::described;
use hipdnn_plugin_planner::workspace::place_in_steps;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::gpu::plan_memory::PlanMemory;
use hipdnn_plugin_sdk::gpu::workspace::{ALIGNMENT, Workspace, same_device};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{PluginError, Refusal, bound, buffer};

use crate::handle::Entered;
use crate::knob::Options;
use crate::lt::algorithm::Run;
use crate::lt::library::cublasLtMatmulAlgo_t;
use crate::plan::device_memory;
use hipdnn_plugin_planner::chain::{Tensors, partition};

/// The form of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"CULT", version: 1, owner: "CUBLASLT_ENGINE" };

/// Bytes of a saved algorithm, behind the last node of its chain.
const SAVED: usize = 4 + size_of::<cublasLtMatmulAlgo_t>();

/// The most tensors of a chain.
const MOST_TENSORS: usize = 5;

/// A graph with every decision made. It may run with any handle of the device that it was made on.
#[derive(Debug)]
pub struct Plan {
    graph: Graph,
    config: EngineConfig,
    steps: Vec<Step>,
    device: c_int,
    memory: PlanMemory,
}

#[derive(Debug)]
struct Step {
    run: Run,
    /// The nodes of the chain.
    nodes: Vec<usize>,
    tensors: Tensors<i64>,
    /// Where each of them is, in their order.
    slots: Vec<Slot>,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// In the caller's memory.
    Bound(i64),
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// Where the caller binds it, else in the workspace at this offset.
    Unmarked(i64, usize),
}

/// The algorithm that was saved for the chain that ends with a node.
fn saved_for(saved: &[u8], last: usize) -> Option<cublasLtMatmulAlgo_t> {
    saved.chunks_exact(SAVED).find_map(|chunk| {
        let (node, words) = chunk.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*node) as usize != last {
            return None;
        }
        let mut algorithm = cublasLtMatmulAlgo_t::default();
        for (word, bytes) in algorithm.data.iter_mut().zip(words.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(algorithm)
    })
}

impl Plan {
    /// Plans a graph that [`check`](hipdnn_plugin_planner::chain::check) accepts. `saved` is what [`Plan::read`] answers of a saved plan, or empty.
    ///
    /// # Errors
    /// What cuBLASLt does not compute, and its own errors; they name the node.
    pub fn new(
        entered: &Entered<'_>,
        original: &Graph,
        config: EngineConfig,
        options: &Options,
        saved: &[u8],
    ) -> Result<Self, PluginError> {
        let prepared = prepare(original).map_err(Refusal::new)?;
        let (graph, unmarked) = (&prepared.graph, &prepared.unmarked);
        let parts = partition(&prepared, Ok)?;
        let touched: Vec<Vec<i64>> = parts.iter().map(|part| part.tensors.all().collect()).collect();
        let virtuals = place_in_steps(graph, unmarked, touched.iter().map(Vec::as_slice), ALIGNMENT)
            .map_err(Refusal::new)?;
        let offsets: HashMap<i64, usize> =
            virtuals.places.iter().map(|place| (place.uid, place.offset)).collect();
        let promised = |uid: i64| {
            let tensor = graph.tensor(uid).filter(|_| !offsets.contains_key(&uid) || unmarked.contains(&uid));
            let promised = tensor.and_then(|tensor| usize::try_from(tensor.alignment).ok());
            promised.map_or(ALIGNMENT, |bytes| if bytes.is_power_of_two() { bytes } else { 1 })
        };
        let mut steps = Vec::with_capacity(parts.len());
        let mut scratch = 0;
        for part in &parts {
            let last = part.nodes.last().copied().unwrap_or_default();
            let alignment = part.tensors.all().map(promised).min().unwrap_or(1);
            let made = Run::new(&entered.device, &part.chain, alignment, options, saved_for(saved, last));
            let run = made.map_err(|error| error.with_context(|text| prepared.refusal(last, text)))?;
            scratch = scratch.max(run.workspace_size());
            let slots = part.tensors.all().map(|uid| match offsets.get(&uid) {
                Some(offset) if unmarked.contains(&uid) => Slot::Unmarked(uid, *offset),
                Some(offset) => Slot::Workspace(*offset),
                None => Slot::Bound(uid),
            });
            let nodes = part.nodes.clone();
            steps.push(Step { run, nodes, tensors: part.tensors, slots: slots.collect() });
        }
        let workspace = Workspace::new(virtuals.size, scratch)?;
        let memory = PlanMemory::new(Gpu::Cuda(entered.device), workspace);
        Ok(Self { graph: original.clone(), config, steps, device: entered.device.number, memory })
    }

    /// Makes the memory that a plan has itself, for a plan that will be executed.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        self.memory.make_first()?;
        Ok(self)
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// The plan as bytes: the configuration, the algorithms, and the graph.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let mut algorithms = Vec::with_capacity(self.steps.len() * SAVED);
        for step in &self.steps {
            let last = step.nodes.last().copied().unwrap_or_default();
            algorithms.extend((last as u32).to_le_bytes());
            algorithms.extend(step.run.algorithm().data.iter().flat_map(|word| word.to_le_bytes()));
        }
        PAYLOAD.write(&[
            &wire::write_engine_config(&self.config),
            &algorithms,
            &wire::write(&self.graph, Layout::G2)?,
        ])
    }

    /// What an execution does: the calls of cuBLASLt.
    pub fn describe(&self) -> Option<Vec<hipdnn_plugin_sdk::Step>> {
        let call = |step: &Step| (step.nodes.clone(), "cuBLASLt", "cublasLtMatmul".to_owned());
        described(&self.graph, self.steps.iter().map(call))
    }

    /// The graph, the configuration and the algorithms of a saved plan.
    ///
    /// # Errors
    /// When the bytes are no saved plan of this engine.
    pub fn read(bytes: &[u8]) -> Result<(Graph, EngineConfig, Vec<u8>), PluginError> {
        let [config, algorithms, graph] = PAYLOAD.read(bytes)?;
        Ok((wire::read(graph)?, wire::read_engine_config(config)?, algorithms.to_vec()))
    }

    /// Puts the work of the graph on the stream. Returns when cuBLASLt has taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or cuBLASLt fails.
    ///
    /// # Safety
    /// The buffers are device memory, valid for their tensors until the work is done, and `workspace` is null or valid for
    /// [`Plan::workspace_size`] bytes as long.
    pub unsafe fn execute(
        &self,
        entered: &Entered<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        same_device(self.device, entered.device.number)?;
        let (device, stream) = (entered.device, entered.stream);
        self.memory.run(workspace, stream, |[virtuals, scratch]| {
            for Step { run, tensors, slots, .. } in &self.steps {
                let find = |slot: Slot| match slot {
                    Slot::Bound(uid) => device_memory(device, uid, buffer(buffers, uid)?, run.alignment),
                    Slot::Workspace(offset) => Ok(virtuals.wrapping_byte_add(offset)),
                    Slot::Unmarked(uid, offset) => match bound(buffers, uid) {
                        Some(pointer) => device_memory(device, uid, pointer, run.alignment),
                        None => Ok(virtuals.wrapping_byte_add(offset)),
                    },
                };
                let mut pointers = [std::ptr::null_mut(); MOST_TENSORS];
                for (pointer, slot) in pointers.iter_mut().zip(slots) {
                    *pointer = find(*slot)?;
                }
                let tensors = tensors.filled(&pointers);
                // SAFETY: the caller vouches for the bound tensors and for a workspace that, once aligned, has room for the
                // virtual tensors and for what the largest run needs.
                unsafe { run.run(&tensors, scratch, stream) }?;
            }
            Ok(())
        })
    }
}
