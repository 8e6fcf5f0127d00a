//! Executions with shapes other than those a plan was made for.
//!
//! The first execution with some shapes makes a plan for them, which is cached. [`AnyShape`] adds this to a
//! plugin whose plans are for one shape.

use std::borrow::Cow;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::lock::Mutex;
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::{EngineDetails, Knob, KnobSetting};
use hipdnn_plugin_sdk::{
    EngineNumerics, EnginePlugin, Override, Overrides, PluginError, Refusal, Step, fork,
};

/// Number of cached plans for other shapes, least recently used dropped first; more while threads are
/// executing them.
pub const KEPT: usize = 8;

/// The shape that replaces a tensor's shape in the graph.
struct Shape {
    uid: i64,
    dims: Vec<i64>,
    strides: Vec<i64>,
}

impl Shape {
    fn of(shape: Override<'_>) -> Self {
        Self { uid: shape.uid, dims: shape.dims.to_vec(), strides: shape.strides.to_vec() }
    }

    fn is(&self, other: Override<'_>) -> bool {
        self.uid == other.uid && self.dims == other.dims && self.strides == other.strides
    }
}

/// A plan of a graph with other shapes.
struct Other<P> {
    shapes: Vec<Shape>,
    plan: Arc<P>,
}

impl<P> Other<P> {
    /// Whether no thread holds the plan. Threads obtain it only under the lock.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.plan) == 1
    }
}

/// The plans of a graph with other shapes, most recently used first.
pub struct Others<P>(Mutex<Vec<Other<P>>>);

impl<P> Default for Others<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P> Others<P> {
    /// The plan for these shapes, made if it is not cached. `leave` gets each evicted plan before it is
    /// dropped; a plan that a thread obtained from here or from [`Others::kept`] stays until a later call.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn plan(
        &self,
        overrides: Overrides<'_>,
        make: impl FnOnce() -> Result<P, PluginError>,
        leave: impl Fn(&P),
    ) -> Result<Arc<P>, PluginError> {
        if let Some(known) = self.known(overrides) {
            return Ok(known);
        }
        let plan = Arc::new(make()?);
        let other = Other { shapes: overrides.iter().map(Shape::of).collect(), plan: Arc::clone(&plan) };
        let mut left = Vec::new();
        {
            // The list is consistent at any time, even after a panic.
            let mut others = self.0.lock();
            others.insert(0, other);
            while others.len() > KEPT
                && let Some(unused) = others.iter().rposition(Other::is_unused)
            {
                left.push(others.remove(unused));
            }
        }
        left.iter().for_each(|other| leave(&other.plan));
        Ok(plan)
    }

    /// The cached plans, most recently used first.
    pub fn kept(&self) -> Vec<Arc<P>> {
        self.0.lock().iter().map(|other| Arc::clone(&other.plan)).collect()
    }

    fn known(&self, overrides: Overrides<'_>) -> Option<Arc<P>> {
        let mut others = self.0.lock();
        let is_for = |other: &Other<P>| {
            other.shapes.len() == overrides.len()
                && other.shapes.iter().zip(overrides.iter()).all(|(own, other)| own.is(other))
        };
        let position = others.iter().position(is_for)?;
        let front = others.get_mut(..=position)?;
        front.rotate_right(1);
        front.first().map(|other| Arc::clone(&other.plan))
    }
}

/// A graph with other shapes.
///
/// # Errors
/// When the graph lacks one of the tensors.
pub fn graph_for(graph: &Graph, overrides: Overrides<'_>) -> Result<Graph, PluginError> {
    let mut graph = graph.clone();
    for shape in overrides.iter() {
        let tensor = graph.tensors.iter_mut().find(|tensor| tensor.uid == shape.uid);
        let tensor = tensor.ok_or_else(|| {
            PluginError::invalid_value(format!(
                "tensor {} has another shape and is not in the graph",
                shape.uid
            ))
        })?;
        tensor.dims = shape.dims.to_vec();
        tensor.strides = shape.strides.to_vec();
    }
    Ok(graph)
}

/// A plan for one shape that knows its request.
pub trait Asked {
    /// The request that the plan answers.
    fn request(&self) -> &Request;

    /// Waits for executions to finish, before the plan is dropped without the program's knowledge.
    fn finish(&self);
}

/// A plan with its variants for other shapes.
pub struct Shaped<P> {
    plan: P,
    others: Others<P>,
}

impl<P> From<P> for Shaped<P> {
    fn from(plan: P) -> Self {
        Self { plan, others: Others::default() }
    }
}

/// Adds executions with other shapes to a plugin whose plans are for one shape.
pub struct AnyShape<E>(PhantomData<E>);

impl<E: EnginePlugin> EnginePlugin for AnyShape<E>
where
    E::Plan: Asked,
{
    const NAME: &'static str = E::NAME;
    const VERSION: &'static str = E::VERSION;
    const ENGINES: &'static [&'static str] = E::ENGINES;
    const KEPT_BACK: &'static [&'static str] = E::KEPT_BACK;
    const API_VERSION: &'static str = E::API_VERSION;
    const LOCKS: &'static fork::List = E::LOCKS;
    type Handle = E::Handle;
    type Plan = Shaped<E::Plan>;

    fn create_handle() -> Result<E::Handle, PluginError> {
        E::create_handle()
    }

    fn set_stream(handle: &E::Handle, stream: hipStream_t) -> Result<(), PluginError> {
        E::set_stream(handle, stream)
    }

    fn supports(handle: &E::Handle, engine: usize, graph: &Graph) -> Result<(), Refusal> {
        E::supports(handle, engine, graph)
    }

    fn details(handle: &E::Handle, engine: usize, graph: &Graph) -> Result<EngineDetails, PluginError> {
        E::details(handle, engine, graph)
    }

    fn knobs(handle: &E::Handle, engine: usize, graph: &Graph) -> Result<Cow<'static, [Knob]>, PluginError> {
        E::knobs(handle, engine, graph)
    }

    fn plan(
        handle: &E::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Self::Plan, PluginError> {
        E::plan(handle, engine, graph, knobs).map(Shaped::from)
    }

    fn workspace_size(
        handle: &E::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        E::workspace_size(handle, engine, graph, knobs)
    }

    fn plan_workspace_size(plan: &Self::Plan) -> usize {
        E::plan_workspace_size(&plan.plan)
    }

    unsafe fn execute(
        handle: &E::Handle,
        plan: &Self::Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        // SAFETY: buffers and workspace are those of the plan for the shapes of the graph.
        unsafe { E::execute(handle, &plan.plan, workspace, buffers) }
    }

    unsafe fn execute_with_overrides(
        handle: &E::Handle,
        plan: &Self::Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        overrides: Overrides<'_>,
    ) -> Result<(), PluginError> {
        let Request { graph, config } = plan.plan.request();
        // The plan refuses unsupported shapes.
        let make = || {
            let engine = E::engine_of_saved_plan(config.engine_id)?;
            E::plan(handle, engine, &graph_for(graph, overrides)?, &config.knobs)
        };
        let other = plan.others.plan(overrides, make, Asked::finish)?;
        let [given, needed] = [&plan.plan, &*other].map(E::plan_workspace_size);
        // If the caller was asked for less, the plan must use its own memory.
        let workspace = if needed <= given { workspace } else { null_mut() };
        // SAFETY: the buffers have the extents of the overrides, for which this plan is, and the workspace is null or large enough.
        let done = unsafe { E::execute(handle, &other, workspace, buffers) };
        if needed <= given {
            return done;
        }
        done.map_err(|error| {
            error.with_context(|text| {
                format!("with these shapes the plan needs {needed} bytes of workspace, where it was made with {given}: {text}")
            })
        })
    }

    fn serialize(handle: &E::Handle, plan: &Self::Plan) -> Result<Vec<u8>, PluginError> {
        E::serialize(handle, &plan.plan)
    }

    fn deserialize(handle: &E::Handle, bytes: &[u8]) -> Result<Self::Plan, PluginError> {
        E::deserialize(handle, bytes).map(Shaped::from)
    }

    fn describe(plan: &Self::Plan) -> Option<Vec<Step>> {
        E::describe(&plan.plan)
    }

    fn numerics(
        handle: &E::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Option<EngineNumerics>, PluginError> {
        E::numerics(handle, engine, graph, knobs)
    }

    fn is_shareable(handle: &E::Handle, plan: &Self::Plan) -> bool {
        E::is_shareable(handle, &plan.plan)
    }
}

#[cfg(test)]
mod tests;
