//! GPU memory for ONNX Runtime: its memory info, an allocator, copies. Tensors may then stay there between nodes, sessions
//! and the application.

mod allocator;
mod pool;
mod transfer;

use std::ffi::{CStr, c_int};
use std::ptr;

use hipdnn::hardware::{self, Gpu};

use crate::failure::{Failure, Result};
use crate::ort::*;

pub use allocator::Allocator;
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

/// The GPU of the process in ONNX Runtime. It lives as long as the factory.
pub struct Side {
    ort: Ort,
    vendor: (u32, &'static CStr),
    /// The memory info of the GPU.
    info: *const OrtMemoryInfo,
    /// The memory info of host memory that it can access.
    host_info: *const OrtMemoryInfo,
}

// SAFETY: the objects behind the pointers are immutable once made.
unsafe impl Send for Side {}
// SAFETY: the objects behind the pointers are immutable once made.
unsafe impl Sync for Side {}

impl Side {
    /// The GPU; none if a driver or a device is missing.
    pub fn find(ort: Ort) -> Result<Option<Self>> {
        let Ok(devices) = hardware::devices() else { return Ok(None) };
        let Some(first) = devices.first() else { return Ok(None) };
        let vendor = if first.architecture.starts_with("sm_") { NVIDIA } else { AMD };
        let named = |name: &CStr, kind: c_int| {
            // SAFETY: the name ends with a NUL and is copied, and `value` passes the address of a local.
            ort.value("naming the memory of a GPU", ptr::null_mut(), |to| unsafe {
                ort.api.CreateMemoryInfo_V2(name.as_ptr(), GPU, vendor.0, 0, kind, 0, DEVICE_ALLOCATOR, to)
            })
        };
        let info = named(c"hipDNN GPU", DEFAULT)?;
        let mut side = Self { ort, vendor, info, host_info: ptr::null() };
        side.host_info = named(c"hipDNN GPU host", HOST_ACCESSIBLE)?;
        Ok(Some(side))
    }

    /// The memory infos of the GPU and of host memory that it can access.
    pub fn infos(&self) -> [*const OrtMemoryInfo; 2] {
        [self.info, self.host_info]
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
        let [own, _] = self.memories();
        own
    }

    /// The memory devices of the GPU and of host memory that it can access.
    pub fn memories(&self) -> [*const OrtMemoryDevice; 2] {
        // SAFETY: the memory infos live as long as this object.
        self.infos().map(|info| unsafe { self.ort.ep.MemoryInfo_GetMemoryDevice(info) })
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
            if !info.is_null() {
                // SAFETY: the factory outlives everything that it made, so this is the last use.
                unsafe { self.ort.api.ReleaseMemoryInfo(info.cast_mut()) };
            }
        }
    }
}

/// The GPU itself, opened on first use of its memory.
fn opened() -> Result<Gpu> {
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
