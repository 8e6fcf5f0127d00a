//! Execution contexts without an owner, and their destruction.

use std::ptr::NonNull;

use hipdnn_plugin_sdk::ffi::{HipdnnEnginePluginExecutionContext, hipdnnEnginePluginHandle_t};

use super::{EngineRef, Plugin, Session};
use crate::log;
use crate::status::Result;

/// A context without an owner.
pub type Raw = NonNull<HipdnnEnginePluginExecutionContext>;

/// Destroys a context of an engine.
pub fn give_back(session: &Session, engine: EngineRef, context: Raw) {
    if let Ok((plugin, handle)) = opened(session, engine) {
        destroy(plugin, handle, context);
    }
}

/// The plugin of an engine, and the session's handle to it.
pub fn opened(session: &Session, engine: EngineRef) -> Result<(&Plugin, hipdnnEnginePluginHandle_t)> {
    Ok((session.plugin(engine.plugin)?, session.plugin_handle(engine.plugin)?))
}

/// Destroys a context.
pub fn destroy(plugin: &Plugin, handle: hipdnnEnginePluginHandle_t, context: Raw) {
    // SAFETY: handle and context are the plugin's own, and this is the context's last use.
    let status = unsafe { plugin.api.destroy_execution_context(handle, context.as_ptr()) };
    if status != 0 {
        log::error(|| plugin.api.failure("destroy execution context", status));
    }
}
