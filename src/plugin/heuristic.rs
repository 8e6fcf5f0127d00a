//! The checks that a library must pass to become a heuristic plugin.

use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::ptr;

use hipdnn_plugin_sdk::ffi::heuristic_api_version::HIPDNN_HEURISTIC_API_VERSION_MAJOR;
use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_SUCCESS, HIPDNN_PLUGIN_TYPE_HEURISTIC, HIPDNN_PLUGIN_TYPE_UNSPECIFIED,
    hipdnnPluginStatus_t,
};
use hipdnn_plugin_sdk::graph::ApiVersion;

use super::admission::first_duplicate;
use super::api::{HeuristicApi, foreign_text};
use super::{Library, engine_id};
use crate::selection::BUILT_IN;

/// More policies than any plugin has.
const MAX_POLICIES: u32 = 65_536;

/// A policy of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The hash of its name.
    pub id: i64,
    /// Its name.
    pub name: String,
}

/// A library that passed.
pub struct HeuristicPlugin {
    /// Its functions.
    pub api: HeuristicApi,
    /// Its name for itself.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The version of its heuristic plugin interface.
    pub api_version: String,
    /// Its policies, in its own order.
    pub policies: Vec<Policy>,
    /// The canonical path of its file.
    pub path: PathBuf,
    // Last, so that the code outlives everything above.
    _library: Library,
}

impl HeuristicPlugin {
    /// Opens a file and checks it.
    ///
    /// # Errors
    /// The reason why the file is not a heuristic plugin, to be shown after its path.
    pub fn load(path: &Path) -> Result<Self, String> {
        let library = Library::open_plugin(path)?;
        let api = HeuristicApi::find(&library)?;
        let mut kind = HIPDNN_PLUGIN_TYPE_UNSPECIFIED;
        // SAFETY: the function writes one integer.
        let status = unsafe { api.get_type(&raw mut kind) };
        if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
            return Err(api.failure("get plugin type", status));
        }
        if kind != HIPDNN_PLUGIN_TYPE_HEURISTIC {
            return Err(format!(
                "Wrong plugin type: got {kind}, expected a heuristic plugin ({HIPDNN_PLUGIN_TYPE_HEURISTIC})"
            ));
        }
        let ask = |action: &str, function: &dyn Fn(*mut *const c_char) -> hipdnnPluginStatus_t| {
            let mut text = ptr::null();
            let status = function(&raw mut text);
            if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
                return Err(api.failure(action, status));
            }
            // SAFETY: on success the pointer is null or a text of the plugin's.
            let text = unsafe { foreign_text(text) };
            text.ok_or_else(|| format!("Failed to {action}: the plugin gave a null text"))
        };
        // SAFETY: each function writes one pointer.
        let name = ask("get plugin name", &|text| unsafe { api.get_name(text) })?;
        if name.is_empty() {
            return Err("The plugin has no name".to_owned());
        }
        // SAFETY: the function writes one pointer, to a text of the plugin.
        let version = ask("get plugin version", &|text| unsafe { api.get_version(text) })?;
        // SAFETY: the function writes one pointer, to a text of the plugin.
        let api_version = ask("get plugin API version", &|text| unsafe { api.get_api_version(text) })?;
        match ApiVersion::parse(&api_version) {
            Some(version) if version.major == HIPDNN_HEURISTIC_API_VERSION_MAJOR => {}
            Some(version) => {
                return Err(format!(
                    "Heuristic API version {version} is not supported, expected major \
                     {HIPDNN_HEURISTIC_API_VERSION_MAJOR}"
                ));
            }
            None => {
                return Err(format!(
                    "Heuristic API version {api_version:?} cannot be read, expected MAJOR.MINOR.PATCH"
                ));
            }
        }
        // SAFETY: the callback lives as long as this library. A plugin that refuses it does not log.
        let status = unsafe { api.set_logging_callback(Some(crate::log::plugin_callback)) };
        if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
            crate::log::warn(|| api.failure("set the logging callback", status));
        }
        let policies = policy_ids(&api)?
            .into_iter()
            .map(|id| {
                let action = format!("get the name of policy {id}");
                // SAFETY: the function writes one pointer, to a text of the plugin.
                let name = ask(&action, &|text| unsafe { api.get_policy_name(id, text) })?;
                let expected = engine_id(&name);
                if name.is_empty() {
                    return Err(format!("Policy {id} has no name"));
                }
                if expected != id {
                    return Err(format!(
                        "Policy {name} has ID {id}, expected the hash of its name, {expected}"
                    ));
                }
                if BUILT_IN.iter().any(|(built_in, _)| *built_in == id) {
                    return Err(format!("Policy {name} already exists, in the library itself"));
                }
                Ok(Policy { id, name })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let path = library.path().to_owned();
        let plugin = Self { api, name, version, api_version, policies, path, _library: library };
        plugin.tell_log_level();
        Ok(plugin)
    }

    /// Whether the plugin has a policy.
    pub fn has(&self, policy: i64) -> bool {
        self.policies.iter().any(|own| own.id == policy)
    }

    /// Passes the log level to the plugin, if it has the function.
    pub fn tell_log_level(&self) {
        // SAFETY: the function takes one integer. The plugin may ignore it.
        unsafe { self.api.set_log_level(crate::log::level()) };
    }
}

fn policy_ids(api: &HeuristicApi) -> Result<Vec<i64>, String> {
    let mut count = 0;
    // SAFETY: with a capacity of 0 the function only writes the count.
    let status = unsafe { api.get_all_policy_ids(ptr::null_mut(), 0, &raw mut count) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(api.failure("get number of policies", status));
    }
    if count == 0 {
        return Err("No policies found in the plugin".to_owned());
    }
    if count > MAX_POLICIES {
        return Err(format!("The plugin reports {count} policies, expected at most {MAX_POLICIES}"));
    }
    let mut ids = vec![0; count as usize];
    let mut written = 0;
    // SAFETY: the array has room for `count` ids.
    let status = unsafe { api.get_all_policy_ids(ids.as_mut_ptr(), count, &raw mut written) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        return Err(api.failure("get all policy IDs", status));
    }
    if written != count {
        return Err(format!(
            "Number of policies returned does not match expected count: {written} instead of {count}"
        ));
    }
    match first_duplicate(&ids) {
        Some(id) => Err(format!("Duplicate policy IDs found: {id}")),
        None => Ok(ids),
    }
}
