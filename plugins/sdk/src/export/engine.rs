//! The exported functions of an engine plugin.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::asked::Asked;
use super::declaration::EngineNames;
use super::offer::keep_back;
use super::owned::{Bytes, Owned};
use super::{Result, guard, guard_execution, not_null, null, write};
use crate::engine_plugin::EnginePlugin;
use crate::error::PluginError;
use crate::ffi::{
    hipStream_t, hipdnnEnginePluginExecutionContext_t, hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t,
    hipdnnPluginDeviceBuffer_t, hipdnnPluginStatus_t,
};
use crate::graph::Graph;
use crate::wire::{self, Knob, KnobSetting};
use crate::{fork, log};

pub(super) type Handle<P> = Owned<Asked<<P as EnginePlugin>::Handle>, { u64::from_be_bytes(*b"hipdnn-h") }>;
pub(super) type Plan<P> = Owned<<P as EnginePlugin>::Plan, { u64::from_be_bytes(*b"hipdnn-p") }>;

/// `hipdnnEnginePluginGetAllEngineIds`: writes at most `max_engines` ids and how many were written; without
/// an array or with a size of 0, the number of engines.
///
/// # Safety
/// `engine_ids` is null or valid for `max_engines` writes, `num_engines` is null or valid for a write.
pub unsafe fn get_all_engine_ids<P: EnginePlugin>(
    engine_ids: *mut i64,
    max_engines: u32,
    num_engines: *mut u32,
) -> hipdnnPluginStatus_t {
    // SAFETY: `engine_ids` is null or has room for `max_engines`; `give_ids` refuses a null `num_engines`.
    guard(|| unsafe {
        let ids = EngineNames::<P>::ENGINES.ids();
        let written = give_ids(ids, engine_ids, max_engines, num_engines)?;
        write(num_engines, if written == 0 { count(ids) } else { written });
        Ok(())
    })
}

/// `hipdnnEnginePluginGetEngineName`: a text that lives as long as the library.
///
/// # Safety
/// `name` is null or valid for a write.
pub unsafe fn get_engine_name<P: EnginePlugin>(
    engine_id: i64,
    name: *mut *const c_char,
) -> hipdnnPluginStatus_t {
    guard(|| {
        not_null("name", name)?;
        // With any other status the host would drop the engine.
        let text = EngineNames::<P>::ENGINES
            .name(engine_id)
            .ok_or_else(|| PluginError::not_applicable(unknown::<P>(engine_id)))?;
        // SAFETY: `name` is not null, so it is valid for a write.
        unsafe { write(name, text.as_ptr().cast()) };
        Ok(())
    })
}

/// `hipdnnEnginePluginGetEngineKind_ext`: the numbers of an engine's device and implementation.
///
/// # Safety
/// Both outputs are null or valid for a write.
pub unsafe fn get_engine_kind<P: EnginePlugin>(
    engine_id: i64,
    device: *mut u32,
    implementation: *mut u32,
) -> hipdnnPluginStatus_t {
    guard(|| {
        if device.is_null() || implementation.is_null() {
            return Err(null(if device.is_null() { "device" } else { "implementation" }));
        }
        let [on, how] = P::kind(engine::<P>(engine_id)?).numbers();
        // SAFETY: neither is null, so both are valid for a write.
        unsafe {
            write(device, on);
            write(implementation, how);
        }
        Ok(())
    })
}

/// `hipdnnEnginePluginCreate`: creates a handle, to be passed to `hipdnnEnginePluginDestroy` once.
///
/// # Safety
/// `handle` is null or valid for a write.
pub unsafe fn create<P: EnginePlugin>(handle: *mut hipdnnEnginePluginHandle_t) -> hipdnnPluginStatus_t {
    guard(|| {
        not_null("handle", handle)?;
        fork::protect(P::LOCKS);
        let made = Handle::<P>::give(Asked::new(P::create_handle()?));
        // SAFETY: `handle` is not null, so it is valid for a write.
        unsafe { write(handle, made) };
        Ok(())
    })
}

/// `hipdnnEnginePluginDestroy`.
///
/// # Safety
/// `handle` is null or from `create` of this plugin, not destroyed, and no other call uses it.
pub unsafe fn destroy<P: EnginePlugin>(handle: hipdnnEnginePluginHandle_t) -> hipdnnPluginStatus_t {
    // SAFETY: `handle` is null or this plugin's, and no other call uses it.
    guard(|| unsafe { Handle::<P>::take("handle", handle) })
}

/// `hipdnnEnginePluginSetStream`.
///
/// # Safety
/// `handle` is null or from `create` of this plugin and not destroyed. The stream lives as long as it is set.
pub unsafe fn set_stream<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    stream: hipStream_t,
) -> hipdnnPluginStatus_t {
    // SAFETY: `handle` is null or a live object of this plugin.
    guard(|| P::set_stream(unsafe { Handle::<P>::borrow("handle", handle) }?, stream))
}

/// `hipdnnEnginePluginGetApplicableEngineIds`: writes the ids of engines that can compute the graph, best
/// first, at most `max_engines`, and their number. The logging callback receives every other engine's reason.
///
/// # Safety
/// As [`set_stream`] and [`get_all_engine_ids`]; `op_graph` is null or points to readable bytes.
pub unsafe fn get_applicable_engine_ids<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    op_graph: *const hipdnnPluginConstData_t,
    engine_ids: *mut i64,
    max_engines: u32,
    num_engines: *mut u32,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("num_engines", num_engines)?;
        // SAFETY: `op_graph` is null or points to readable bytes.
        let graph = unsafe { graph(handle, op_graph) }?;
        let mut applicable = Vec::with_capacity(P::ENGINES.len());
        for (engine, (id, name)) in EngineNames::<P>::ENGINES.ids().iter().zip(P::ENGINES).enumerate() {
            match P::supports(handle, engine, &graph) {
                Ok(()) => applicable.push(*id),
                Err(refusal) => log::refusal(name, refusal),
            }
        }
        keep_back::<P>(&mut applicable);
        // SAFETY: `engine_ids` is null or has room for `max_engines`, and `num_engines` is not null.
        unsafe {
            give_ids(&applicable, engine_ids, max_engines, num_engines)?;
            write(num_engines, count(&applicable));
        }
        Ok(())
    })
}

/// `hipdnnEnginePluginGetEngineDetails`: bytes to be passed to `hipdnnEnginePluginDestroyEngineDetails` once.
///
/// # Safety
/// As [`get_applicable_engine_ids`]; `engine_details` is null or valid for a write.
pub unsafe fn get_engine_details<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    engine_id: i64,
    op_graph: *const hipdnnPluginConstData_t,
    engine_details: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("engine_details", engine_details)?;
        // SAFETY: `op_graph` is null or points to readable bytes.
        let graph = unsafe { graph(handle, op_graph) }?;
        let engine = engine::<P>(engine_id)?;
        P::supports(handle, engine, &graph)?;
        let mut details = P::details(handle, engine, &graph)?;
        // Hosts reject such an engine; this tells the plugin's author which knob is wrong.
        details.knobs.iter().try_for_each(Knob::verify).map_err(|error| PluginError::internal(error.0))?;
        details.engine_id = engine_id;
        if details.name.is_empty() {
            details.name = P::ENGINES.get(engine).copied().unwrap_or_default().to_owned();
        }
        let bytes = Bytes::give(&wire::write_engine_details(&details))?;
        // SAFETY: `engine_details` is not null, so it is valid for a write.
        unsafe { write(engine_details, bytes) };
        Ok(())
    })
}

/// `hipdnnEnginePluginDestroyEngineDetails`: empties the struct. An empty struct is accepted.
///
/// # Safety
/// `engine_details` is null or valid, and what it points to is from `get_engine_details` of this plugin, not destroyed.
pub unsafe fn destroy_engine_details<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    engine_details: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("engine_details", engine_details)?;
        // SAFETY: `engine_details` has bytes of this plugin that were not released.
        unsafe { Bytes::take(engine_details) }
    })
}

/// `hipdnnEnginePluginGetWorkspaceSize`. Ignores knob settings that `create_execution_context` refuses.
///
/// # Safety
/// As [`get_applicable_engine_ids`]; `engine_config` is null or points to readable bytes, `workspace_size` is null or valid
/// for a write.
pub unsafe fn get_workspace_size<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    engine_config: *const hipdnnPluginConstData_t,
    op_graph: *const hipdnnPluginConstData_t,
    workspace_size: *mut usize,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("workspace_size", workspace_size)?;
        // SAFETY: `engine_config` and `op_graph` are null or point to readable bytes.
        let (engine, graph, settings) = unsafe { chosen::<P>(handle, engine_config, op_graph) }?;
        // Creating the plan reports the refusal. Hosts query the size earlier, to finalize a configuration.
        let knobs = if settings.refusal.is_none() { settings.known.as_slice() } else { &[] };
        let size = P::workspace_size(handle, engine, &graph, knobs)?;
        // SAFETY: `workspace_size` is not null, so it is valid for a write.
        unsafe { write(workspace_size, size) };
        Ok(())
    })
}

/// `hipdnnEnginePluginCreateExecutionContext`: a plan, to be passed to
/// `hipdnnEnginePluginDestroyExecutionContext` once. Ignores settings of unknown knobs, with a warning.
///
/// # Safety
/// As [`get_workspace_size`]; `execution_context` is null or valid for a write.
pub unsafe fn create_execution_context<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    engine_config: *const hipdnnPluginConstData_t,
    op_graph: *const hipdnnPluginConstData_t,
    execution_context: *mut hipdnnEnginePluginExecutionContext_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("execution_context", execution_context)?;
        // SAFETY: `engine_config` and `op_graph` are null or point to readable bytes.
        let (engine, graph, settings) = unsafe { chosen::<P>(handle, engine_config, op_graph) }?;
        settings.ignored.iter().for_each(log::warn);
        if let Some(refusal) = settings.refusal {
            return Err(refusal);
        }
        let plan = Plan::<P>::give(P::plan(handle, engine, &graph, &settings.known)?);
        // SAFETY: `execution_context` is not null, so it is valid for a write.
        unsafe { write(execution_context, plan) };
        Ok(())
    })
}

/// `hipdnnEnginePluginDestroyExecutionContext`.
///
/// # Safety
/// `execution_context` is null or from `create_execution_context` of this plugin, not destroyed, and no other call uses it.
pub unsafe fn destroy_execution_context<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: both are null or live objects of this plugin, and no other call uses the context.
        unsafe {
            Handle::<P>::borrow("handle", handle)?;
            Plan::<P>::take("execution_context", execution_context)
        }
    })
}

/// `hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext`.
///
/// # Safety
/// `handle` and `execution_context` are null or of this plugin and not destroyed, `workspace_size` is null or valid for a
/// write.
pub unsafe fn get_workspace_size_from_execution_context<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    workspace_size: *mut usize,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` and `execution_context` are null or live objects of this plugin.
        let plan = unsafe {
            Handle::<P>::borrow("handle", handle)?;
            Plan::<P>::borrow("execution_context", execution_context)
        }?;
        not_null("workspace_size", workspace_size)?;
        let size = P::plan_workspace_size(plan);
        // SAFETY: `workspace_size` is not null, so it is valid for a write.
        unsafe { write(workspace_size, size) };
        Ok(())
    })
}

/// `hipdnnEnginePluginExecuteOpGraph`.
///
/// # Safety
/// `handle` and `execution_context` are null or of this plugin and not destroyed, `device_buffers` is null or readable for
/// `num_device_buffers`, and the memory is what [`EnginePlugin::execute`] asks for.
pub unsafe fn execute_op_graph<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    workspace: *mut c_void,
    device_buffers: *const hipdnnPluginDeviceBuffer_t,
    num_device_buffers: u32,
) -> hipdnnPluginStatus_t {
    guard_execution(|| {
        // SAFETY: `handle` and `execution_context` are null or live objects of this plugin.
        let (handle, plan) = unsafe {
            (
                Handle::<P>::borrow("handle", handle)?,
                Plan::<P>::borrow("execution_context", execution_context)?,
            )
        };
        // SAFETY: `device_buffers` is null or readable for `num_device_buffers`.
        let buffers = unsafe { buffers(device_buffers, num_device_buffers) }?;
        // SAFETY: the memory is what `EnginePlugin::execute` asks for.
        unsafe { P::execute(handle, plan, workspace, buffers) }
    })
}

/// The buffers of an execution.
///
/// # Safety
/// `device_buffers` is null or readable for `num_device_buffers` that live for `'a`.
#[inline]
pub(super) unsafe fn buffers<'a>(
    device_buffers: *const hipdnnPluginDeviceBuffer_t,
    num_device_buffers: u32,
) -> Result<&'a [hipdnnPluginDeviceBuffer_t]> {
    if num_device_buffers == 0 {
        Ok(&[])
    } else if device_buffers.is_null() || !device_buffers.is_aligned() {
        Err(bad_buffers(device_buffers, num_device_buffers))
    } else {
        // SAFETY: not null and aligned, so it is readable for `num_device_buffers`.
        Ok(unsafe { std::slice::from_raw_parts(device_buffers, num_device_buffers as usize) })
    }
}

#[cold]
fn bad_buffers(device_buffers: *const hipdnnPluginDeviceBuffer_t, num_device_buffers: u32) -> PluginError {
    PluginError::bad_param(format!(
        "device_buffers is {device_buffers:p} with num_device_buffers {num_device_buffers}, expected an array"
    ))
}

/// Writes at most `max` ids and returns how many. Checks first that the count can be written too.
///
/// # Safety
/// As [`get_all_engine_ids`].
pub(super) unsafe fn give_ids(
    ids: &[i64],
    engine_ids: *mut i64,
    max_engines: u32,
    num_engines: *mut u32,
) -> Result<u32> {
    not_null("num_engines", num_engines)?;
    if engine_ids.is_null() {
        return Ok(0);
    }
    let room = count(ids).min(max_engines);
    for (i, id) in ids.iter().take(room as usize).enumerate() {
        // SAFETY: `room` is at most `max_engines`, for which this function requires an array that is not null.
        unsafe { write(engine_ids.add(i), *id) };
    }
    Ok(room)
}

/// The number of ids. A plugin has at most 32 engines or policies.
pub(super) fn count(ids: &[i64]) -> u32 {
    u32::try_from(ids.len()).unwrap_or(u32::MAX)
}

/// The bytes of an argument.
///
/// # Safety
/// `data` is null or valid, and points to readable bytes that stay as they are for `'a`.
pub(super) unsafe fn bytes<'a>(argument: &str, data: *const hipdnnPluginConstData_t) -> Result<&'a [u8]> {
    if data.is_null() {
        return Err(null(argument));
    }
    // SAFETY: `data` is not null, so it is readable. Hosts may pass memory of any alignment.
    let hipdnnPluginConstData_t { ptr, size } = unsafe { data.read_unaligned() };
    if ptr.is_null() || size == 0 || isize::try_from(size).is_err() {
        return Err(PluginError::invalid_value(format!(
            "{argument} has {size} bytes at {ptr:p}, expected a buffer"
        )));
    }
    // SAFETY: not null and of possible size, so it points to `size` readable bytes.
    Ok(unsafe { std::slice::from_raw_parts(ptr.cast(), size) })
}

/// The graph of an argument, of either layout.
///
/// # Safety
/// As [`bytes`].
unsafe fn graph<H>(handle: &Asked<H>, op_graph: *const hipdnnPluginConstData_t) -> Result<Arc<Graph>> {
    // SAFETY: `op_graph` is null or points to readable bytes.
    handle.graph(unsafe { bytes("op_graph", op_graph) }?)
}

/// The index of a configuration's engine, a graph that this engine accepts, and the knob settings.
///
/// # Safety
/// As [`bytes`], for both.
pub(super) unsafe fn chosen<P: EnginePlugin>(
    handle: &Asked<P::Handle>,
    engine_config: *const hipdnnPluginConstData_t,
    op_graph: *const hipdnnPluginConstData_t,
) -> Result<(usize, Arc<Graph>, Settings)> {
    // SAFETY: `engine_config` is null or points to readable bytes.
    let bytes = unsafe { bytes("engine_config", engine_config) }?;
    let config = wire::read_engine_config(bytes)
        .map_err(|error| PluginError::invalid_value(format!("engine_config: {error}")))?;
    // SAFETY: `op_graph` is null or points to readable bytes.
    let graph = unsafe { graph(handle, op_graph) }?;
    let engine = engine::<P>(config.engine_id)?;
    P::supports(handle, engine, &graph)?;
    let mut settings = Settings { known: config.knobs, ignored: Vec::new(), refusal: None };
    if !settings.known.is_empty() {
        let name = P::ENGINES.get(engine).copied().unwrap_or_default();
        settings.judge(name, &P::knobs(handle, engine, &graph)?);
    }
    Ok((engine, graph, settings))
}

/// The settings of an engine's knobs.
pub(super) struct Settings {
    /// Settings of knobs that the engine has.
    pub(super) known: Vec<KnobSetting>,
    /// A warning for each other setting.
    ignored: Vec<String>,
    /// Why the engine refuses these settings.
    pub(super) refusal: Option<PluginError>,
}

impl Settings {
    fn judge(&mut self, engine: &str, knobs: &[Knob]) {
        let unknown = wire::take_unknown(knobs, &mut self.known);
        self.ignored = unknown.iter().map(|unknown| format!("engine {engine}: {unknown}; ignored")).collect();
        self.refusal = wire::check_settings(knobs, &self.known)
            .map_err(|error| PluginError::invalid_value(format!("engine {engine}: {error}")))
            .err();
    }
}

pub(super) fn engine<P: EnginePlugin>(id: i64) -> Result<usize> {
    EngineNames::<P>::ENGINES.position(id).ok_or_else(|| PluginError::bad_param(unknown::<P>(id)))
}

fn unknown<P: EnginePlugin>(id: i64) -> String {
    format!("{} has no engine with id {id}", P::NAME)
}
