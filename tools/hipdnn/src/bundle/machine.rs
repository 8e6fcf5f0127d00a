//! The machine as claims name it.

use hipdnn::EngineInfo;
use hipdnn::hardware::{Device, devices};
use hipdnn_plugin_sdk::engine_kind::EngineDevice;

use super::PLATFORMS;
use crate::failure::{Failure, Result};

/// The devices and the platform of this machine.
pub struct Machine {
    devices: Vec<Device>,
    platform: &'static str,
}

impl Machine {
    /// This machine.
    pub fn here() -> Result<Self> {
        let platform = PLATFORMS.into_iter().find(|name| *name == std::env::consts::OS);
        let platform = platform
            .ok_or_else(|| Failure::work(format!("claims know no platform {:?}", std::env::consts::OS)))?;
        // Without a GPU, engines of the host remain.
        Ok(Self { devices: devices().unwrap_or_default(), platform })
    }

    /// The architecture and the platform in claims of an engine; `None` if its device is not here.
    pub fn cell(&self, engine: &EngineInfo) -> Option<(&str, &'static str)> {
        let architecture = match engine.of.device {
            EngineDevice::Host => "cpu",
            EngineDevice::Vulkan => "vulkan",
            _ => architecture(self.device(engine)?),
        };
        Some((architecture, self.platform))
    }

    /// The memory in MiB of an engine's device; `None` for the host and where it is not known.
    pub fn memory_mib(&self, engine: &EngineInfo) -> Option<u64> {
        if engine.is_of_host() { None } else { Some(self.device(engine)?.memory_bytes >> 20) }
    }

    fn device(&self, engine: &EngineInfo) -> Option<&Device> {
        self.devices.iter().find(|device| match engine.of.device {
            EngineDevice::Amd => device.architecture.starts_with("gfx"),
            EngineDevice::Nvidia => device.architecture.starts_with("sm_"),
            _ => true,
        })
    }
}

/// A device's architecture without its features and its name: `gfx942` of `gfx942:sramecc+:xnack-`.
fn architecture(device: &Device) -> &str {
    device.architecture.split([':', ' ', ',']).next().unwrap_or_default()
}
