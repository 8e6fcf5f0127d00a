//! Vulkan devices, by the plugin of `VULKAN_ENGINE` that a handle has loaded.

use std::fmt;

use hipdnn_plugin_sdk::gpu;
use hipdnn_plugin_sdk::vulkan::{Device, DeviceInfo, Vulkan};
use serde::Serialize;

use crate::Handle;
use crate::error::{Error, Result};
use crate::hardware::Gpu;
use crate::hardware::memory::failed;

/// A Vulkan device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VulkanDevice {
    /// Its number, for [`Gpu::vulkan`].
    pub number: i32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: VulkanKind,
    /// The version of Vulkan that its driver supports.
    pub version: String,
    /// The size of its memory.
    pub memory_bytes: u64,
    /// Its UUID, in hexadecimal.
    pub uuid: String,
    /// Whether `VULKAN_ENGINE` can compute on it.
    pub is_usable: bool,
}

/// The kind of a Vulkan device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VulkanKind {
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU of a virtual machine.
    Virtual,
    /// The host's processor.
    Software,
    /// None of these.
    Other,
}

impl fmt::Display for VulkanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integrated => "integrated",
            Self::Discrete => "discrete",
            Self::Virtual => "virtual",
            Self::Software => "software",
            Self::Other => "other",
        })
    }
}

impl VulkanDevice {
    fn new(number: i32, info: &DeviceInfo) -> Self {
        Self {
            number,
            name: info.name(),
            kind: match info.kind {
                1 => VulkanKind::Integrated,
                2 => VulkanKind::Discrete,
                3 => VulkanKind::Virtual,
                4 => VulkanKind::Software,
                _ => VulkanKind::Other,
            },
            version: format!("{}.{}", info.major_version, info.minor_version),
            memory_bytes: info.memory_bytes,
            uuid: info.uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
            is_usable: info.is_usable != 0,
        }
    }
}

/// The functions of the plugin that the handle has loaded.
fn functions(handle: &Handle) -> Result<&'static Vulkan> {
    let loaded = handle.engine_plugin_paths()?;
    let own = loaded.iter().find(|path| Vulkan::is_plugin(path)).ok_or_else(|| {
        Error::Device(
            "the library has loaded no plugin of VULKAN_ENGINE, which has Vulkan's memory".to_owned(),
        )
    })?;
    Vulkan::of(own).map_err(|error| failed("looking for memory of Vulkan devices", &error))
}

/// The Vulkan devices, in the order of their numbers. This opens Vulkan, which takes some milliseconds.
///
/// # Errors
/// Why there is no Vulkan, or that the plugin of `VULKAN_ENGINE` is not loaded.
pub fn vulkan_devices(handle: &Handle) -> Result<Vec<VulkanDevice>> {
    let infos = functions(handle)?.devices();
    let infos = infos.map_err(|error| failed("looking for Vulkan devices", &error))?;
    Ok((0..).zip(&infos).map(|(number, info)| VulkanDevice::new(number, info)).collect())
}

impl Gpu {
    /// A Vulkan device. Handles that have planned nothing yet, `handle` and others, will compute on it by `VULKAN_ENGINE`.
    ///
    /// # Errors
    /// Why there is no such device, or that the plugin of `VULKAN_ENGINE` is not loaded.
    pub fn vulkan(handle: &Handle, number: i32) -> Result<Self> {
        let device = Device::choose(functions(handle)?, number);
        let device = device.map_err(|error| failed(&format!("opening Vulkan device {number}"), &error))?;
        Ok(Self(gpu::Gpu::Vulkan(device)))
    }

    /// Whether it is a Vulkan device.
    pub fn is_vulkan(&self) -> bool {
        matches!(self.0, gpu::Gpu::Vulkan(_))
    }

    /// The device as plugins know it.
    pub fn raw(&self) -> gpu::Gpu {
        self.0
    }
}
