//! Sessions: a hipDNN handle's plugin handles.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hipdnn_plugin_sdk::cancel::{self, Disabled};
use hipdnn_plugin_sdk::engine_kind::EngineKind;
use hipdnn_plugin_sdk::ffi::{HipdnnEnginePluginHandle, hipdnnEnginePluginHandle_t};
use smallvec::SmallVec;

use super::asking::is_asking;
use super::cache::{Cache, Entry};
use super::{Engine, HeuristicHandles, HeuristicPlugin, Plugin, check, shortage};
use crate::device::{self, Place};
use crate::graph::FrozenGraph;
use crate::lock::OnceLock;
use crate::log;
use crate::object::is_executing;
use crate::selection::Settings;
use crate::status::{Error, Result};

/// The plugins loaded at one time, in the order of their paths. Aligned, to keep it off the cache line of its reference count,
/// which each new handle writes to.
#[repr(align(128))]
pub struct PluginSet {
    /// The plugins.
    pub plugins: Vec<Plugin>,
    /// The files that could not be loaded as plugins, each with the reason.
    pub refused: Vec<String>,
    /// The places searched for plugins, for messages.
    pub places: String,
    /// The heuristic plugins.
    pub heuristics: Vec<HeuristicPlugin>,
    /// The settings of engine selection, as the environment had them when the plugins were loaded.
    pub settings: Settings,
    /// The set's number, unique in the process.
    pub number: u64,
}

impl PluginSet {
    /// The number of the next set, from 1.
    pub fn next_number() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// An engine of a session: the index of its plugin, and its index among the plugin's engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRef {
    /// The plugin's index in its set.
    pub plugin: u32,
    /// The engine's index in its plugin.
    pub engine: u32,
}

/// Describes one of a session's engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo<'a> {
    /// The engine's display name.
    pub name: String,
    /// The engine's id.
    pub id: i64,
    /// What it computes on, and where its kernels come from.
    pub kind: EngineKind,
    /// Its plugin's name.
    pub plugin_name: &'a str,
    /// Its plugin's version.
    pub plugin_version: &'a str,
}

/// A plugin's handle, opaque to the host.
#[derive(Clone, Copy)]
struct Opened(Option<NonNull<HipdnnEnginePluginHandle>>);

// SAFETY: the interface lets a host use a plugin handle from any thread.
unsafe impl Send for Opened {}
// SAFETY: the interface lets threads share a plugin handle.
unsafe impl Sync for Opened {}

/// A plugin handle for each plugin of a set. The order of fields keeps what executions read off the reference count's cache line.
#[repr(C)]
pub struct Session {
    /// The plugins that returned no handle, and why.
    left_out: Vec<(u32, String)>,
    /// None without heuristic plugins.
    heuristics: Option<Box<HeuristicHandles>>,
    /// The plan cache.
    cache: OnceLock<Box<Cache>>,
    stream: AtomicPtr<c_void>,
    /// The number of threads that are setting the stream.
    changing: AtomicU32,
    /// Where the handle was created, and whether it was also used elsewhere.
    home: Place,
    has_moved: AtomicBool,
    handles: SmallVec<[Opened; 4]>,
    set: Arc<PluginSet>,
}

impl Session {
    /// Asks each plugin for a handle; a plugin that fails is left out.
    ///
    /// # Errors
    /// A plugin fails for a reason that passes.
    pub fn open(set: Arc<PluginSet>) -> Result<Arc<Self>> {
        let home = device::place();
        let session = Arc::<Self>::new_uninit();
        // Initialized in place: moving it costs more than asking for handles, and so does `Arc::get_mut`, which counts references.
        // SAFETY: the memory has a session's size, only this function uses it, and it is fully initialized here.
        let session = unsafe {
            Arc::as_ptr(&session).cast_mut().cast::<Self>().write(Self {
                left_out: Vec::new(),
                heuristics: None,
                cache: OnceLock::new(),
                stream: AtomicPtr::new(ptr::null_mut()),
                changing: AtomicU32::new(0),
                home,
                has_moved: AtomicBool::new(false),
                handles: SmallVec::new(),
                set,
            });
            session.assume_init()
        };
        // SAFETY: only this function uses it. If a plugin's call unwinds, the session closes what was opened so far.
        let Self { handles, left_out, heuristics, set, .. } =
            unsafe { &mut *Arc::as_ptr(&session).cast_mut() };
        if !set.heuristics.is_empty() {
            *heuristics = Some(Box::new(HeuristicHandles::open(Arc::clone(set))));
        }
        let off = cancel::disable();
        for (place, plugin) in (0..).zip(&set.plugins) {
            handles.push(match open(&off, plugin) {
                Ok(handle) => Opened(Some(handle)),
                Err(reason) => {
                    if let Some(error) = shortage::of_words(&reason) {
                        return Err(error);
                    }
                    log::error(|| format!("plugin {} is left out: {reason}", plugin.path.display()));
                    left_out.push((place, reason));
                    Opened(None)
                }
            });
        }
        Ok(session)
    }

    /// Why the plugin at this index returned no handle, if so.
    pub fn reason_left_out(&self, place: u32) -> Option<&str> {
        self.left_out.iter().find(|(other, _)| *other == place).map(|(_, reason)| reason.as_str())
    }

    /// The handles of the heuristic plugins; none without such plugins.
    pub fn heuristics(&self) -> Option<&HeuristicHandles> {
        self.heuristics.as_deref()
    }

    /// The plan cache.
    pub fn cache(&self) -> &Cache {
        self.cache.get_or_init(Box::default)
    }

    /// The cache entry of a graph, filled in by later answers; none if it is not cached.
    pub fn entry(&self, graph: &FrozenGraph) -> Option<Arc<Entry>> {
        self.cache().entry(graph, || self.number_of_plugins())
    }

    /// The number of the plugin set, if its answers are valid for all handles with this number. That requires: no stream, which may
    /// be another device's; the device on which the handle was created, because plugins may keep the first one they see; and no
    /// call from within a plugin, which plugins may refuse.
    fn number_of_plugins(&self) -> Option<u64> {
        if !self.home.is_same_device(device::place()) && !self.has_moved.load(Ordering::Relaxed) {
            self.has_moved.store(true, Ordering::Relaxed);
        }
        let is_plain = self.changing.load(Ordering::SeqCst) == 0
            && self.stream().is_null()
            && self.left_out.is_empty()
            && !self.has_moved.load(Ordering::Relaxed)
            && !is_asking()
            && !is_executing();
        is_plain.then_some(self.set.number)
    }

    /// The plugins of the session.
    pub fn set(&self) -> &Arc<PluginSet> {
        &self.set
    }

    /// Each plugin that returned a handle, with its index and the handle.
    pub fn opened(&self) -> impl Iterator<Item = (u32, &Plugin, hipdnnEnginePluginHandle_t)> {
        let pairs = self.set.plugins.iter().zip(&self.handles).enumerate();
        pairs.filter_map(|(place, (plugin, handle))| Some((place as u32, plugin, handle.0?.as_ptr())))
    }

    /// The handle of the plugin at this index.
    #[inline]
    pub fn plugin_handle(&self, place: u32) -> Result<hipdnnEnginePluginHandle_t> {
        match self.handles.get(place as usize) {
            Some(Opened(Some(handle))) => Ok(handle.as_ptr()),
            _ => {
                Err(Error::not_supported("the plugin returned no handle when the hipDNN handle was created"))
            }
        }
    }

    /// The plugin at this index.
    pub fn plugin(&self, place: u32) -> Result<&Plugin> {
        self.set
            .plugins
            .get(place as usize)
            .ok_or_else(|| Error::internal(format!("there is no plugin at index {place}")))
    }

    /// All engines of the session, by name, then id, then plugin name.
    pub fn engines(&self) -> Vec<EngineInfo<'_>> {
        let mut all: Vec<_> = self
            .opened()
            .flat_map(|(_, plugin, _)| {
                plugin.engines.iter().map(|engine| EngineInfo {
                    name: engine.display_name(),
                    id: engine.id,
                    kind: engine.kind,
                    plugin_name: &plugin.name,
                    plugin_version: &plugin.version,
                })
            })
            .collect();
        all.sort_by(|a, b| (&a.name, a.id, a.plugin_name).cmp(&(&b.name, b.id, b.plugin_name)));
        all
    }

    /// The engines for a message: their names and ids.
    pub fn list_engines(&self) -> String {
        let engines: Vec<_> =
            self.engines().iter().map(|engine| format!("{} ({})", engine.name, engine.id)).collect();
        if engines.is_empty() { "none".into() } else { engines.join(", ") }
    }

    /// The engine with this id, if a plugin with a handle has it.
    pub fn find_engine(&self, id: i64) -> Option<EngineRef> {
        self.opened().find_map(|(plugin, loaded, _)| {
            let engine = loaded.engines.iter().position(|engine| engine.id == id)?;
            Some(EngineRef { plugin, engine: engine as u32 })
        })
    }

    /// An engine of the session.
    pub fn engine(&self, engine: EngineRef) -> Result<&Engine> {
        let found = self.plugin(engine.plugin)?.engines.get(engine.engine as usize);
        found.ok_or_else(|| Error::internal(format!("there is no engine at index {}", engine.engine)))
    }

    /// The stream of the last successful [`Session::set_stream`], initially null.
    pub fn stream(&self) -> *mut c_void {
        self.stream.load(Ordering::Acquire)
    }

    /// Sets the stream of every plugin. If one refuses, the old stream is restored in those already set.
    ///
    /// # Safety
    /// `stream` is null or a live stream.
    pub unsafe fn set_stream(&self, stream: *mut c_void) -> Result<()> {
        let old = self.stream();
        let _changing = Changing::begin(self);
        for (place, plugin, handle) in self.opened() {
            // SAFETY: the handle is the plugin's own, and `stream` is null or alive.
            let status = unsafe { plugin.api.set_stream(handle, stream) };
            if let Err(error) = check(&plugin.api, "set stream for engine plugin handle", status) {
                for (_, plugin, handle) in self.opened().take_while(|(told, ..)| *told < place) {
                    // SAFETY: the handle is the plugin's own, and the old stream was accepted before.
                    unsafe { plugin.api.set_stream(handle, old) };
                }
                return Err(error);
            }
        }
        self.stream.store(stream, Ordering::Release);
        if !stream.is_null() {
            // A program with a stream has loaded the stream's library.
            device::look_for_gpu();
        }
        // The stream may belong to another device.
        if let Some(cache) = self.cache.get().filter(|_| stream != old) {
            cache.clear();
        }
        Ok(())
    }
}

/// While a stream is being set, answers are not shared with other handles.
struct Changing<'a>(&'a Session);

impl<'a> Changing<'a> {
    fn begin(session: &'a Session) -> Self {
        session.changing.fetch_add(1, Ordering::SeqCst);
        if let Some(cache) = session.cache.get() {
            cache.suspect();
        }
        Self(session)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changing.fetch_sub(1, Ordering::SeqCst);
    }
}

fn open(off: &Disabled, plugin: &Plugin) -> std::result::Result<NonNull<HipdnnEnginePluginHandle>, String> {
    let mut handle = ptr::null_mut();
    // SAFETY: the function writes one pointer.
    let status = unsafe { plugin.api.create(off, &raw mut handle) };
    if status != 0 {
        return Err(plugin.api.failure("create engine plugin handle", status));
    }
    NonNull::new(handle)
        .ok_or_else(|| "Failed to create engine plugin handle: the plugin gave a null one".into())
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.get() {
            cache.end(self);
        }
        let off = cancel::disable();
        for (_, plugin, handle) in self.opened() {
            // SAFETY: the handle is the plugin's own, and this is its last use.
            let status = unsafe { plugin.api.destroy(&off, handle) };
            if status != 0 {
                log::error(|| plugin.api.failure("destroy engine plugin handle", status));
            }
        }
    }
}
