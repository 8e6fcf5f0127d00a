//! A graph made ready to run: steps in order, and where each finds its tensors.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;

use hipdnn_plugin_problem::prepare::{in_node, prepare};
use hipdnn_plugin_problem::workspace::place_virtuals;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::{PluginError, Refusal, buffer};

use crate::handle::Ready;
use crate::knob::Options;
use crate::step::{Step, Tensors, design};

/// The most tensors that one operation may have.
const MAX_TENSORS: usize = 32;

/// Alignment in bytes of what lies in the workspace, that of device allocations.
const ALIGNMENT: usize = 256;

/// A graph with every decision made. It may run with any handle of the device that it was made on.
pub struct Plan {
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

impl Plan {
    /// Plans a graph that [`check`] accepts.
    ///
    /// # Errors
    /// What MIOpen has no solution for, and MIOpen's own errors; they name the node.
    pub fn new(ready: &Ready<'_>, graph: &Graph, options: &Options) -> Result<Self, PluginError> {
        let graph = prepare(graph).map_err(Refusal::new)?;
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
                .make(ready, options)
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
        Ok(Self { steps, device: ready.device, virtual_size: virtuals.size, workspace_size })
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
