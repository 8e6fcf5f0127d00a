//! Execution contexts: graphs compiled by plugins.

use std::ffi::c_char;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use hipdnn_plugin_sdk::cancel::{self, Disabled};
use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, HIPDNN_PLUGIN_STATUS_SUCCESS, HipdnnEnginePluginExecutionContext,
    hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t as ConstData, hipdnnPluginStatus_t,
};

use super::asking::Asking;
use super::made::{Made, SharedContext, Sharing};
use super::raw_context::{Raw, destroy, give_back, opened};
use super::{EngineRef, Plugin, Session, check, gate};
use crate::graph::FrozenGraph;
use crate::status::{Error, Result};
use crate::{device, log, trace};

/// The owner of a context: holds the session that destroys the context.
pub trait Owner {
    /// The session, and the engine in it.
    fn engine(&self) -> (&Session, EngineRef);
}

/// A plugin's execution context, destroyed on drop.
pub struct Context<O: Owner> {
    context: Raw,
    /// The shared context, if plans share it; the last one destroys it. Dropped before the owner.
    shared: Option<Arc<SharedContext>>,
    owner: O,
}

// SAFETY: the interface lets a host use a context from any thread.
unsafe impl<O: Owner + Send> Send for Context<O> {}
// SAFETY: the interface lets threads share a context.
unsafe impl<O: Owner + Sync> Sync for Context<O> {}

impl<O: Owner> Context<O> {
    /// A context that this owner's engine made.
    pub fn new(context: Raw, owner: O) -> Self {
        Self { context, shared: None, owner }
    }

    /// A shared context. The owner must have its session.
    pub fn of_shared(shared: Arc<SharedContext>, owner: O) -> Result<Self> {
        let context = shared.made().map(|made| made.context);
        let context = context.ok_or_else(|| Error::internal("a plan was given back while it was in use"))?;
        Ok(Self { context, shared: Some(shared), owner })
    }

    /// The context's owner.
    #[inline]
    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// The context, for the plugin.
    #[inline]
    pub fn as_ptr(&self) -> *mut HipdnnEnginePluginExecutionContext {
        self.context.as_ptr()
    }
}

impl<O: Owner> Drop for Context<O> {
    fn drop(&mut self) {
        if self.shared.is_none() {
            let (session, engine) = self.owner.engine();
            give_back(session, engine, self.context);
        }
    }
}

/// Has an engine compile a graph with a configuration, and asks how much workspace the result needs.
pub fn compile(session: &Session, engine: EngineRef, graph: &FrozenGraph, config: &[u8]) -> Result<Made> {
    // Once for both calls of the plugin.
    let off = cancel::disable();
    let _visit = gate::visit("a plan cannot be made")?;
    let _asking = Asking::begin();
    let (plugin, handle) = opened(session, engine)?;
    let graph = const_data(graph.bytes(plugin.generation.layout)?);
    let config = const_data(config);
    let _phase = trace::phase("compile", || plugin.name.clone());
    let mut context = ptr::null_mut();
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one pointer.
    let status = unsafe {
        plugin.api.create_execution_context(
            &off,
            handle,
            &raw const config,
            &raw const graph,
            &raw mut context,
        )
    };
    check(&plugin.api, "create execution context", status)?;
    device::look_for_gpu_once(&plugin.has_compiled);
    with_workspace_size(&off, plugin, handle, context)
}

/// Has a plugin load a saved context, and asks how much workspace it needs.
///
/// # Errors
/// NOT_SUPPORTED when the plugin cannot load contexts, and the plugin's errors about the payload.
pub fn load(session: &Session, engine: EngineRef, payload: &[u8]) -> Result<Made> {
    let off = cancel::disable();
    let _visit = gate::visit("a plan cannot be loaded")?;
    let _asking = Asking::begin();
    let (plugin, handle) = opened(session, engine)?;
    require_saving(plugin)?;
    let _phase = trace::phase("load a saved plan", || plugin.name.clone());
    let payload = const_data(payload);
    let mut context = ptr::null_mut();
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one pointer.
    let status =
        unsafe { plugin.api.create_context_from_serialized(handle, &raw const payload, &raw mut context) };
    let status = status.ok_or_else(|| Error::internal("a plugin lost the function that loads contexts"))?;
    check(&plugin.api, "create execution context from serialized data", status)?;
    with_workspace_size(&off, plugin, handle, context)
}

/// Whether the plugin of an engine reports who may use a context.
pub fn says_who_shares(session: &Session, engine: EngineRef) -> bool {
    session.plugin(engine.plugin).is_ok_and(|plugin| plugin.api.says_who_shares())
}

/// Who may use a context besides the plan it was made for. Contexts of plugins that do not report this are shared within a
/// handle unless a knob is set.
pub fn sharing(session: &Session, engine: EngineRef, context: Raw, sets_knobs: bool) -> Sharing {
    let Ok((plugin, handle)) = opened(session, engine) else { return Sharing::Plan };
    let mut is_shareable = 0;
    // SAFETY: handle and context are the plugin's own; the call writes one number.
    let status = unsafe { plugin.api.is_context_shareable(handle, context.as_ptr(), &raw mut is_shareable) };
    match status {
        None if sets_knobs => Sharing::Plan,
        None => Sharing::Handle,
        Some(HIPDNN_PLUGIN_STATUS_SUCCESS) if is_shareable == 1 => Sharing::AnyHandle,
        Some(HIPDNN_PLUGIN_STATUS_SUCCESS) => Sharing::Plan,
        Some(status) => {
            log::warn(|| plugin.api.failure("ask whether an execution context may be shared", status));
            Sharing::Plan
        }
    }
}

/// The bytes of a saved context, opaque to the host; never empty.
///
/// # Errors
/// NOT_SUPPORTED when the plugin cannot save contexts, PLUGIN_ERROR when it fails or saves nothing.
pub fn save<O: Owner>(context: &Context<O>, engine_id: i64) -> Result<Vec<u8>> {
    let (session, engine) = context.owner.engine();
    let (plugin, handle) = opened(session, engine)?;
    require_saving(plugin)?;
    let mut data = ConstData { ptr: ptr::null(), size: 0 };
    // SAFETY: handle and context are the plugin's own; the call writes one struct.
    let status = unsafe {
        let api = &plugin.api;
        let newer = api.serialize_context_of_engine(handle, engine_id, context.as_ptr(), &raw mut data);
        newer.or_else(|| api.serialize_context(handle, context.as_ptr(), &raw mut data))
    };
    let status = status.ok_or_else(|| Error::internal("a plugin lost the function that saves contexts"))?;
    check(&plugin.api, "serialize execution context", status)?;
    let bytes = if data.ptr.is_null() || data.size == 0 || isize::try_from(data.size).is_err() {
        Err(Error::plugin(format!(
            "plugin {} gave {} bytes at {:p} for the execution context of engine {engine_id}, expected a buffer",
            plugin.name, data.size, data.ptr
        )))
    } else {
        // SAFETY: a plugin that succeeds gives as many bytes as it says, and keeps them until they are released below; the size is at
        // most a slice's.
        Ok(unsafe { slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) }.to_vec())
    };
    // SAFETY: the bytes are the plugin's own and no longer referenced.
    let status = unsafe { plugin.api.destroy_serialized_context(handle, &raw mut data) };
    if let Some(status) = status.filter(|status| *status != 0) {
        log::error(|| plugin.api.failure("destroy serialized execution context", status));
    }
    bytes
}

/// The maximum size of a description in bytes.
const MAX_DESCRIPTION: usize = 1 << 20;

impl<O: Owner> Context<O> {
    /// The plugin's JSON description of an execution; only its size and encoding are checked. Asks the plugin each time, so do
    /// not call it per execution. None if the plugin has none, or an invalid one, which is logged.
    pub fn description(&self) -> Option<String> {
        let (session, engine) = self.owner.engine();
        let (plugin, handle) = opened(session, engine).ok()?;
        let text = describe(plugin, handle, self.context);
        text.unwrap_or_else(|error| {
            log::warn(|| format!("plugin {}: {error}", plugin.name));
            None
        })
    }
}

fn describe(plugin: &Plugin, handle: hipdnnEnginePluginHandle_t, context: Raw) -> Result<Option<String>> {
    text_in_two_calls(plugin, "describe execution context", |room, size, json| {
        // SAFETY: handle and context are the plugin's own; the call writes one number and at most `room` bytes.
        unsafe { plugin.api.describe_context(handle, context.as_ptr(), room, size, json) }
            .filter(|status| *status != HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE)
    })
}

/// A text of a plugin, from a call with room for nothing, which answers the size, and one with that room. None if a call answers
/// none.
pub fn text_in_two_calls(
    plugin: &Plugin,
    action: &str,
    call: impl Fn(usize, *mut usize, *mut c_char) -> Option<hipdnnPluginStatus_t>,
) -> Result<Option<String>> {
    let mut size = 0;
    match call(0, &raw mut size, ptr::null_mut()) {
        None => return Ok(None),
        Some(status) => check(&plugin.api, action, status)?,
    }
    let fault = |fault: String| Error::plugin(format!("the plugin's answer to {action} {fault}"));
    if !(1..=MAX_DESCRIPTION).contains(&size) {
        return Err(fault(format!("has {size} bytes, expected 1 to {MAX_DESCRIPTION}")));
    }
    let mut text = vec![0_u8; size];
    let mut written = size;
    let status = call(size, &raw mut written, text.as_mut_ptr().cast());
    check(&plugin.api, action, status.unwrap_or_default())?;
    // Ignores the size of the second call: the text ends at a NUL.
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(size);
    text.truncate(end);
    String::from_utf8(text).map(Some).map_err(|error| fault(format!("is not UTF-8: {}", error.utf8_error())))
}

fn require_saving(plugin: &Plugin) -> Result<()> {
    let missing = plugin.api.missing_for_saving();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::not_supported(format!(
        "plugin {} cannot save and load execution plans: it has no {}",
        plugin.name,
        missing.join(", ")
    )))
}

fn const_data(bytes: &[u8]) -> ConstData {
    ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Asks how much workspace a new context needs. A failure destroys the context.
#[inline]
fn with_workspace_size(
    off: &Disabled,
    plugin: &Plugin,
    handle: hipdnnEnginePluginHandle_t,
    context: *mut HipdnnEnginePluginExecutionContext,
) -> Result<Made> {
    let context = NonNull::new(context)
        .ok_or_else(|| Error::internal(format!("plugin {} gave a null execution context", plugin.name)))?;
    let mut size = 0;
    // SAFETY: handle and context are the plugin's own; the call writes one number.
    let status =
        unsafe { plugin.api.get_workspace_size_from_context(off, handle, context.as_ptr(), &raw mut size) };
    let size = check(&plugin.api, "get workspace size from execution context", status)
        .and_then(|()| workspace_size(size));
    if size.is_err() {
        destroy(plugin, handle, context);
    }
    Ok(Made { context, workspace_size: size?, uids: None })
}

/// A plugin's workspace size in the C API's type.
pub fn workspace_size(size: usize) -> Result<i64> {
    i64::try_from(size).map_err(|_| {
        Error::internal(format!(
            "the plugin asks for {size} bytes of workspace, more than the interface can report"
        ))
    })
}
