//! A handle: a stream, and the plugins as this handle has them.

use std::sync::Arc;

use crate::object::{Pin, Table};
use crate::plugin::{Session, registry};
use crate::status::Result;

/// What lies behind a `hipdnnHandle_t`.
pub struct Handle {
    session: Arc<Session>,
}

/// All live handles.
pub static HANDLES: Table<Handle> = Table::new("hipdnnHandle_t", 0x3, 0);

impl Handle {
    /// Loads the plugins where that has not happened, asks each for a handle of its own, and enters the result.
    pub fn create() -> Result<usize> {
        let session = registry::open_session()?;
        HANDLES.insert(Arc::new(Self { session }))
    }

    /// Looks up a handle that C passed.
    #[inline]
    pub fn pin(handle: usize) -> Result<Pin<Self>> {
        HANDLES.pin(handle)
    }

    /// Ends a handle; its plugin handles go when no engine, configuration or plan needs them any more.
    pub fn destroy(handle: usize) -> Result<()> {
        HANDLES.remove(handle)
    }

    /// The plugins as this handle has them.
    #[inline]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        registry::session_closed();
    }
}
