//! Handles: what lies behind one is a session, a stream and the plugins as this handle has them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::object::Table;
use crate::plugin::paths::Mode;
use crate::plugin::{Session, registry};
use crate::status::Result;
use crate::trace;

/// All live handles.
pub static HANDLES: Table<Arc<Session>> = Table::new("hipdnnHandle_t", 0x3, 0);

/// Loads the plugins where that has not happened, asks each for a handle of its own, and enters the result.
pub fn create() -> Result<usize> {
    let session = registry::open_session()?;
    HANDLES.insert(session)
}

/// Ends a handle; its plugin handles go when no engine, configuration or plan needs them any more.
pub fn destroy(handle: usize) -> Result<()> {
    HANDLES.remove(handle)?;
    trace::device::collect();
    if registry::is_eager() {
        registry::unload_if_eager(HANDLES.count());
    }
    Ok(())
}

/// Looks up a handle that C passed and calls `f` with its session.
#[inline]
pub fn with<R>(handle: usize, f: impl FnOnce(&Arc<Session>) -> Result<R>) -> Result<R> {
    HANDLES.with(handle, f)
}

/// The session of a handle, to be kept.
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
