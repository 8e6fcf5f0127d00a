//! The state of a handle: the device that it works on.

use std::sync::Arc;

use hipdnn_plugin_planner::ahead;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::lock::OnceLock;

use crate::gpu::Gpu;
use crate::instance;

/// A handle of the host. Its device is the preferred one when it first plans or executes.
#[derive(Default)]
pub struct Handle {
    gpu: OnceLock<Arc<Gpu>>,
}

impl Handle {
    /// A handle that works on this device.
    pub fn on(gpu: Arc<Gpu>) -> Self {
        let handle = Self::default();
        // It is new, so it has no device.
        let _ = handle.gpu.set(gpu);
        handle
    }

    /// The handle's device.
    ///
    /// # Errors
    /// Why there is none, or that it was lost.
    pub fn gpu(&self) -> Result<&Arc<Gpu>, PluginError> {
        instance::check_process()?;
        if let Some(gpu) = self.gpu.get() {
            gpu.device.check_alive()?;
            return Ok(gpu);
        }
        // Plans made ahead of time are for the device here; a process on another writes its own modules.
        let is_ahead = ahead::target("vulkan")?.is_some();
        let gpu = instance::device(instance::default_number(is_ahead)?)?;
        Ok(self.gpu.get_or_init(|| gpu))
    }
}
