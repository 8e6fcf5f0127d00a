//! GPU memory for ONNX Runtime: its memory info, an allocator, copies. Tensors may then stay there between nodes, sessions
//! and the application.

mod allocator;
mod copies;
mod pool;
mod transfer;

use std::ffi::{CStr, c_int};
use std::ptr;

use hipdnn::hardware::{self, Gpu};

use crate::failure::{Failure, Result};
use crate::library::Library;
use crate::options::Device;
use crate::ort::*;

pub use allocator::Allocator;
pub use copies::Copies;
pub use transfer::Transfer;

/// `OrtHardwareDeviceType_GPU`, and `OrtMemoryInfoDeviceType_GPU`.
pub const GPU: c_int = 1;
/// `OrtDeviceMemoryType_DEFAULT`.
const DEFAULT: c_int = 0;
/// `OrtDeviceMemoryType_HOST_ACCESSIBLE`.
const HOST_ACCESSIBLE: c_int = 5;
/// `OrtDeviceAllocator`.
const DEVICE_ALLOCATOR: c_int = 0;

/// Since this version, ONNX Runtime asks a session's provider for its memory.
pub const SINCE: u32 = 27;

/// A PCI vendor id, and its name.
const AMD: (u32, &CStr) = (0x1002, c"AMD");
const NVIDIA: (u32, &CStr) = (0x10de, c"NVIDIA");
/// Khronos's id, for a Vulkan device of any maker.
const VULKAN: (u32, &CStr) = (0x10000, c"Vulkan");

/// The variable by which a user chooses a Vulkan device.
const CHOICE: &str = "HIPDNN_VULKAN_DEVICE";

/// The GPU of the process in ONNX Runtime. It lives as long as the factory.
pub struct Side {
    ort: Ort,
    vendor: (u32, &'static CStr),
    /// The memory info of the GPU.
    info: *const OrtMemoryInfo,
    /// The memory info of host memory that it can access; null for Vulkan, whose plugin allocates none.
    host_info: *const OrtMemoryInfo,
}

// SAFETY: the objects behind the pointers are immutable once made.
unsafe impl Send for Side {}
// SAFETY: the objects behind the pointers are immutable once made.
unsafe impl Sync for Side {}

impl Side {
    /// The GPU, AMD's or NVIDIA's, or else a Vulkan device if the user has chosen one; none if a driver or a device is missing.
    pub fn find(ort: Ort) -> Result<Option<Self>> {
        let devices = hardware::devices().unwrap_or_default();
        let vendor = match devices.first() {
            Some(first) if first.architecture.starts_with("sm_") => NVIDIA,
            Some(_) => AMD,
            None if has_vulkan() => VULKAN,
            None => return Ok(None),
        };
        let named = |name: &CStr, kind: c_int| {
            // SAFETY: the name ends with a NUL and is copied, and `value` passes the address of a local.
            ort.value("naming the memory of a GPU", ptr::null_mut(), |to| unsafe {
                ort.api.CreateMemoryInfo_V2(name.as_ptr(), GPU, vendor.0, 0, kind, 0, DEVICE_ALLOCATOR, to)
            })
        };
        let info = named(c"hipDNN GPU", DEFAULT)?;
        let mut side = Self { ort, vendor, info, host_info: ptr::null() };
        if !side.is_vulkan() {
            side.host_info = named(c"hipDNN GPU host", HOST_ACCESSIBLE)?;
        }
        Ok(Some(side))
    }

    /// Whether it is a Vulkan device.
    pub fn is_vulkan(&self) -> bool {
        self.vendor == VULKAN
    }

    /// The device of sessions that have no other.
    pub fn device(&self) -> Device {
        if self.is_vulkan() { Device::Vulkan(0) } else { Device::Gpu }
    }

    /// Whether tensors of sessions with this device are in its memory.
    pub fn is_of(&self, device: Device) -> bool {
        match device {
            Device::Cpu => false,
            Device::Gpu => !self.is_vulkan(),
            Device::Vulkan(_) => self.is_vulkan(),
        }
    }

    /// The memory infos of the GPU and of host memory that it can access, if it has any.
    pub fn infos(&self) -> impl Iterator<Item = *const OrtMemoryInfo> {
        [self.info, self.host_info].into_iter().filter(|info| !info.is_null())
    }

    /// The one of them for an allocator.
    pub fn info(&self, is_of_host: bool) -> *const OrtMemoryInfo {
        if is_of_host { self.host_info } else { self.info }
    }

    /// Whether a memory info is the host's.
    ///
    /// # Safety
    /// The memory info is alive.
    pub unsafe fn is_of_host(&self, info: *const OrtMemoryInfo) -> bool {
        // SAFETY: the memory info is alive, as this function requires.
        unsafe {
            self.ort.ep.MemoryDevice_GetMemoryType(self.ort.ep.MemoryInfo_GetMemoryDevice(info))
                == HOST_ACCESSIBLE
        }
    }

    /// The memory device of the GPU.
    pub fn memory(&self) -> *const OrtMemoryDevice {
        // SAFETY: the memory info lives as long as this object.
        unsafe { self.ort.ep.MemoryInfo_GetMemoryDevice(self.info) }
    }

    /// The memory devices of the GPU and of host memory that it can access, if it has any.
    pub fn memories(&self) -> Vec<*const OrtMemoryDevice> {
        // SAFETY: the memory infos live as long as this object.
        self.infos().map(|info| unsafe { self.ort.ep.MemoryInfo_GetMemoryDevice(info) }).collect()
    }

    /// The device among those of ONNX Runtime.
    ///
    /// # Safety
    /// The devices are alive.
    pub unsafe fn among(&self, devices: &[*const OrtHardwareDevice]) -> Option<*const OrtHardwareDevice> {
        let api = self.ort.api;
        let is_it = |device: &&*const OrtHardwareDevice| {
            // SAFETY: the devices are alive, as this function requires.
            !device.is_null()
                && unsafe {
                    api.HardwareDevice_Type(**device) == GPU
                        && api.HardwareDevice_VendorId(**device) == self.vendor.0
                }
        };
        devices.iter().find(is_it).copied()
    }

    /// A device for the GPU, if ONNX Runtime does not see it; the caller releases it.
    pub fn hardware(&self) -> Result<*mut OrtHardwareDevice> {
        let (number, name) = self.vendor;
        // SAFETY: the name ends with a NUL and is copied, the metadata may be null, and `value` passes the address of a local.
        self.ort.value("CreateHardwareDevice", ptr::null_mut(), |to| unsafe {
            self.ort.ep.CreateHardwareDevice(GPU, number, 0, name.as_ptr(), ptr::null(), to)
        })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        for info in self.infos() {
            // SAFETY: the factory outlives everything that it made, so this is the last use.
            unsafe { self.ort.api.ReleaseMemoryInfo(info.cast_mut()) };
        }
    }
}

/// Whether the user has chosen a Vulkan device, and one is there. Looking for one opens its driver.
fn has_vulkan() -> bool {
    let is_chosen = std::env::var_os(CHOICE).is_some_and(|name| !name.is_empty());
    let look = || Library::open()?.with_handle(|handle| Ok(hardware::vulkan_devices(handle)?));
    is_chosen && look().is_ok_and(|devices| devices.iter().any(|device| device.is_usable))
}

/// The GPU itself, opened on first use of its memory.
fn opened(is_vulkan: bool) -> Result<Gpu> {
    if is_vulkan {
        return Library::open()?.vulkan(None);
    }
    Gpu::find().map_err(|error| Failure::ep(format!("hipDNN: {error}")))
}

/// Whether a tensor is in GPU memory.
///
/// # Safety
/// The value is a tensor that is alive.
pub unsafe fn is_on_gpu(ort: Ort, value: *const OrtValue) -> bool {
    // SAFETY: the value is a tensor that is alive, as this function requires; its device lives as long.
    unsafe {
        let device = ort.ep.Value_GetMemoryDevice(value);
        !device.is_null()
            && ort.ep.MemoryDevice_GetDeviceType(device) == GPU
            && ort.ep.MemoryDevice_GetMemoryType(device) == DEFAULT
    }
}

/// The GPU whose memory holds a tensor that is on one.
///
/// # Safety
/// The value is a tensor that is alive.
unsafe fn gpu_of(ort: Ort, value: *const OrtValue) -> Result<Gpu> {
    // SAFETY: the value is a tensor that is alive, as this function requires; its device lives as long.
    let vendor = unsafe { ort.ep.MemoryDevice_GetVendorId(ort.ep.Value_GetMemoryDevice(value)) };
    if ![AMD, NVIDIA, VULKAN].iter().any(|(known, _)| vendor == *known) {
        return Err(Failure::argument(format!(
            "hipDNN: a tensor is in the memory of a device of vendor {vendor:#x}, expected the host's, or that of an AMD, NVIDIA or Vulkan device"
        )));
    }
    opened(vendor == VULKAN.0)
}
