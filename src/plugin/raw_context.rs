//! Execution contexts without an owner, and how plugins get them back.

use std::ptr::NonNull;

use hipdnn_plugin_sdk::ffi::{HipdnnEnginePluginExecutionContext, hipdnnEnginePluginHandle_t};

use super::{EngineRef, Plugin, Session};
use crate::log;
use crate::status::Result;

/// A context that has no owner yet.
pub type Raw = NonNull<HipdnnEnginePluginExecutionContext>;

/// Gives a context of an engine back to the plugin. It is not used any more.
pub fn give_back(session: &Session, engine: EngineRef, context: Raw) {
    if let Ok((plugin, handle)) = opened(session, engine) {
        destroy(plugin, handle, context);
    }
}

/// The plugin of an engine, and the session's handle of it.
pub fn opened(session: &Session, engine: EngineRef) -> Result<(&Plugin, hipdnnEnginePluginHandle_t)> {
    Ok((session.plugin(engine.plugin)?, session.plugin_handle(engine.plugin)?))
}

/// Gives a context back to the plugin. It is not used any more.
pub fn destroy(plugin: &Plugin, handle: hipdnnEnginePluginHandle_t, context: Raw) {
    // SAFETY: handle and context are the plugin's own, and this is the context's last use.
    let status = unsafe { plugin.api.destroy_execution_context(handle, context.as_ptr()) };
    if status != 0 {
        log::error(|| plugin.api.failure("destroy execution context", status));
    }
}
