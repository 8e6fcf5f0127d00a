//! The trait that the author of an engine plugin implements.

use std::borrow::Cow;
use std::ffi::c_void;

use crate::engine_kind::EngineKind;
use crate::error::{PluginError, Refusal};
use crate::ffi::engine_api_version::HIPDNN_ENGINE_API_VERSION;
use crate::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use crate::fork;
use crate::graph::Graph;
use crate::hash::Fnv1a;
use crate::numerics::EngineNumerics;
use crate::overrides::Overrides;
use crate::payload::{Payload, Request};
use crate::step::Step;
use crate::wire::{EngineConfig, EngineDetails, Knob, KnobSetting, check_settings};

/// A library with engines.
///
/// [`export_engine_plugin!`](crate::export_engine_plugin) turns an implementation into the functions of the C
/// ABI. They check the host's arguments, catch panics and pass errors on, so an implementation only sees
/// valid arguments.
///
/// Engines are identified by their index in [`EnginePlugin::ENGINES`], which is always in range.
///
/// # Threads
/// Any method may be called from any thread, and concurrently for one handle or plan.
pub trait EnginePlugin: Sized + 'static {
    /// The plugin's name, 1 to 127 bytes without a NUL.
    const NAME: &'static str;
    /// The plugin's version, 1 to 127 bytes without a NUL, usually `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// The names of the engines, best first: 1 to 32 different names of 1 to 127 bytes without a NUL.
    ///
    /// An engine's id is [`engine_id`] of its name, so a name must never change and must not collide with
    /// another plugin's engine. By convention it is upper case and ends in `_ENGINE`.
    const ENGINES: &'static [&'static str];

    /// Engines that are offered only if no other one applies, or to hosts that ask for all engines, as this
    /// project's host does: hosts that sort engines by id would pick them first. Name `kept_back` in
    /// [`export_engine_plugin!`](crate::export_engine_plugin), or no host can ask. Users can, with
    /// `HIPDNN_ALL_ENGINES`.
    const KEPT_BACK: &'static [&'static str] = &[];

    /// The plugin interface version that the engines support. Graphs that need a newer one are not offered:
    /// "1.1.0" allows shapes to change between executions, "1.2.0" scalars passed by value at execution,
    /// "1.3.0" ragged tensors and alignments other than 16 bytes. If the engines lack a feature of the
    /// claimed version, refuse it in [`EnginePlugin::supports`].
    const API_VERSION: &'static str = match HIPDNN_ENGINE_API_VERSION.to_str() {
        Ok(version) => version,
        Err(_) => "",
    };

    /// Per-handle state, for instance the stream to work on.
    type Handle: Send + Sync;
    /// A graph prepared for one engine and configuration. Any handle of the plugin may execute it.
    type Plan: Send + Sync;

    /// Makes the state for a new handle of the host.
    ///
    /// # Errors
    /// When the plugin cannot work at all. If only hardware or a library is missing, return a handle and
    /// refuse in [`EnginePlugin::supports`]: an error here may make the host's own handle fail.
    fn create_handle() -> Result<Self::Handle, PluginError>;

    /// Sets the stream that later executions with this handle go to; null is the default stream.
    ///
    /// # Errors
    /// When the stream cannot be used. The previous stream stays set.
    fn set_stream(handle: &Self::Handle, stream: hipStream_t) -> Result<(), PluginError>;

    /// Whether the engine can compute the graph. The bytes were well formed; the engine checks whether the
    /// graph makes sense. Cheap and without side effects.
    ///
    /// # Errors
    /// The first unsupported feature, worded for a user who wonders why no engine was found.
    fn supports(handle: &Self::Handle, engine: usize, graph: &Graph) -> Result<(), Refusal>;

    /// The engine's knobs and behavior notes for this graph. The id is filled in, as is the name if empty.
    /// Only called for graphs that [`EnginePlugin::supports`] accepts.
    ///
    /// # Errors
    /// When the details cannot be determined.
    fn details(handle: &Self::Handle, engine: usize, graph: &Graph) -> Result<EngineDetails, PluginError> {
        let _ = (handle, engine, graph);
        Ok(EngineDetails::default())
    }

    /// The knobs in [`EnginePlugin::details`], against which settings are checked. Implement it if an engine always has the same.
    ///
    /// # Errors
    /// As [`EnginePlugin::details`].
    fn knobs(
        handle: &Self::Handle,
        engine: usize,
        graph: &Graph,
    ) -> Result<Cow<'static, [Knob]>, PluginError> {
        Ok(Self::details(handle, engine, graph)?.knobs.into())
    }

    /// The plugin's locks that threads may hold while another thread forks. Locks inside its objects need not
    /// be listed.
    const LOCKS: &'static fork::List = &fork::List::EMPTY;

    /// What an engine computes on, and where its kernels come from. By default its name tells; engines whose name does not begin
    /// as those of this project (`CPU_`, `NVRTC_`, ...) should say it, or hosts do not know whose memory they take.
    fn kind(engine: usize) -> EngineKind {
        EngineKind::by_name(Self::ENGINES.get(engine).copied().unwrap_or_default())
    }

    /// Prepares a graph for execution: everything that can be decided or checked once belongs here. Only
    /// called for a graph that [`EnginePlugin::supports`] accepts. `knobs` are the user's settings: each is
    /// of a knob that [`EnginePlugin::details`] publishes for this graph, within its limits, and unique;
    /// [`setting`](crate::wire::setting) and [`int_setting`](crate::wire::int_setting) find one. Other knobs
    /// have their defaults.
    ///
    /// # Errors
    /// When the plan cannot be made, for instance because settings conflict.
    fn plan(
        handle: &Self::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Self::Plan, PluginError>;

    /// The bytes of workspace that the plan for this graph and configuration will need. Makes the plan to
    /// find out; override it if plans are expensive.
    ///
    /// # Errors
    /// Those of [`EnginePlugin::plan`].
    fn workspace_size(
        handle: &Self::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        Self::plan(handle, engine, graph, knobs).map(|plan| Self::plan_workspace_size(&plan))
    }

    /// The bytes of workspace that an execution of the plan needs.
    fn plan_workspace_size(plan: &Self::Plan) -> usize;

    /// Computes the graph. Hosts call this often: repeat no checks, allocate nothing and take no lock.
    ///
    /// `buffers` are in the caller's order and unchecked: a tensor may be missing, duplicated or have a null
    /// pointer. [`buffer`] finds one.
    ///
    /// # Errors
    /// When a buffer is missing or the work could not be started. Work on a stream may fail later, unnoticed.
    ///
    /// # Safety
    /// Each buffer that is not null is valid for the extent of its tensor until the work is done. `workspace`
    /// is null, also if a caller never queried its size, or valid for [`EnginePlugin::plan_workspace_size`]
    /// bytes.
    unsafe fn execute(
        handle: &Self::Handle,
        plan: &Self::Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError>;

    /// Computes the graph with shapes other than those it was planned with: each override holds a tensor's
    /// sizes and strides for this execution. Hosts call it only for graphs with `is_override_shape_enabled`,
    /// and never without an override. Such graphs are offered only to plugins that name `overrides` in
    /// [`export_engine_plugin!`](crate::export_engine_plugin) and have an [`EnginePlugin::API_VERSION`] of at
    /// least 1.1.0.
    ///
    /// # Errors
    /// Those of [`EnginePlugin::execute`], and when the graph cannot be computed with these shapes; then
    /// nothing was written.
    ///
    /// # Safety
    /// As for [`EnginePlugin::execute`]; an override, if given, determines its tensor's extent.
    unsafe fn execute_with_overrides(
        handle: &Self::Handle,
        plan: &Self::Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        overrides: Overrides<'_>,
    ) -> Result<(), PluginError> {
        let _ = (handle, plan, workspace, buffers, overrides);
        Err(PluginError::not_applicable(format!("{} cannot execute with other shapes", Self::NAME)))
    }

    /// Saves a plan as bytes from which [`EnginePlugin::deserialize`] restores it, also in another process or
    /// version of the plugin: begin with a version number. Hosts call it only for plugins that name
    /// `serialization` in [`export_engine_plugin!`](crate::export_engine_plugin); their
    /// [`EnginePlugin::details`] must also list [`SUPPORTS_SERIALIZATION`].
    ///
    /// # Errors
    /// When this plan cannot be saved. The result must not be empty.
    fn serialize(handle: &Self::Handle, plan: &Self::Plan) -> Result<Vec<u8>, PluginError> {
        let _ = (handle, plan);
        Err(PluginError::not_applicable(format!("{} cannot save plans", Self::NAME)))
    }

    /// Restores a plan from saved bytes, which may come from anywhere and be damaged: trust nothing.
    /// [`EnginePlugin::engine_of_saved_plan`] finds the engine that they name.
    ///
    /// # Errors
    /// When the bytes are not a plan, or not one that can be executed here.
    fn deserialize(handle: &Self::Handle, bytes: &[u8]) -> Result<Self::Plan, PluginError> {
        let _ = (handle, bytes);
        Err(PluginError::not_applicable(format!("{} cannot load plans", Self::NAME)))
    }

    /// Describes an execution of the plan step by step, for users who wonder what runs and why. Hosts call it
    /// only for plugins that name `description` in [`export_engine_plugin!`](crate::export_engine_plugin),
    /// and never on the way to an execution. None if the plugin cannot describe this plan.
    fn describe(plan: &Self::Plan) -> Option<Vec<Step>> {
        let _ = plan;
        None
    }

    /// What an engine may do to the numbers of this graph with these knob settings, which are as for [`EnginePlugin::plan`], and
    /// which settings change that. Hosts call it only for plugins that name `numerics` in
    /// [`export_engine_plugin!`](crate::export_engine_plugin). None if the engine does not know: then users who deselect a note
    /// do not get it. Say what a plan might do, not only what it does for certain.
    ///
    /// # Errors
    /// Those of [`EnginePlugin::plan`].
    fn numerics(
        handle: &Self::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Option<EngineNumerics>, PluginError> {
        let _ = (handle, engine, graph, knobs);
        Ok(None)
    }

    /// Whether the plan is tied neither to its creator nor to its handle: with `handle` it may be executed
    /// for anyone who plans an equal graph with equal knob settings, and it may be dropped while any handle
    /// is alive. Hosts ask only plugins that name `sharing` in
    /// [`export_engine_plugin!`](crate::export_engine_plugin), once with the handle that made the plan and
    /// once with each other handle before they use it there.
    fn is_shareable(handle: &Self::Handle, plan: &Self::Plan) -> bool {
        let _ = (handle, plan);
        false
    }

    /// The request that a plan of an engine answers.
    fn request(engine: usize, graph: &Graph, knobs: &[KnobSetting]) -> Request {
        let name = Self::ENGINES.get(engine).copied().unwrap_or_default();
        let config = EngineConfig { engine_id: engine_id(name), knobs: knobs.to_vec() };
        Request { graph: graph.clone(), config }
    }

    /// Splits a saved plan into its engine, its request, with settings of these knobs, and results that are
    /// expensive to recompute.
    ///
    /// # Errors
    /// When the bytes do not have this form, name another plugin's engine, or set other knobs.
    fn saved_request<'a>(
        form: &Payload,
        bytes: &'a [u8],
        knobs: &[Knob],
    ) -> Result<(usize, Request, &'a [u8]), PluginError> {
        let (request, found) = form.read_plan(bytes)?;
        let engine = Self::engine_of_saved_plan(request.config.engine_id)?;
        check_settings(knobs, &request.config.knobs)?;
        Ok((engine, request, found))
    }

    /// The index in [`EnginePlugin::ENGINES`] of the engine whose id a saved plan contains.
    ///
    /// # Errors
    /// When this plugin has no such engine.
    fn engine_of_saved_plan(id: i64) -> Result<usize, PluginError> {
        Self::ENGINES.iter().position(|name| engine_id(name) == id).ok_or_else(|| {
            let engines = Self::ENGINES.join(", ");
            PluginError::invalid_value(format!("the saved plan is of engine {id}, expected one of {engines}"))
        })
    }
}

/// Behavior note of an engine that compiles kernels at run time.
pub const RUNTIME_COMPILATION: i32 = 0;
/// Behavior note of an engine whose executions can be captured in a device graph.
pub const SUPPORTS_GRAPH_CAPTURE: i32 = 2;
/// Behavior note of an engine that uses an external library.
pub const EXTERNAL_LIBRARY: i32 = 3;
/// Behavior note of an engine whose plans can be saved.
pub const SUPPORTS_SERIALIZATION: i32 = 4;

/// The memory of the tensor with this uid; the first match if there are several.
///
/// # Errors
/// When it is missing or null.
pub fn buffer(buffers: &[hipdnnPluginDeviceBuffer_t], uid: i64) -> Result<*mut c_void, PluginError> {
    match buffers.iter().find(|buffer| buffer.uid == uid) {
        Some(buffer) if !buffer.ptr.is_null() => Ok(buffer.ptr),
        Some(_) => Err(PluginError::invalid_value(format!("the buffer of tensor {uid} is null"))),
        None => Err(PluginError::invalid_value(format!(
            "tensor {uid} has no buffer among the {} given",
            buffers.len()
        ))),
    }
}

/// The memory of an optional tensor: none if it is missing or null.
pub fn bound(buffers: &[hipdnnPluginDeviceBuffer_t], uid: i64) -> Option<*mut c_void> {
    buffers.iter().find(|buffer| buffer.uid == uid && !buffer.ptr.is_null()).map(|buffer| buffer.ptr)
}

/// The id of an engine: the 64-bit FNV-1a hash of its name.
pub const fn engine_id(name: &str) -> i64 {
    Fnv1a::new().add(name.as_bytes()).number().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_the_known_engines_have() {
        assert_eq!(engine_id("MIOPEN_ENGINE"), 0x15b4_6865_c717_a122);
        assert_eq!(engine_id("MIOPEN_ENGINE_DETERMINISTIC"), 0xa258_541a_6daa_1de3_u64.cast_signed());
        assert_eq!(engine_id("HIPBLASLT_ENGINE"), 0x79ae_b174_32d4_a22b);
    }

    #[test]
    fn buffers_are_found_by_uid() {
        let mut x = 0_u8;
        let at = (&raw mut x).cast::<c_void>();
        let buffers = [
            hipdnnPluginDeviceBuffer_t { uid: 7, ptr: std::ptr::null_mut() },
            hipdnnPluginDeviceBuffer_t { uid: -1, ptr: at },
        ];
        assert_eq!(buffer(&buffers, -1), Ok(at));
        assert_eq!(buffer(&buffers, 7).unwrap_err().message(), "the buffer of tensor 7 is null");
        assert_eq!(buffer(&[], 3).unwrap_err().message(), "tensor 3 has no buffer among the 0 given");
    }
}
