//! A plan as the engines return it: it can be saved and run with other shapes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_planner::shapes::{Others, graph_for};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::wire::{KnobSetting, Layout};
use hipdnn_plugin_sdk::{EngineNumerics, Numerics, Overrides, PluginError, Refusal, Step, wire};

use crate::memory;
use crate::plan::description;
use crate::plan::empty::{places, prepare};
use crate::plan::numerics::KNOBS;
use crate::plan::planner::Planner;
use crate::plan::staging::{self, Copies};
use crate::plan::steps::Plan;
use crate::prepare::Prepared;
use crate::tensor::store::Store;

/// Plans that need at most this much allocate it themselves instead of asking for a workspace. It is no more
/// than the rest of a plan takes; 1000 plans need 64 MB. Larger workspaces are better shared by plans that
/// run in turn.
const SMALL: usize = 64 << 10;

/// The format of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"HCPU", version: 1, owner: "the CPU engines" };

/// A request and its plan.
pub struct Compiled {
    request: Request,
    planner: Planner,
    plan: Plan,
    /// The store that it shares packed weights in.
    store: Option<Arc<Store>>,
    /// Plans for other shapes.
    others: Others<Plan>,
    /// `None` if tensors in device memory are refused.
    copies: Option<Copies>,
    /// Whether it was executed: a program may load a device's library between planning and execution.
    has_run: AtomicBool,
}

impl Compiled {
    /// Plans a request whose graph is `prepared`.
    pub fn new(request: Request, prepared: &Prepared, planner: Planner) -> Result<Self, Refusal> {
        let copies = staging::is_asked_for().then(Copies::default);
        // Copies of tensors in device memory have addresses of their own; later plans for other shapes do not share, as their
        // thread may have set the store of others.
        let store = Store::of_thread().filter(|_| copies.is_none());
        let own = if store.is_some() { planner.sharing() } else { planner };
        let plan = own.plan_prepared(prepared)?;
        if matches!(planner, Planner::Fast(_)) {
            description::warn_of_reference(prepared, &plan);
        }
        let (others, has_run) = (Others::default(), AtomicBool::default());
        Ok(Self { request, planner, plan, store, others, copies, has_run })
    }

    /// Whether a new plan of a request with this graph and these knobs would be the same.
    pub fn is_of(&self, graph: &Graph, knobs: &[KnobSetting], planner: Planner) -> bool {
        let store = Store::of_thread().filter(|_| !staging::is_asked_for());
        self.planner == planner
            && self.request.config.knobs == knobs
            && self.request.graph == *graph
            && self.copies.is_some() == staging::is_asked_for()
            && self.store.as_ref().map(Arc::as_ptr) == store.as_ref().map(Arc::as_ptr)
    }

    /// The plan for the shapes of the graph.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether it can be shared: it keeps no tensor's content, and copies from devices only if a new plan
    /// would.
    pub fn is_shareable(&self) -> bool {
        !self.planner.keeps_weights() && self.copies.is_some() == staging::is_asked_for()
    }

    /// The steps of an execution. Prepares the graph again: this is rarely needed, and plans need not keep
    /// it.
    pub fn steps(&self) -> Option<Vec<Step>> {
        let graph = &self.request.graph;
        let mut steps = description::steps(&prepare(graph).ok()?, &self.plan, self.planner.settings());
        if let Some(places) = places(graph) {
            for node in steps.iter_mut().flat_map(|step| &mut step.nodes) {
                *node = places.get(*node).copied().unwrap_or(*node);
            }
        }
        Some(steps)
    }

    /// What such plans may do to numbers.
    pub fn numerics(&self) -> Option<EngineNumerics> {
        let mut numerics = Numerics::default();
        self.steps()?.iter().for_each(|step| numerics.add(&step.numerics));
        let knobs = if self.planner.settings().is_some() { KNOBS.to_vec() } else { Vec::new() };
        Some(EngineNumerics { numerics, knobs })
    }

    /// Bytes of workspace to ask callers for: 0 if the plan allocates its own.
    pub fn workspace_size(&self) -> usize {
        match self.plan.workspace_size() {
            0..=SMALL => 0,
            size => size,
        }
    }

    /// The caller's workspace, if one of this size was requested.
    fn if_asked(&self, workspace: *mut u8, size: usize) -> *mut u8 {
        if size > 0 && size <= self.workspace_size() { workspace } else { null_mut() }
    }

    /// Runs the graph. Fails before it reads or writes anything if tensors or the workspace are in device
    /// memory, unless the plan may copy.
    ///
    /// # Safety
    /// As for [`Plan::execute`]; the workspace is null, or valid for [`Compiled::workspace_size`] bytes. If
    /// tensors are in device memory, the stream belongs to that device.
    pub unsafe fn execute(
        &self,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut u8,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        // SAFETY: `run` requires buffers, workspace and stream as this function does, for the same graph.
        unsafe { self.run(&self.plan, || Ok(Cow::Borrowed(&self.request.graph)), buffers, workspace, stream) }
    }

    /// Runs the graph with other shapes. The first call with these shapes makes a plan, which is kept. If it
    /// needs more workspace than was requested, it allocates its own.
    ///
    /// # Safety
    /// As for [`Compiled::execute`]; the extents are those of the overrides.
    pub unsafe fn execute_with(
        &self,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut u8,
        overrides: Overrides<'_>,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        let graph = || graph_for(&self.request.graph, overrides);
        let make = || self.planner.plan(&graph()?).map_err(PluginError::invalid_value);
        let plan = self.others.plan(overrides, make, |_| ())?;
        // SAFETY: the plan is that of the overrides, and the buffers have their extents.
        unsafe { self.run(&plan, || graph().map(Cow::Owned), buffers, workspace, stream) }
    }

    /// Runs a plan of a graph.
    ///
    /// # Safety
    /// As for [`Compiled::execute`], with the extents of this graph.
    unsafe fn run<'a>(
        &self,
        plan: &Plan,
        graph: impl FnOnce() -> Result<Cow<'a, Graph>, PluginError>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut u8,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        if !self.has_run.load(Ordering::Relaxed) {
            self.has_run.store(true, Ordering::Relaxed);
            memory::look_for_devices_of_programs();
        }
        let workspace = self.if_asked(workspace, plan.workspace_size());
        match (memory::check(plan.bindable(), buffers, workspace.cast()), &self.copies) {
            // SAFETY: the buffers cover their tensors; `if_asked` keeps the workspace only if it is large enough.
            (Ok(()), _) => Ok(unsafe { plan.execute(buffers, workspace) }?),
            (Err(refusal), None) => Err(refusal),
            (Err(_), Some(copies)) => {
                copies.tell(&self.request.graph.name);
                // SAFETY: the buffers cover the tensors of this graph, also in device memory; the stream is
                // that of the device.
                unsafe {
                    staging::execute(&prepare(&*graph()?).map_err(Refusal::new)?.graph, plan, stream, buffers)
                }
            }
        }
    }

    /// Serializes the configuration and the graph, from which the same plan is made again.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let Request { graph, config } = &self.request;
        PAYLOAD.write(&[&wire::write_engine_config(config), &wire::write(graph, Layout::G2)?])
    }

    /// The graph and the configuration of a saved plan.
    pub fn read(bytes: &[u8]) -> Result<Request, PluginError> {
        let [config, graph] = PAYLOAD.read(bytes)?;
        let config = wire::read_engine_config(config)?;
        Ok(Request { graph: wire::read(graph)?, config })
    }
}
