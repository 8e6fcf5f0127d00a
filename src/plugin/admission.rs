//! Admission: the checks that a library must pass to become a plugin, and its engines to be offered.

use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::AtomicBool;

use hipdnn_plugin_sdk::engine_kind::EngineKind;
use hipdnn_plugin_sdk::environment;
use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, HIPDNN_PLUGIN_STATUS_SUCCESS, HIPDNN_PLUGIN_TYPE_ENGINE,
    HIPDNN_PLUGIN_TYPE_UNSPECIFIED, hipdnnPluginStatus_t,
};
use hipdnn_plugin_sdk::graph::ApiVersion;
use hipdnn_plugin_sdk::wire::{EngineConfig, write_engine_config};

use super::api::{Api, foreign_text};
use super::{Generation, Library, Setting, engine_id};
use crate::trace;

/// More engines than any plugin has: a larger count is a plugin's mistake, and we do not allocate for it.
const MAX_ENGINES: u32 = 65_536;

/// Engines whose names are known even if their plugin does not name them.
const KNOWN_ENGINES: [&str; 3] = ["MIOPEN_ENGINE", "MIOPEN_ENGINE_DETERMINISTIC", "HIPBLASLT_ENGINE"];

/// The variable with the engines that the user has disabled.
const DISABLED: &str = "HIPDNN_DISABLE_ENGINES";

/// An engine of a plugin.
pub struct Engine {
    /// Its id, unique among all loaded engines.
    pub id: i64,
    /// The name its plugin gives it, if any.
    pub name: Option<String>,
    /// What it computes on, and where its kernels come from.
    pub kind: EngineKind,
    /// The bytes of a configuration that sets no knob.
    pub plain_config: Vec<u8>,
}

impl Engine {
    /// The engine's name, or a known name with its id, or its id.
    pub fn display_name(&self) -> String {
        let known =
            || KNOWN_ENGINES.iter().find(|name| engine_id(name) == self.id).map(|name| (*name).to_owned());
        self.name.clone().or_else(known).unwrap_or_else(|| format!("0x{:016X}", self.id))
    }
}

/// A library that passed admission.
pub struct Plugin {
    /// Its functions.
    pub api: Api,
    /// Its name for itself.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The version of its plugin interface; 1.0.0 if unknown.
    pub api_version: ApiVersion,
    /// The generation of graph bytes that it reads.
    pub generation: Generation,
    /// Its engines, in its own order.
    pub engines: Vec<Engine>,
    /// The reasons why its other engines are not offered.
    pub dropped: Vec<String>,
    /// The canonical path of its file.
    pub path: PathBuf,
    /// Whether it has answered which engines apply, and whether it has made a plan: it may then have loaded a GPU library.
    pub(super) has_answered: AtomicBool,
    pub(super) has_compiled: AtomicBool,
    /// Every id that the plugin declared, including those of dropped engines.
    pub(super) declared: Vec<i64>,
    // Last, so that the code outlives everything above.
    _library: Library,
}

impl Plugin {
    /// Opens a file and checks it. `setting` is the user's setting of generations; `owner` returns the earlier plugin that
    /// has an engine id, if any.
    ///
    /// # Errors
    /// The reason why the file is not an engine plugin, to be shown after its path.
    pub fn load(
        path: &Path,
        setting: &Setting,
        owner: impl Fn(i64) -> Option<String>,
    ) -> Result<Self, String> {
        let library = Library::open_plugin(path)?;
        let api = Api::find(&library)?;
        let mut kind = HIPDNN_PLUGIN_TYPE_UNSPECIFIED;
        // SAFETY: the function writes one integer.
        let status = unsafe { api.get_type(&raw mut kind) };
        if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
            return Err(api.failure("get plugin type", status));
        }
        if kind != HIPDNN_PLUGIN_TYPE_ENGINE {
            return Err(format!(
                "Wrong plugin type: got {kind}, expected an engine plugin ({HIPDNN_PLUGIN_TYPE_ENGINE})"
            ));
        }
        let mut given = ptr::null();
        // SAFETY: each function writes one pointer, which is read before the next is called.
        let (name, version, api_version) = unsafe {
            let status = api.get_name(&raw mut given);
            let name = text(&api, "get plugin name", status, given)?;
            given = ptr::null();
            let status = api.get_version(&raw mut given);
            let version = text(&api, "get plugin version", status, given)?;
            given = ptr::null();
            let status = api.get_api_version(&raw mut given);
            let api_version = status.map(|status| text(&api, "get plugin API version", status, given));
            (name, version, api_version)
        };
        // A plugin of either generation may lack the function; it then implements the interface's first version.
        let api_version = api_version
            .map_or(Ok(ApiVersion::new(1, 0, 0)), |text| text.and_then(|text| parse_api_version(&text)))?;
        let generation = Generation::of(path, setting, |name| library.has(name))?;
        // SAFETY: the callback lives as long as this library. A plugin that refuses it does not log.
        let status = unsafe { api.set_logging_callback(Some(crate::log::plugin_callback)) };
        if let Some(status) = status.filter(|status| *status != HIPDNN_PLUGIN_STATUS_SUCCESS) {
            crate::log::warn(|| api.failure("set the logging callback", status));
        }
        tell_log_level(&api);
        // SAFETY: the callback lives as long as this library. A plugin that refuses it does not report steps.
        let ask = || unsafe { api.set_step_callback(Some(trace::plugin_step)) };
        let status = if trace::wants_steps() { ask() } else { None };
        if let Some(status) = status.filter(|status| *status != HIPDNN_PLUGIN_STATUS_SUCCESS) {
            crate::log::warn(|| api.failure("set the step callback", status));
        }
        // The library orders engines, so plugins need not hide any.
        // SAFETY: the function takes one integer.
        let status = unsafe { api.offer_all_engines(1) };
        if let Some(status) = status.filter(|status| *status != HIPDNN_PLUGIN_STATUS_SUCCESS) {
            crate::log::warn(|| api.failure("ask for all engines", status));
        }
        let declared = engine_ids(&api)?;
        let (engines, dropped) = admit(&api, &declared, owner);
        let path = library.path().to_owned();
        Ok(Self {
            api,
            name,
            version,
            api_version,
            generation,
            engines,
            dropped,
            path,
            has_answered: AtomicBool::new(false),
            has_compiled: AtomicBool::new(false),
            declared,
            _library: library,
        })
    }
}

impl Plugin {
    /// Passes the log level to the plugin, if it has the function.
    pub fn tell_log_level(&self) {
        tell_log_level(&self.api);
    }
}

fn tell_log_level(api: &Api) {
    // SAFETY: the function takes one integer. The plugin may ignore it.
    unsafe { api.set_log_level(crate::log::level()) };
}

/// A text that a plugin returned with this status. Success with a null text is an error.
///
/// # Safety
/// On success the pointer is null or to a NUL terminated text.
unsafe fn text(
    api: &Api,
    action: &str,
    status: hipdnnPluginStatus_t,
    text: *const c_char,
) -> Result<String, String> {
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(api.failure(action, status));
    }
    // SAFETY: the function succeeded, so the pointer is null or a text of the plugin.
    unsafe { foreign_text(text) }.ok_or_else(|| format!("Failed to {action}: the plugin gave a null text"))
}

fn parse_api_version(text: &str) -> Result<ApiVersion, String> {
    match ApiVersion::parse(text) {
        // Plugins reported major 0 before the interface was stable; they implement its first version.
        Some(version) if version.major == 0 => Ok(ApiVersion::new(1, 0, 0)),
        Some(version) if version.major == 1 => Ok(version),
        Some(version) => {
            Err(format!("Plugin API version {version} does not match expected engine API major version 1"))
        }
        None => Err(format!("Plugin API version {text:?} cannot be read, expected MAJOR.MINOR.PATCH")),
    }
}

fn engine_ids(api: &Api) -> Result<Vec<i64>, String> {
    let mut count = 0;
    // SAFETY: with a capacity of 0 the function only writes the count.
    let status = unsafe { api.get_all_engine_ids(ptr::null_mut(), 0, &raw mut count) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(api.failure("get number of engines", status));
    }
    if count == 0 {
        return Err("No engines found in the plugin".into());
    }
    if count > MAX_ENGINES {
        return Err(format!("The plugin reports {count} engines, expected at most {MAX_ENGINES}"));
    }
    let mut ids = vec![0; count as usize];
    let mut written = 0;
    // SAFETY: the array has room for `count` ids.
    let status = unsafe { api.get_all_engine_ids(ids.as_mut_ptr(), count, &raw mut written) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(api.failure("get all engine IDs", status));
    }
    if written != count {
        return Err(format!(
            "Number of engines returned does not match expected count: {written} instead of {count}"
        ));
    }
    match first_duplicate(&ids) {
        Some(id) => Err(format!("Duplicate engine IDs found: {id}")),
        None => Ok(ids),
    }
}

/// The first id that occurs twice in the list.
pub(super) fn first_duplicate(ids: &[i64]) -> Option<i64> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

/// Splits a plugin's engines into those offered and the reasons for the others. Programs search these reasons for the words
/// listed in docs/abi.md, with the id.
fn admit(api: &Api, ids: &[i64], owner: impl Fn(i64) -> Option<String>) -> (Vec<Engine>, Vec<String>) {
    let mut engines = Vec::new();
    let mut dropped = Vec::new();
    for &id in ids {
        match engine_name(api, id) {
            Ok(_) if is_disabled(id) => {
                crate::log::info(|| format!("engine 0x{id:016X} is left out, as {DISABLED} says"));
            }
            Err(reason) => dropped.push(reason),
            Ok(_) if owner(id).is_some() => {
                let other = owner(id).unwrap_or_default();
                dropped.push(format!(
                    "Engine ID {id} already exists in the list: the plugin declares engine 0x{id:016X}, which plugin {other} already provides"
                ));
            }
            Ok(name) => {
                let plain_config = write_engine_config(&EngineConfig { engine_id: id, knobs: Vec::new() });
                let kind = engine_kind(api, id, name.as_deref().unwrap_or_default());
                engines.push(Engine { id, name, kind, plain_config });
            }
        }
    }
    (engines, dropped)
}

/// The entries of the user's list of engines to leave out: names, or ids in decimal or hexadecimal.
fn disabled() -> Vec<String> {
    let list = if environment::is_secure() { None } else { std::env::var(DISABLED).ok() };
    list.iter().flat_map(|list| list.split(',')).map(|entry| entry.trim().to_owned()).collect()
}

/// Whether the user has this engine left out.
fn is_disabled(id: i64) -> bool {
    disabled().iter().any(|entry| id_of(entry) == Some(id))
}

/// Logs the engines that the user has left out and that no plugin declares.
pub(super) fn tell_unknown_disabled(plugins: &[Plugin]) {
    let is_unknown = |id: i64| plugins.iter().all(|plugin| !plugin.declared.contains(&id));
    for entry in disabled().iter().filter(|entry| id_of(entry).is_some_and(is_unknown)) {
        crate::log::warn(|| format!("{DISABLED} names {entry}, which no loaded plugin has"));
    }
}

/// The id of an entry.
fn id_of(entry: &str) -> Option<i64> {
    let hexadecimal = entry.strip_prefix("0x").or_else(|| entry.strip_prefix("0X"));
    match hexadecimal.map(|digits| u64::from_str_radix(digits, 16)) {
        Some(Ok(number)) => Some(number.cast_signed()),
        _ if entry.is_empty() => None,
        _ => Some(entry.parse().unwrap_or_else(|_| engine_id(entry))),
    }
}

/// An engine's name; none if the plugin does not name it. An error drops the engine.
fn engine_name(api: &Api, id: i64) -> Result<Option<String>, String> {
    let mut name = ptr::null();
    // SAFETY: the function writes one pointer.
    let Some(status) = (unsafe { api.get_engine_name(id, &raw mut name) }) else { return Ok(None) };
    let name = match status {
        // SAFETY: on success the pointer is null or a text of the plugin's.
        HIPDNN_PLUGIN_STATUS_SUCCESS => unsafe { foreign_text(name) }.unwrap_or_default(),
        HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE => String::new(),
        other => return Err(api.failure(&format!("get the name of engine {id}"), other)),
    };
    if name.is_empty() {
        return Ok(None);
    }
    let expected = engine_id(&name);
    if expected != id {
        return Err(format!(
            "the plugin reports engine name '{name}' for engine 0x{id:016X}, expected the hash of its name, 0x{expected:016X}"
        ));
    }
    Ok(Some(name))
}

/// An engine's kind: what its plugin says, else what its name tells.
fn engine_kind(api: &Api, id: i64, name: &str) -> EngineKind {
    let (mut device, mut implementation) = (0, 0);
    // SAFETY: the function writes two numbers.
    match unsafe { api.get_engine_kind(id, &raw mut device, &raw mut implementation) } {
        Some(HIPDNN_PLUGIN_STATUS_SUCCESS) => EngineKind::from_numbers(device, implementation),
        Some(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE) | None => EngineKind::by_name(name),
        Some(status) => {
            crate::log::warn(|| api.failure(&format!("get the kind of engine {id}"), status));
            EngineKind::by_name(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_named_or_numbered() {
        let id = engine_id("rocke:SDPA");
        let entries = ["rocke:SDPA".to_owned(), id.to_string(), format!("0x{id:016X}"), format!("0x{id:x}")];
        for entry in entries {
            assert_eq!(id_of(&entry), Some(id), "{entry}");
        }
        assert_eq!((id_of(""), id_of("0"), id_of("-1")), (None, Some(0), Some(-1)));
        assert_ne!(id_of("0xno"), Some(id));
    }
}
