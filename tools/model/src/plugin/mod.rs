//! Sessions with plan caches, and a plugin that counts its contexts.

#[path = "../../../../src/plugin/cache.rs"]
pub mod cache;
#[path = "../../../../src/plugin/made.rs"]
pub mod made;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An engine of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRef;

/// A plugin's details of an engine.
#[derive(Clone)]
pub struct EngineDetails;

/// A handle's session with one plugin that makes contexts.
#[derive(Default)]
pub struct Session {
    /// The plan cache.
    pub cache: cache::Cache,
    plugin: Arc<Plugin>,
}

/// A plugin shared by handles.
#[derive(Default)]
pub struct Plugin {
    made: AtomicUsize,
    given_back: AtomicUsize,
}

impl Session {
    /// A session of a plugin.
    pub fn of(plugin: &Arc<Plugin>) -> Arc<Self> {
        Arc::new(Self { cache: cache::Cache::default(), plugin: Arc::clone(plugin) })
    }

    /// The plan cache.
    pub fn cache(&self) -> &cache::Cache {
        &self.cache
    }

    /// Has the plugin make a context: its number.
    pub fn compile(&self) -> raw_context::Raw {
        let number = self.plugin.made.fetch_add(1, Ordering::Relaxed) + 1;
        let address = std::ptr::without_provenance_mut(number << BITS);
        raw_context::Raw::new(address).expect("numbers begin with 1")
    }

    /// Whether the context was destroyed.
    pub fn has_back(&self, context: raw_context::Raw) -> bool {
        self.plugin.given_back.load(Ordering::Relaxed) & 1 << (context.addr().get() >> BITS) != 0
    }
}

/// Contexts have aligned addresses.
const BITS: u32 = 8;

impl Drop for Session {
    fn drop(&mut self) {
        self.cache.end(self);
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let made = *self.made.get_mut();
        assert_eq!(self.given_back.get_mut().count_ones() as usize, made, "a context was not given back");
    }
}

/// Contexts of a plugin.
pub mod raw_context {
    use std::ptr::NonNull;
    use std::sync::atomic::Ordering;

    use hipdnn_plugin_sdk::ffi::HipdnnEnginePluginExecutionContext;

    use super::{BITS, EngineRef, Session};

    /// A context without an owner.
    pub type Raw = NonNull<HipdnnEnginePluginExecutionContext>;

    /// Destroys a context.
    pub fn give_back(session: &Session, _: EngineRef, context: Raw) {
        let bit = 1 << (context.addr().get() >> BITS);
        assert!(session.plugin.given_back.fetch_or(bit, Ordering::Relaxed) & bit == 0, "given back twice");
    }
}

/// Which engines apply.
pub mod ask {
    /// The engines that can run a graph.
    pub type Engines = Vec<super::EngineRef>;
}
