//! What the author of an engine plugin writes.

use std::ffi::c_void;

use crate::error::{PluginError, Refusal};
use crate::ffi::engine_api_version::HIPDNN_ENGINE_API_VERSION;
use crate::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use crate::fork;
use crate::graph::Graph;
use crate::hash::Fnv1a;
use crate::overrides::Overrides;
use crate::payload::{Payload, Request};
use crate::step::Step;
use crate::wire::{EngineConfig, EngineDetails, Knob, KnobSetting, check_settings};

/// A library with engines.
///
/// [`export_engine_plugin!`](crate::export_engine_plugin) turns an implementation into the functions of the C ABI. Around
/// each of these methods it checks what the host passed, catches panics and hands errors over, so an implementation sees
/// valid arguments only.
///
/// An engine is named by its place in [`EnginePlugin::ENGINES`], which is always in range.
///
/// # Threads
/// Any method may be called from any thread, also several at once for one handle or one plan.
pub trait EnginePlugin: Sized + 'static {
    /// The plugin's name, 1 to 127 bytes without a NUL.
    const NAME: &'static str;
    /// The plugin's version, 1 to 127 bytes without a NUL; `env!("CARGO_PKG_VERSION")` is a good one.
    const VERSION: &'static str;
    /// The names of the engines, best first: 1 to 32 different names of 1 to 127 bytes without a NUL.
    ///
    /// The name is what the rest of the world knows an engine by: its id is [`engine_id`] of the name, so a name must never
    /// change and should not be taken by anybody else's engine. By custom it is upper case and ends in `_ENGINE`.
    const ENGINES: &'static [&'static str];

    /// Those of the engines that are offered only where no other one applies, or to hosts that ask for all, as this project's does: hosts
    /// that sort engines by their ids would take such an engine first. Name `kept_back` in
    /// [`export_engine_plugin!`](crate::export_engine_plugin), or no host can ask. The user can, with `HIPDNN_ALL_ENGINES`.
    const KEPT_BACK: &'static [&'static str] = &[];

    /// The version of the plugin interface that the engines are up to. A graph that needs a younger one is not offered:
    /// "1.1.0" says that shapes may change from one execution to the next, "1.2.0" that scalars may be passed by value at
    /// execution, "1.3.0" that tensors may be aligned otherwise than to 16 bytes or be ragged. Whoever claims a version
    /// refuses in [`EnginePlugin::supports`] what of it the engines cannot do.
    const API_VERSION: &'static str = match HIPDNN_ENGINE_API_VERSION.to_str() {
        Ok(version) => version,
        Err(_) => "",
    };

    /// The plugin's state for one handle of the host, for instance the stream to work on.
    type Handle: Send + Sync;
    /// A graph made ready for one engine with one configuration. It may be executed with any handle of the plugin.
    type Plan: Send + Sync;

    /// Makes the state for a new handle of the host.
    ///
    /// # Errors
    /// When the plugin cannot work at all. An engine that only lacks its hardware or a library is better off with a
    /// handle and a refusal in [`EnginePlugin::supports`], because an error here may cost the host its own handle.
    fn create_handle() -> Result<Self::Handle, PluginError>;

    /// Sets the stream that later executions with this handle go to; null is the default stream.
    ///
    /// # Errors
    /// When the stream cannot be used. The stream set before then stays.
    fn set_stream(handle: &Self::Handle, stream: hipStream_t) -> Result<(), PluginError>;

    /// Whether the engine can compute the graph. The graph was read from well-formed bytes; whether it makes sense is
    /// for the engine to say. Cheap and without side effects.
    ///
    /// # Errors
    /// The first thing that is not supported, in words for the person who wonders why no engine was found.
    fn supports(handle: &Self::Handle, engine: usize, graph: &Graph) -> Result<(), Refusal>;

    /// What the engine says of itself for this graph: knobs and behavior notes. The id and, where it is empty, the name
    /// are filled in. Only called for a graph that [`EnginePlugin::supports`] accepts; also when knobs are set, whose
    /// settings are checked against the knobs given here.
    ///
    /// # Errors
    /// When the engine cannot say.
    fn details(handle: &Self::Handle, engine: usize, graph: &Graph) -> Result<EngineDetails, PluginError> {
        let _ = (handle, engine, graph);
        Ok(EngineDetails::default())
    }

    /// The locks of the plugin that threads may have while another forks. What objects of the plugin have need not be listed.
    const LOCKS: &'static fork::List = &fork::List::EMPTY;

    /// Makes a graph ready for execution: everything that can be decided or checked once belongs here. Only called for a
    /// graph that [`EnginePlugin::supports`] accepts. `knobs` are the settings that the user chose, each of a knob that
    /// [`EnginePlugin::details`] publishes for this graph, within the knob's limits, and none twice;
    /// [`setting`](crate::wire::setting) and [`int_setting`](crate::wire::int_setting) find one. A knob that is not among
    /// them has its default.
    ///
    /// # Errors
    /// When the plan cannot be made, for instance because settings do not go together.
    fn plan(
        handle: &Self::Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Self::Plan, PluginError>;

    /// The bytes of workspace that the plan of this graph and configuration will need. Makes the plan to find out; an
    /// engine whose plans are expensive can answer without.
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

    /// Computes the graph. Hosts call this often, so it should repeat no check, allocate nothing and take no lock.
    ///
    /// `buffers` are in the caller's order, and nothing about them was checked: a tensor may be missing, be there twice or
    /// have a null pointer. [`buffer`] finds one.
    ///
    /// # Errors
    /// When a buffer is missing or the work could not be started. Work on a stream may fail later, unseen.
    ///
    /// # Safety
    /// Each buffer that is not null is valid for the extent of its tensor until the work is done. `workspace` is null, also where
    /// a caller never asked how large it has to be, or valid for [`EnginePlugin::plan_workspace_size`] bytes.
    unsafe fn execute(
        handle: &Self::Handle,
        plan: &Self::Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError>;

    /// Computes the graph with other shapes than those that the plan was made for: each override has the sizes and strides
    /// that a tensor has in this execution. Hosts call it only for graphs that say so (`is_override_shape_enabled`), and
    /// never without an override. Such graphs are offered only to plugins that name `overrides` in
    /// [`export_engine_plugin!`](crate::export_engine_plugin) and have an [`EnginePlugin::API_VERSION`] of 1.1.0 or more.
    ///
    /// # Errors
    /// Those of [`EnginePlugin::execute`], and when the graph cannot be computed with these shapes, in which case nothing was
    /// written.
    ///
    /// # Safety
    /// As for [`EnginePlugin::execute`]; the extent of a tensor is that of its override, where it has one.
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

    /// Saves a plan in bytes that [`EnginePlugin::deserialize`] makes the same plan of, also in another process and another
    /// version of the plugin: begin with a number that tells which. Hosts call it only for plugins that name `serialization`
    /// in [`export_engine_plugin!`](crate::export_engine_plugin); those say so in the behavior notes of their
    /// [`EnginePlugin::details`] as well ([`SUPPORTS_SERIALIZATION`]).
    ///
    /// # Errors
    /// When this plan cannot be saved. There must be at least one byte.
    fn serialize(handle: &Self::Handle, plan: &Self::Plan) -> Result<Vec<u8>, PluginError> {
        let _ = (handle, plan);
        Err(PluginError::not_applicable(format!("{} cannot save plans", Self::NAME)))
    }

    /// Makes a plan of saved bytes. They may come from anywhere and may be damaged, so nothing about them is certain.
    /// [`EnginePlugin::engine_of_saved_plan`] finds the engine that they name.
    ///
    /// # Errors
    /// When the bytes are no plan, or none that can be executed here.
    fn deserialize(handle: &Self::Handle, bytes: &[u8]) -> Result<Self::Plan, PluginError> {
        let _ = (handle, bytes);
        Err(PluginError::not_applicable(format!("{} cannot load plans", Self::NAME)))
    }

    /// What an execution of the plan does, step by step, for people who wonder what runs and why. Hosts call it only for plugins
    /// that name `description` in [`export_engine_plugin!`](crate::export_engine_plugin), and never to execute. None where the
    /// plugin cannot tell of this plan.
    fn describe(plan: &Self::Plan) -> Option<Vec<Step>> {
        let _ = plan;
        None
    }

    /// Whether the plan keeps nothing that ties it to whoever planned or to the handle: it may be executed with this handle for anybody
    /// who plans an equal graph with equal settings of knobs, and dropped while any handle is alive. Hosts ask only plugins that
    /// name `sharing` in [`export_engine_plugin!`](crate::export_engine_plugin), with the handle that made the plan and with each
    /// other one before they use it there.
    fn is_shareable(handle: &Self::Handle, plan: &Self::Plan) -> bool {
        let _ = (handle, plan);
        false
    }

    /// What a plan of an engine is asked for.
    fn request(engine: usize, graph: &Graph, knobs: &[KnobSetting]) -> Request {
        let name = Self::ENGINES.get(engine).copied().unwrap_or_default();
        let config = EngineConfig { engine_id: engine_id(name), knobs: knobs.to_vec() };
        Request { graph: graph.clone(), config }
    }

    /// The engine of a saved plan, what the plan was asked for, with settings of these knobs, and what it took long to find out.
    ///
    /// # Errors
    /// When the bytes are no plan of this form, are of another engine, or set other knobs.
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

    /// The place in [`EnginePlugin::ENGINES`] of the engine that a saved plan names by its id.
    ///
    /// # Errors
    /// When it is none of them.
    fn engine_of_saved_plan(id: i64) -> Result<usize, PluginError> {
        Self::ENGINES.iter().position(|name| engine_id(name) == id).ok_or_else(|| {
            let engines = Self::ENGINES.join(", ");
            PluginError::invalid_value(format!("the saved plan is of engine {id}, expected one of {engines}"))
        })
    }
}

/// The behavior note of an engine that compiles kernels at run time.
pub const RUNTIME_COMPILATION: i32 = 0;
/// The behavior note of an engine whose executions can be captured in a graph of the device.
pub const SUPPORTS_GRAPH_CAPTURE: i32 = 2;
/// The behavior note of an engine that stands on another library.
pub const EXTERNAL_LIBRARY: i32 = 3;
/// The behavior note of an engine whose plans can be saved.
pub const SUPPORTS_SERIALIZATION: i32 = 4;

/// The memory of the tensor with this uid; the first one where several have it.
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

/// The memory of a tensor that need not have any: none where it is missing or null.
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
