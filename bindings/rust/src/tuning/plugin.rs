//! Strategies of tuning plugins: where plugins are searched, and what a library must satisfy.

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn_plugin_sdk::dynlib::Library;
use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::environment;
use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_SUCCESS, hipdnnPluginStatus_t};
use hipdnn_plugin_sdk::graph::ApiVersion;
use hipdnn_plugin_sdk::os::library::EXTENSION;

use super::built_in;
use super::callback::{self, Ended};
use super::ffi::types::{HIPDNN_PLUGIN_TYPE_TUNING, hipdnnTuningHost_t, hipdnnTuningProblem_t};
use super::ffi::version::HIPDNN_TUNING_API_VERSION_MAJOR;
use super::problem::{Measure, Problem, Strategy};
use crate::Backend;

/// The folder of tuning plugins, beside the library.
const FOLDER: &str = "hipdnn_plugins/tuning";

/// The variable with another folder, or a file.
const VARIABLE: &str = "HIPDNN_TUNING_PLUGIN_DIR";

/// More strategies than any plugin has.
const MOST: u32 = 4096;

type GetText = unsafe extern "C" fn(*mut *const c_char) -> hipdnnPluginStatus_t;
type SetCallback =
    unsafe extern "C" fn(Option<unsafe extern "C" fn(c_int, *const c_char)>) -> hipdnnPluginStatus_t;
type GetIds = unsafe extern "C" fn(*mut i64, u32, *mut u32) -> hipdnnPluginStatus_t;
type Search = unsafe extern "C" fn(
    i64,
    *const hipdnnTuningProblem_t,
    *const hipdnnTuningHost_t,
) -> hipdnnPluginStatus_t;

/// A valid plugin. It stays loaded: its threads may outlive a search.
pub struct Plugin {
    path: PathBuf,
    name: String,
    version: String,
    strategies: Vec<(i64, String)>,
    search: Search,
    get_last_error: unsafe extern "C" fn(*mut *const c_char),
    // Last, so that the code outlives everything above.
    _library: Library,
}

/// A strategy of a plugin.
pub struct OfPlugin {
    plugin: &'static Plugin,
    id: i64,
}

/// The plugins that were found, and why other files were rejected.
pub struct Found {
    /// The valid plugins, by path.
    pub plugins: Vec<&'static Plugin>,
    /// The path of each rejected file, and the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// Every strategy by name: built-in ones, then those of plugins. A name that is taken is skipped.
pub fn strategies(found: &Found) -> Vec<(String, Box<dyn Strategy>)> {
    let mut all: Vec<(String, Box<dyn Strategy>)> =
        built_in().into_iter().map(|(name, strategy)| (name.to_owned(), strategy)).collect();
    for plugin in &found.plugins {
        for (id, name) in &plugin.strategies {
            if !all.iter().any(|(known, _)| known == name) {
                all.push((name.clone(), Box::new(OfPlugin { plugin, id: *id })));
            }
        }
    }
    all
}

/// Loads the tuning plugins of a library: from the folder `hipdnn_plugins/tuning` beside it, or from `HIPDNN_TUNING_PLUGIN_DIR`.
pub fn load(backend: &Backend) -> Found {
    let place = environment::path(VARIABLE)
        .map(PathBuf::from)
        .or_else(|| Some(backend.file()?.parent()?.join(FOLDER)));
    let mut found = Found { plugins: Vec::new(), refused: Vec::new() };
    for path in place.as_deref().map(files).unwrap_or_default() {
        match Plugin::load(&path) {
            Ok(plugin) => found.plugins.push(plugin),
            Err(reason) => found.refused.push((path, reason)),
        }
    }
    found
}

/// The file, or the shared objects in the folder, sorted by name.
fn files(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = place.read_dir() else {
        return if place.is_file() { vec![place.to_owned()] } else { Vec::new() };
    };
    let is_plugin =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == EXTENSION) && path.is_file();
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_plugin).collect();
    files.sort();
    files
}

impl Plugin {
    /// Opens a file and checks the plugin. A file that is open already is not opened again.
    ///
    /// # Errors
    /// Why it is not a tuning plugin, to be shown behind its path.
    pub fn load(path: &Path) -> Result<&'static Self, String> {
        static LOADED: Mutex<Vec<&'static Plugin>> = Mutex::new(Vec::new());
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.iter().find(|known| known.path == path) {
            return Ok(known);
        }
        let plugin: &'static Self = Box::leak(Box::new(Self::open(&path)?));
        loaded.push(plugin);
        Ok(plugin)
    }

    fn open(path: &Path) -> Result<Self, String> {
        let library = Library::open(path).map_err(|error| error.to_string())?;
        let mut missing = Vec::new();
        macro_rules! function {
            ($name:literal, $arguments:literal, $kind:ty, $result:ty) => {{
                // SAFETY: the interface declares the function of this name with this type, and all its arguments are word-sized.
                let found = unsafe { library.guarded::<$kind, $result>($name, $arguments) };
                if found.is_none() {
                    missing.push($name);
                }
                found
            }};
        }
        let get_type = function!(
            "hipdnnPluginGetType",
            1,
            unsafe extern "C" fn(*mut c_int) -> hipdnnPluginStatus_t,
            c_int
        );
        let get_name = function!("hipdnnPluginGetName", 1, GetText, c_int);
        let get_version = function!("hipdnnPluginGetVersion", 1, GetText, c_int);
        let get_api_version = function!("hipdnnPluginGetApiVersion", 1, GetText, c_int);
        let set_callback = function!("hipdnnPluginSetLoggingCallback", 1, SetCallback, c_int);
        let get_last_error =
            function!("hipdnnPluginGetLastErrorString", 1, unsafe extern "C" fn(*mut *const c_char), ());
        let get_ids = function!("hipdnnTuningPluginGetAllStrategyIds", 3, GetIds, c_int);
        let get_strategy_name = function!(
            "hipdnnTuningPluginGetStrategyName",
            2,
            unsafe extern "C" fn(i64, *mut *const c_char) -> hipdnnPluginStatus_t,
            c_int
        );
        let search = function!("hipdnnTuningPluginSearch", 3, Search, c_int);
        let (
            Some(get_type),
            Some(get_name),
            Some(get_version),
            Some(get_api_version),
            Some(set_callback),
            Some(get_last_error),
            Some(get_ids),
            Some(get_strategy_name),
            Some(search),
        ) = (
            get_type,
            get_name,
            get_version,
            get_api_version,
            set_callback,
            get_last_error,
            get_ids,
            get_strategy_name,
            search,
        )
        else {
            return Err(format!("it lacks {}", missing.join(", ")));
        };
        let fail = |what: &str, status| failure(what, status, get_last_error);
        let mut kind = 0;
        // SAFETY: the function writes one integer.
        let status = unsafe { get_type(&raw mut kind) };
        if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
            return Err(fail("its type", status));
        }
        if kind != HIPDNN_PLUGIN_TYPE_TUNING {
            return Err(format!(
                "its type is {kind}, expected that of a tuning plugin, {HIPDNN_PLUGIN_TYPE_TUNING}"
            ));
        }
        let text = |what: &str, function: &dyn Fn(*mut *const c_char) -> hipdnnPluginStatus_t| {
            let mut text = ptr::null();
            match function(&raw mut text) {
                // SAFETY: on success the pointer is null or a string of the plugin's.
                HIPDNN_PLUGIN_STATUS_SUCCESS => match unsafe { text_at(text) } {
                    Some(text) if text.is_empty() => Err(format!("{what} is empty")),
                    Some(text) => match text.to_str() {
                        Ok(text) => Ok(text.to_owned()),
                        Err(_) => Err(format!("{what} is {text:?}, expected UTF-8")),
                    },
                    None => Err(format!("{what} is null")),
                },
                status => Err(fail(what, status)),
            }
        };
        // SAFETY: each function writes one pointer, to a string of the plugin's.
        let name = text("its name", &|to| unsafe { get_name(to) })?;
        // SAFETY: the function writes one pointer, to a string of the plugin's.
        let version = text("its version", &|to| unsafe { get_version(to) })?;
        // SAFETY: the function writes one pointer, to a string of the plugin's.
        let api = text("its API version", &|to| unsafe { get_api_version(to) })?;
        if ApiVersion::parse(&api).is_none_or(|api| api.major != HIPDNN_TUNING_API_VERSION_MAJOR) {
            return Err(format!(
                "its API version is {api:?}, expected {HIPDNN_TUNING_API_VERSION_MAJOR}.MINOR.PATCH"
            ));
        }
        // SAFETY: the callback lives as long as the program. A plugin that refuses it stays silent.
        unsafe { set_callback(Some(callback::log)) };
        let strategies = ids(get_ids, &fail)?
            .into_iter()
            .map(|id| {
                let what = format!("the name of strategy {id}");
                // SAFETY: the function writes one pointer, to a string of the plugin's.
                let name = text(&what, &|to| unsafe { get_strategy_name(id, to) })?;
                let hash = engine_id(&name);
                if hash != id {
                    return Err(format!(
                        "strategy {name} has the id {id}, expected the hash of its name, {hash}"
                    ));
                }
                Ok((id, name))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            path: path.to_owned(),
            name,
            version,
            strategies,
            search,
            get_last_error,
            _library: library,
        })
    }

    /// Its name, version and file.
    pub fn describe(&self) -> (&str, &str, &Path) {
        (&self.name, &self.version, &self.path)
    }
}

fn ids(get: GetIds, fail: &dyn Fn(&str, c_int) -> String) -> Result<Vec<i64>, String> {
    let mut count = 0;
    // SAFETY: with no room, the function only writes the count.
    let status = unsafe { get(ptr::null_mut(), 0, &raw mut count) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(fail("the number of its strategies", status));
    }
    if !(1..=MOST).contains(&count) {
        return Err(format!("it has {count} strategies, expected 1 to {MOST}"));
    }
    let mut ids = vec![0; count as usize];
    let mut written = 0;
    // SAFETY: the array has room for `count` ids.
    let status = unsafe { get(ids.as_mut_ptr(), count, &raw mut written) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(fail("the ids of its strategies", status));
    }
    if written != count {
        return Err(format!("it has {written} strategies, after it said {count}"));
    }
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(pair) => Err(format!("it has strategy {} twice", pair.first().copied().unwrap_or_default())),
        None => Ok(ids),
    }
}

/// A string from a plugin; none for a null pointer.
///
/// # Safety
/// A non-null pointer must be a NUL-terminated string that stays as it is while the result is used.
unsafe fn text_at<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the pointer is not null, so it is a NUL-terminated string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

fn failure(what: &str, status: c_int, get_last_error: unsafe extern "C" fn(*mut *const c_char)) -> String {
    if let Some(thrown) = hipdnn_plugin_sdk::dynlib::guard::thrown(what, status) {
        return thrown;
    }
    let mut text = ptr::null();
    // SAFETY: the function writes a pointer to a string of the plugin's, or leaves the null.
    let text = unsafe {
        get_last_error(&raw mut text);
        text_at(text)
    };
    format!("{what}: status {status}, {:?}", text.unwrap_or_default().to_string_lossy())
}

impl Strategy for OfPlugin {
    fn search(&self, problem: &Problem, measure: &mut dyn Measure) -> Result<Vec<usize>, String> {
        let (search, id, get_last_error) = (self.plugin.search, self.id, self.plugin.get_last_error);
        let what = format!("the search of tuning plugin {}", self.plugin.name);
        // The plugin's last error is its thread's.
        let words = Arc::new(Mutex::new(String::new()));
        let of_thread = (what.clone(), Arc::clone(&words));
        let Ended { ranking, status } = callback::during(problem, measure, move |problem, host| {
            // SAFETY: problem and host live during the call, and so does everything that they point to.
            let status = unsafe { search(id, problem, host) };
            if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
                let (what, words) = of_thread;
                *words.lock().unwrap_or_else(PoisonError::into_inner) =
                    failure(&what, status, get_last_error);
            }
            status
        })?;
        match status {
            // What it has ranked until then counts.
            None if ranking.is_none() => {
                return Err(format!("{what} went on when the budget was spent, and was ended"));
            }
            None | Some(HIPDNN_PLUGIN_STATUS_SUCCESS) => {}
            Some(_) => return Err(words.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
        ranking.ok_or_else(|| format!("tuning plugin {} answered no ranking", self.plugin.name))
    }
}
