//! The plugins as one handle has them: a plugin handle with each.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::ffi::{HipdnnEnginePluginHandle, hipdnnEnginePluginHandle_t};
use smallvec::SmallVec;

use super::{Engine, Plugin, check};
use crate::log;
use crate::status::{Error, Result};

/// The plugins that were loaded at one time, in the order of their paths.
pub struct PluginSet {
    /// The plugins.
    pub plugins: Vec<Plugin>,
}

/// An engine of a session: the place of its plugin, and its own among the plugin's engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRef {
    /// The plugin's place in its set.
    pub plugin: u32,
    /// The engine's place in its plugin.
    pub engine: u32,
}

/// A plugin's handle; only its plugin knows what it points to.
#[derive(Clone, Copy)]
struct Opened(Option<NonNull<HipdnnEnginePluginHandle>>);

// SAFETY: the interface lets a host use a plugin handle from any thread; the plugin has to cope.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

/// A plugin handle with each plugin of a set.
pub struct Session {
    handles: SmallVec<[Opened; 4]>,
    stream: AtomicPtr<c_void>,
    set: Arc<PluginSet>,
}

impl Session {
    /// Asks each plugin for a handle; one that fails is left out.
    pub fn open(set: Arc<PluginSet>) -> Arc<Self> {
        let handles = set.plugins.iter().map(|plugin| Opened(open(plugin))).collect();
        Arc::new(Self { handles, stream: AtomicPtr::new(ptr::null_mut()), set })
    }

    /// The plugins of the session.
    pub fn set(&self) -> &Arc<PluginSet> {
        &self.set
    }

    /// Each plugin that gave a handle, with its place and the handle.
    pub fn opened(&self) -> impl Iterator<Item = (u32, &Plugin, hipdnnEnginePluginHandle_t)> {
        let pairs = self.set.plugins.iter().zip(&self.handles).enumerate();
        pairs.filter_map(|(place, (plugin, handle))| Some((place as u32, plugin, handle.0?.as_ptr())))
    }

    /// The handle of the plugin at this place.
    #[inline]
    pub fn plugin_handle(&self, place: u32) -> Result<hipdnnEnginePluginHandle_t> {
        match self.handles.get(place as usize) {
            Some(Opened(Some(handle))) => Ok(handle.as_ptr()),
            _ => Err(Error::not_supported("the plugin gave no handle when the hipDNN handle was created")),
        }
    }

    /// The plugin at this place.
    pub fn plugin(&self, place: u32) -> Result<&Plugin> {
        self.set
            .plugins
            .get(place as usize)
            .ok_or_else(|| Error::internal(format!("there is no plugin at place {place}")))
    }

    /// An engine of the session.
    pub fn engine(&self, engine: EngineRef) -> Result<&Engine> {
        let found = self.plugin(engine.plugin)?.engines.get(engine.engine as usize);
        found.ok_or_else(|| Error::internal(format!("there is no engine at place {}", engine.engine)))
    }

    /// The stream of the last successful [`Session::set_stream`], null at first.
    pub fn stream(&self) -> *mut c_void {
        self.stream.load(Ordering::Acquire)
    }

    /// Tells every plugin the stream to work on. When one refuses, those told before get the old one back.
    ///
    /// # Safety
    /// `stream` is null or a live stream.
    pub unsafe fn set_stream(&self, stream: *mut c_void) -> Result<()> {
        let old = self.stream();
        for (place, plugin, handle) in self.opened() {
            // SAFETY: the handle is the plugin's own; the stream is the caller's, passed through.
            let status = unsafe { (plugin.api.set_stream)(handle, stream) };
            if let Err(error) = check(&plugin.api, "set stream for engine plugin handle", status) {
                for (_, plugin, handle) in self.opened().take_while(|(told, ..)| *told < place) {
                    // SAFETY: as above.
                    unsafe { (plugin.api.set_stream)(handle, old) };
                }
                return Err(error);
            }
        }
        self.stream.store(stream, Ordering::Release);
        Ok(())
    }
}

fn open(plugin: &Plugin) -> Option<NonNull<HipdnnEnginePluginHandle>> {
    let mut handle = ptr::null_mut();
    // SAFETY: the function writes one pointer.
    let status = unsafe { (plugin.api.create)(&raw mut handle) };
    if status != 0 {
        log::error(|| plugin.api.failure("create engine plugin handle", status));
        return None;
    }
    let handle = NonNull::new(handle);
    if handle.is_none() {
        log::error(|| format!("plugin {} gave a null handle and is left out", plugin.path.display()));
    }
    handle
}

impl Drop for Session {
    fn drop(&mut self) {
        for (_, plugin, handle) in self.opened() {
            // SAFETY: the handle is the plugin's own, and this is its last use.
            let status = unsafe { (plugin.api.destroy)(handle) };
            if status != 0 {
                log::error(|| plugin.api.failure("destroy engine plugin handle", status));
            }
        }
    }
}
