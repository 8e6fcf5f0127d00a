//! A graph made ready to run: steps in order, and where each finds its tensors.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;

use hipdnn_plugin_problem::prepare::{in_node, prepare};
use hipdnn_plugin_problem::workspace::place_virtuals;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{PluginError, Refusal, buffer};

use crate::handle::Ready;
use crate::knob::Options;
use crate::step::{Step, Tensors, design};

/// The most tensors that one operation may have.
const MAX_TENSORS: usize = 32;

/// Alignment in bytes of what lies in the workspace, that of device allocations.
const ALIGNMENT: usize = 256;

/// The form of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"HMIO", version: 1, owner: "the MIOpen engines" };

/// A graph with every decision made. It may run with any handle of the device that it was made on.
pub struct Plan {
    graph: Graph,
    config: EngineConfig,
    steps: Vec<Placed>,
    /// HIP's number of the device that the solutions are for.
    device: i32,
    /// Bytes of virtual tensors, from an aligned address; what a step needs for itself comes behind them.
    virtual_size: usize,
    workspace_size: usize,
}

struct Placed {
    step: Box<dyn Step>,
    slots: Box<[Slot]>,
}

/// Where a tensor of a step lies.
#[derive(Clone, Copy)]
enum Slot {
    /// In the caller's memory.
    Bound(i64),
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// In the graph: the step knows its value.
    Value,
}

/// Whether every node of the graph is one that MIOpen computes, found out without a device.
///
/// # Errors
/// The first node that is not, and why.
pub fn check(graph: &Graph) -> Result<(), Refusal> {
    let graph = prepare(graph)?;
    for (place, node) in graph.nodes.iter().enumerate() {
        check_count(node.operation.tensors().len())
            .and_then(|()| design(&graph, node).map(drop))
            .map_err(|refusal| in_node(place, node, refusal))?;
    }
    Ok(())
}

fn check_count(count: usize) -> Result<(), String> {
    if count > MAX_TENSORS {
        return Err(format!("has {count} tensors, expected at most {MAX_TENSORS}"));
    }
    Ok(())
}

/// What the steps of a saved plan found out, a part for each.
#[derive(Clone, Debug, Default)]
pub struct Saved(Vec<Vec<u8>>);

impl Saved {
    /// What the step in this place found out; empty where that is not known.
    fn step(&self, place: usize) -> &[u8] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// The graph and the configuration of a saved plan, and what its steps found out.
    ///
    /// # Errors
    /// When the bytes are no saved plan of this plugin.
    pub fn read(bytes: &[u8]) -> Result<(Graph, EngineConfig, Self), PluginError> {
        let [config, mut found, graph] = PAYLOAD.read(bytes)?;
        let mut steps = Vec::new();
        while !found.is_empty() {
            let part = found
                .split_first_chunk::<4>()
                .and_then(|(size, rest)| rest.split_at_checked(u32::from_le_bytes(*size) as usize));
            let (step, rest) =
                part.ok_or_else(|| PluginError::invalid_value("a saved solution ends too early"))?;
            steps.push(step.to_vec());
            found = rest;
        }
        Ok((wire::read(graph)?, wire::read_engine_config(config)?, Self(steps)))
    }
}

impl Plan {
    /// Plans a graph that [`check`] accepts.
    ///
    /// # Errors
    /// What MIOpen has no solution for, and MIOpen's own errors; they name the node. `saved` is what steps of the same graph
    /// once found out.
    pub fn new(
        ready: &Ready<'_>,
        original: &Graph,
        config: EngineConfig,
        options: &Options,
        saved: &Saved,
    ) -> Result<Self, PluginError> {
        let graph = prepare(original).map_err(Refusal::new)?;
        let virtuals = place_virtuals(&graph, ALIGNMENT).map_err(Refusal::new)?;
        let mut slot_of: HashMap<i64, Slot> =
            virtuals.places.iter().map(|place| (place.uid, Slot::Workspace(place.offset))).collect();
        let mut steps = Vec::with_capacity(graph.nodes.len());
        let mut scratch = 0;
        for (place, node) in graph.nodes.iter().enumerate() {
            let uids = node.operation.tensors();
            let design = check_count(uids.len())
                .and_then(|()| design(&graph, node))
                .map_err(|refusal| Refusal::new(in_node(place, node, refusal)))?;
            let step = design
                .make(ready, options, saved.step(place))
                .map_err(|error| error.with_context(|text| in_node(place, node, text)))?;
            scratch = scratch.max(step.workspace_size());
            let slots = uids.into_iter().map(|uid| match slot_of.entry(uid) {
                Entry::Occupied(slot) => *slot.get(),
                Entry::Vacant(slot) => {
                    let has_value = graph.tensor(uid).is_some_and(|tensor| tensor.value.is_some());
                    *slot.insert(if has_value { Slot::Value } else { Slot::Bound(uid) })
                }
            });
            let slots = slots.collect();
            steps.push(Placed { step, slots });
        }
        let workspace_size = virtuals
            .size
            .checked_add(scratch)
            .and_then(|size| if size == 0 { Some(0) } else { size.checked_add(ALIGNMENT - 1) })
            .ok_or_else(|| Refusal::new("the workspace would be larger than the address space"))?;
        Ok(Self {
            graph: original.clone(),
            config,
            steps,
            device: ready.device,
            virtual_size: virtuals.size,
            workspace_size,
        })
    }

    /// The plan as bytes: the configuration, what the steps found out, and the graph.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let mut found = Vec::new();
        for Placed { step, .. } in &self.steps {
            let bytes = step.saved();
            let size = u32::try_from(bytes.len()).map_err(|_| {
                PluginError::internal(format!("a solution of {} bytes is too large to be saved", bytes.len()))
            })?;
            found.extend(size.to_le_bytes());
            found.extend(bytes);
        }
        PAYLOAD.write(&[
            &wire::write_engine_config(&self.config),
            &found,
            &wire::write(&self.graph, Layout::G2)?,
        ])
    }

    /// Bytes of device memory that [`Plan::execute`] needs, at any address.
    pub fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// Puts the work of the graph on the stream of `ready`. Returns when MIOpen has taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or MIOpen fails.
    ///
    /// # Safety
    /// The buffers are device memory (host memory where a tensor is passed by value at execution), valid for their tensors
    /// until the work is done, and `workspace` for [`Plan::workspace_size`] bytes.
    pub unsafe fn execute(
        &self,
        ready: &Ready<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        if ready.device != self.device {
            return Err(PluginError::bad_param(format!(
                "the plan was made for device {} and the handle works on device {}, expected the same",
                self.device, ready.device
            )));
        }
        if workspace.is_null() && self.workspace_size > 0 {
            return Err(PluginError::bad_param(format!(
                "workspace is null, expected {} bytes of device memory",
                self.workspace_size
            )));
        }
        let aligned = workspace.wrapping_byte_add(workspace.addr().wrapping_neg() % ALIGNMENT);
        let scratch = aligned.wrapping_byte_add(self.virtual_size);
        let mut pointers = [std::ptr::null_mut(); MAX_TENSORS];
        for Placed { step, slots } in &self.steps {
            for (pointer, slot) in pointers.iter_mut().zip(slots) {
                *pointer = match *slot {
                    Slot::Bound(uid) => buffer(buffers, uid)?,
                    Slot::Workspace(offset) => aligned.wrapping_byte_add(offset),
                    Slot::Value => std::ptr::null_mut(),
                };
            }
            let tensors = Tensors(pointers.get(..slots.len()).unwrap_or_default());
            // SAFETY: the tensors are in the operation's order; the caller vouches for the bound ones and for a workspace that,
            // once aligned, has room for the virtual tensors and for what the largest step needs.
            unsafe { step.run(ready, &tensors, scratch) }?;
        }
        Ok(())
    }
}
