//! The plugins of the process: the search paths, and the loaded plugins.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::os::library;
use hipdnn_plugin_sdk::{cancel, environment};

use super::admission::tell_unknown_disabled;
use super::gate;
use super::paths::{self, Found, Mode, Search};
use super::{HeuristicPlugin, Plugin, PluginSet, Session, Setting, shortage};
use crate::lock::{Mutex, OnceLock};
use crate::selection::Settings;
use crate::status::{Error, Result};
use crate::{device, last_error, log, trace};

/// The paths set for one kind of plugins.
#[derive(Clone)]
struct Paths {
    added: BTreeSet<PathBuf>,
    mode: Mode,
}

impl Paths {
    const NONE: Self = Self { added: BTreeSet::new(), mode: Mode::Additive };
}

/// The settings and the loaded plugins.
pub struct Registry {
    engines: Paths,
    heuristics: Paths,
    /// How often paths were set.
    settings: u64,
    /// Kept after the last handle is destroyed, so that the plugins stay loaded for the next one.
    loaded: Option<Arc<PluginSet>>,
}

impl Registry {
    const NEW: Self = Self { engines: Paths::NONE, heuristics: Paths::NONE, settings: 0, loaded: None };
}

impl Default for Registry {
    fn default() -> Self {
        Self::NEW
    }
}

/// Locked only briefly, never while foreign code runs, since plugins' threads may call this library.
pub static REGISTRY: Mutex<Registry> = Mutex::new(Registry::NEW);

/// The kinds of plugins, each with its own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Engine plugins.
    Engines,
    /// Heuristic plugins.
    Heuristics,
}

/// Whether plugins are unloaded with the last handle.
static EAGER: AtomicBool = AtomicBool::new(false);

/// Opens a session with the plugins of the process, loading them if necessary.
///
/// # Errors
/// NOT_SUPPORTED if they are not loaded and this thread cannot wait for the one that loads or unloads plugins;
/// ALLOC_FAILED or INTERNAL_ERROR if one of them lacks memory or file descriptors, so that a later handle tries again.
pub fn open_session() -> Result<Arc<Session>> {
    let _visit = gate::visit("hipdnnCreate cannot be called")?;
    Session::open(match loaded() {
        Some(set) => set,
        None => load_once()?,
    })
}

fn loaded() -> Option<Arc<PluginSet>> {
    REGISTRY.lock().loaded.clone()
}

fn load_once() -> Result<Arc<PluginSet>> {
    // Plugins read files when they are loaded.
    let _off = cancel::disable();
    let opening = gate::open("hipdnnCreate cannot be called")?;
    // Another thread may have loaded them meanwhile.
    if let Some(set) = loaded() {
        return Ok(set);
    }
    let (engines, heuristics, settings) = {
        let registry = REGISTRY.lock();
        (registry.engines.clone(), registry.heuristics.clone(), registry.settings)
    };
    let level = log::level();
    let set = Arc::new(load(&engines, &heuristics)?);
    {
        let mut registry = REGISTRY.lock();
        // Paths set meanwhile take effect with the next handle.
        if registry.settings == settings {
            registry.loaded = Some(Arc::clone(&set));
        }
    }
    if log::level() != level {
        tell(&set);
    }
    drop(opening);
    Ok(set)
}

/// Passes the log level to the loaded plugins. Plugins being loaded get it then.
pub fn tell_log_level() {
    if let Some(set) = loaded() {
        tell(&set);
    }
}

fn tell(set: &PluginSet) {
    set.plugins.iter().for_each(Plugin::tell_log_level);
    set.heuristics.iter().for_each(HeuristicPlugin::tell_log_level);
}

/// Sets whether plugins are unloaded with the last handle. If true and no handle is alive, unloads them now.
pub fn set_eager_unloading(eager: bool, handles: usize) {
    EAGER.store(eager, Ordering::Relaxed);
    unload_if_eager(handles);
}

/// Unloads the plugins if eager unloading is set and no handle is alive.
#[inline]
pub fn unload_if_eager(handles: usize) {
    if EAGER.load(Ordering::Relaxed) && handles == 0 {
        let unloaded = REGISTRY.lock().loaded.take();
        // Outside the lock: unloading runs foreign code.
        drop(unloaded);
    }
}

/// Whether [`unload_if_eager`] would do anything.
#[inline]
pub fn is_eager() -> bool {
    EAGER.load(Ordering::Relaxed)
}

/// Sets the search paths; takes effect with the next handle. `handles` is the number of live handles.
///
/// # Errors
/// NOT_SUPPORTED while a handle is alive.
pub fn set_paths(kind: Kind, paths: Vec<PathBuf>, mode: Mode, handles: usize) -> Result<()> {
    let function = match kind {
        Kind::Engines => "hipdnnSetEnginePluginPaths_ext",
        Kind::Heuristics => "hipdnnSetHeuristicPluginPaths_ext",
    };
    let unloaded = {
        if gate::is_opening() {
            return Err(Error::not_supported(format!(
                "{function} cannot be called while a plugin is being loaded"
            )));
        }
        let mut registry = REGISTRY.lock();
        if handles > 0 {
            return Err(Error::not_supported(format!(
                "{function} cannot be called with an active handle, {handles} are alive"
            )));
        }
        let own = match kind {
            Kind::Engines => &mut registry.engines,
            Kind::Heuristics => &mut registry.heuristics,
        };
        if mode == Mode::Absolute {
            own.added.clear();
        }
        own.added.extend(paths);
        own.mode = mode;
        registry.settings += 1;
        registry.loaded.take()
    };
    // Outside the lock: unloading runs foreign code.
    drop(unloaded);
    Ok(())
}

fn load(engines: &Paths, heuristics: &Paths) -> Result<PluginSet> {
    let library = own()?;
    let folder = library.path.parent().unwrap_or(Path::new("/"));
    let (engines, places) =
        find(library, Path::new(paths::ENGINES_FOLDER), "engine", "HIPDNN_PLUGIN_DIR", engines)?;
    // Heuristic plugins are optional: no warning for a missing folder.
    let default = Path::new(paths::HEURISTICS_FOLDER);
    let default = if folder.join(default).is_dir() { default } else { Path::new("") };
    let (heuristics, _) = find(library, default, "heuristic", "HIPDNN_HEURISTIC_PLUGIN_DIR", heuristics)?;
    let (plugins, refused) = load_files(engines, &Setting::from_environment(folder))?;
    if plugins.is_empty() && refused.is_empty() {
        let message = format!("no engine plugin was found; looked in {places}");
        log::warn(|| message.clone());
        last_error::set(&message);
    }
    let heuristics = load_heuristics(heuristics)?;
    // If plugins have loaded a GPU library, look up its functions here, where calling the loader is safe.
    device::look_for_gpu();
    trace::ranges::look();
    let mut settings = Settings::from_environment();
    let complaints = settings.keep_loaded(
        |id| heuristics.iter().any(|plugin| plugin.has(id)),
        |id| plugins.iter().any(|plugin| plugin.engines.iter().any(|engine| engine.id == id)),
    );
    complaints.into_iter().for_each(|complaint| log::warn(|| complaint));
    let number = PluginSet::next_number();
    Ok(PluginSet { plugins, refused, places, heuristics, settings, number })
}

/// What a search for one kind of plugins found, and a description of where it looked.
fn find(library: &Own, default: &Path, kind: &str, variable: &str, own: &Paths) -> Result<(Found, String)> {
    let folder = library.path.parent().unwrap_or(Path::new("/"));
    let environment = environment::path(variable).map(PathBuf::from);
    let is_nowhere = environment.is_none() && default.as_os_str().is_empty();
    let search = Search {
        library_folder: folder,
        library: Some(&library.file),
        default,
        environment: environment.as_deref(),
        added: &own.added,
        mode: if is_nowhere { Mode::Absolute } else { own.mode },
    };
    let found = paths::find(&search);
    if let Some(error) = found.shortage.as_deref().and_then(shortage::of_words) {
        return Err(error);
    }
    for warning in &found.warnings {
        log::warn(|| warning.clone());
    }
    let places = paths::describe_places(&search, variable);
    if places.is_empty() {
        return Ok((found, "no folder".to_owned()));
    }
    log::info(|| {
        let (count, s) = (found.files.len(), if found.files.len() == 1 { "" } else { "s" });
        format!("looked for {kind} plugins in {places}: {count} file{s}")
    });
    Ok((found, places))
}

/// Reports that a file is left out.
fn complain(path: &Path, reason: &str) {
    let message = message_of(path, reason);
    log::error(|| message.clone());
    last_error::set(&message);
}

fn message_of(path: &Path, reason: &str) -> String {
    format!("Error loading plugin from [{}]: {reason}", path.display())
}

/// Reports that a file is left out, unless the reason passes.
fn leave_out(path: &Path, reason: &str) -> Result<()> {
    if let Some(error) = shortage::of_words(&message_of(path, reason)) {
        return Err(error);
    }
    complain(path, reason);
    Ok(())
}

/// The heuristic plugins that a search found.
fn load_heuristics(found: Found) -> Result<Vec<HeuristicPlugin>> {
    for (path, reason) in &found.missing {
        complain(path, reason);
    }
    let mut plugins: Vec<HeuristicPlugin> = Vec::new();
    for path in found.files {
        let loaded = HeuristicPlugin::load(&path).and_then(|plugin| {
            let twin = |other: &HeuristicPlugin| plugin.policies.iter().find(|policy| other.has(policy.id));
            match plugins.iter().find_map(|other| Some((other, twin(other)?))) {
                None => Ok(plugin),
                Some((other, policy)) => {
                    Err(format!("Policy {} already exists, from {}", policy.name, other.path.display()))
                }
            }
        });
        match loaded {
            Err(reason) => leave_out(&path, &reason)?,
            Ok(plugin) => {
                log::info(|| {
                    format!(
                        "loaded heuristic plugin {} {} from {}",
                        plugin.name,
                        plugin.version,
                        path.display()
                    )
                });
                plugins.push(plugin);
            }
        }
    }
    Ok(plugins)
}

/// The plugins that a search found, and what is wrong with the others. `setting` is the user's choice of their generations.
fn load_files(found: Found, setting: &Setting) -> Result<(Vec<Plugin>, Vec<String>)> {
    let mut plugins: Vec<Plugin> = Vec::new();
    let mut refused = Vec::new();
    for (path, reason) in &found.missing {
        complain(path, reason);
        refused.push(format!("{}: {reason}", path.display()));
    }
    for path in found.files {
        let owner = |id: i64| {
            let plugin = plugins.iter().find(|plugin| plugin.engines.iter().any(|engine| engine.id == id));
            plugin.map(|plugin| format!("'{}' from {}", plugin.name, plugin.path.display()))
        };
        let phase = trace::phase("load a plugin", || path.display().to_string());
        let loaded = Plugin::load(&path, setting, owner);
        drop(phase);
        match loaded {
            Err(reason) => {
                leave_out(&path, &reason)?;
                refused.push(format!("{}: {reason}", path.display()));
            }
            Ok(plugin) => {
                for reason in &plugin.dropped {
                    complain(&path, reason);
                }
                // The command line tool reads this line.
                log::info(|| {
                    let (name, version, generation) = (&plugin.name, &plugin.version, &plugin.generation);
                    format!("loaded plugin {name} {version} from {}, {generation}", path.display())
                });
                plugins.push(plugin);
            }
        }
    }
    tell_unknown_disabled(&plugins);
    Ok((plugins, refused))
}

/// This library.
struct Own {
    /// The path that this code was loaded from.
    path: PathBuf,
    /// The file behind it, links resolved.
    file: PathBuf,
}

/// This library. Asks the loader once.
fn own() -> Result<&'static Own> {
    static OWN: OnceLock<Own> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let own = find_own()?;
    Ok(OWN.get_or_init(|| own))
}

fn find_own() -> Result<Own> {
    let path = library::file_of(find_own as *const () as *const c_void)
        .ok_or_else(|| Error::internal("the folder of the backend library cannot be determined"))?;
    // The name is as the program passed it; a relative one starts at the working directory.
    let path = std::path::absolute(path)
        .map_err(|error| Error::internal(format!("the path of the backend library: {error}")))?;
    Ok(with_plugins(path))
}

/// The path of the library in the folder with its plugins: resolves a link that has no plugins beside it.
fn with_plugins(path: PathBuf) -> Own {
    let file = paths::canonical(&path);
    let has_plugins = |path: &Path| path.with_file_name(paths::ENGINES_FOLDER).is_dir();
    let is_link_alone = file != path && !has_plugins(&path) && has_plugins(&file);
    Own { path: if is_link_alone { file.clone() } else { path }, file }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::os;

    use super::*;

    #[test]
    fn a_link_alone_finds_the_plugins_of_its_library() {
        let scratch = std::env::temp_dir().join(format!("hipdnn-link-{}", std::process::id()));
        let (real, links) = (scratch.join("real"), scratch.join("links"));
        std::fs::create_dir_all(real.join(paths::ENGINES_FOLDER)).unwrap();
        std::fs::create_dir_all(&links).unwrap();
        let (file, link) = (real.join("it.lib"), links.join("it.lib"));
        std::fs::write(&file, b"").unwrap();
        if !os::files::testing::link(&file, &link) {
            return;
        }
        let path = |path: &Path| with_plugins(path.to_owned()).path;
        assert_eq!(path(&link), file.canonicalize().unwrap());
        assert_eq!(path(&file), file);
        // Plugins beside the link take precedence.
        std::fs::create_dir_all(links.join(paths::ENGINES_FOLDER)).unwrap();
        assert_eq!(path(&link), link);
        assert_eq!(with_plugins(link.clone()).file, file.canonicalize().unwrap());
        std::fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(path(&link), link);
    }
}
