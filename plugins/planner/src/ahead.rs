//! Plans for a device that is not present. They can be described and saved, not executed.

use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::{PluginError, Refusal, Step};

/// The architecture in `HIPDNN_TARGET_DEVICE`, which replaces the present device, if its name has the prefix
/// of this engine's devices.
///
/// # Errors
/// When the name is one of other devices.
/// That the name is one of other devices.
pub fn target(prefix: &str) -> Result<Option<String>, Refusal> {
    match std::env::var("HIPDNN_TARGET_DEVICE").ok().filter(|name| !name.is_empty()) {
        Some(name) if !name.starts_with(prefix) => {
            Err(Refusal::new(format!("plans are made for {name}, expected {prefix}…")))
        }
        named => Ok(named),
    }
}

/// A plan's data that needs no device.
#[derive(Debug)]
pub struct Ahead {
    /// The target architecture.
    pub architecture: String,
    /// The request that it answers.
    pub request: Request,
    /// Bytes of workspace that the target device will need.
    pub workspace_size: usize,
    /// What an execution will do.
    pub steps: Vec<Step>,
}

impl Ahead {
    /// The error for executing it.
    pub fn refusal(&self) -> PluginError {
        PluginError::not_applicable(format!(
            "the plan was made ahead of time for {}, and can be saved only",
            self.architecture
        ))
    }
}
