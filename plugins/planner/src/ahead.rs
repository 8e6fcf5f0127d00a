//! Plans for a device that is not here. They can be described and saved, not executed.

use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::{PluginError, Refusal, Step};

/// The architecture that `HIPDNN_TARGET_DEVICE` names in the place of the device that is here, where an engine's devices have names
/// with this prefix.
///
/// # Errors
/// That the name is one of other devices.
pub fn target(prefix: &str) -> Result<Option<String>, Refusal> {
    match std::env::var("HIPDNN_TARGET_DEVICE").ok().filter(|name| !name.is_empty()) {
        Some(name) if !name.starts_with(prefix) => {
            Err(Refusal::new(format!("plans are made for {name}, expected {prefix}…")))
        }
        named => Ok(named),
    }
}

/// What a plan knows without its device.
#[derive(Debug)]
pub struct Ahead {
    /// The architecture that it is for.
    pub architecture: String,
    /// What it was asked for.
    pub request: Request,
    /// Bytes of workspace that its device will need.
    pub workspace_size: usize,
    /// What an execution will do.
    pub steps: Vec<Step>,
}

impl Ahead {
    /// The answer to whoever executes it.
    pub fn refusal(&self) -> PluginError {
        PluginError::not_applicable(format!(
            "the plan was made ahead of time for {}, and can be saved only",
            self.architecture
        ))
    }
}
