//! Handles: each refers to a session, with a stream and the plugins' handles.

use std::path::PathBuf;
use std::sync::Arc;

use crate::object::Table;
use crate::plugin::paths::Mode;
use crate::plugin::{Session, registry};
use crate::status::Result;
use crate::trace;

/// All live handles.
pub static HANDLES: Table<Arc<Session>> = Table::new("hipdnnHandle_t", 0x3, 0);

/// Loads the plugins if necessary, asks each for a plugin handle, and registers the new handle.
pub fn create() -> Result<usize> {
    let session = registry::open_session()?;
    HANDLES.insert(session)
}

/// Destroys a handle; its plugin handles live until no engine, configuration or plan needs them.
pub fn destroy(handle: usize) -> Result<()> {
    HANDLES.remove(handle)?;
    trace::device::collect();
    if registry::is_eager() {
        registry::unload_if_eager(HANDLES.count());
    }
    Ok(())
}

/// Looks up a caller's handle and calls `f` with its session.
#[inline]
pub fn with<R>(handle: usize, f: impl FnOnce(&Arc<Session>) -> Result<R>) -> Result<R> {
    HANDLES.with(handle, f)
}

/// A shared reference to a handle's session.
pub fn session(handle: usize) -> Result<Arc<Session>> {
    with(handle, |session| Ok(Arc::clone(session)))
}

/// Sets where plugins are looked for, from the next handle on.
///
/// # Errors
/// NOT_SUPPORTED while a handle is alive.
pub fn set_plugin_paths(kind: registry::Kind, paths: Vec<PathBuf>, mode: Mode) -> Result<()> {
    registry::set_paths(kind, paths, mode, HANDLES.count())
}

/// Sets whether plugins are unloaded with the last handle, or kept for the next one.
pub fn set_eager_unloading(eager: bool) {
    registry::set_eager_unloading(eager, HANDLES.count());
}
