//! The memory of a GPU as ONNX Runtime uses it: what it is called, an allocator, copies. Tensors may then stay there between nodes, sessions
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
/// `OrtDeviceAllocator`.
const DEVICE_ALLOCATOR: c_int = 0;

/// From this version on ONNX Runtime asks the provider of a session which memory it computes in.
pub const SINCE: u32 = 27;

/// A vendor's number on the PCI bus, and its name.
const AMD: (u32, &CStr) = (0x1002, c"AMD");
const NVIDIA: (u32, &CStr) = (0x10de, c"NVIDIA");

/// The GPU of the process as ONNX Runtime knows it. It lives as long as the factory.
pub struct Side {
    ort: Ort,
    vendor: (u32, &'static CStr),
    /// The name of its memory.
    info: *const OrtMemoryInfo,
}

// SAFETY: the objects behind the pointers are not changed once they are made.
unsafe impl Send for Side {}
// SAFETY: the objects behind the pointers are not changed once they are made.
unsafe impl Sync for Side {}

impl Side {
    /// The GPU; none where there is no driver with a device.
    pub fn find(ort: Ort) -> Result<Option<Self>> {
        let Ok(devices) = hardware::devices() else { return Ok(None) };
        let Some(first) = devices.first() else { return Ok(None) };
        let vendor = if first.architecture.starts_with("sm_") { NVIDIA } else { AMD };
        let mut info = ptr::null_mut();
        // SAFETY: the name ends with a NUL and is copied, and the output is valid.
        let status = unsafe {
            let name = c"hipDNN GPU".as_ptr();
            ort.api.CreateMemoryInfo_V2(name, GPU, vendor.0, 0, DEFAULT, 0, DEVICE_ALLOCATOR, &raw mut info)
        };
        ort.check(status, "naming the memory of a GPU")?;
        Ok(Some(Self { ort, vendor, info }))
    }

    /// What its memory is called.
    pub fn info(&self) -> *const OrtMemoryInfo {
        self.info
    }

    /// Where its memory is.
    pub fn memory(&self) -> *const OrtMemoryDevice {
        // SAFETY: the name of the memory lives as long as this object.
        unsafe { self.ort.ep.MemoryInfo_GetMemoryDevice(self.info) }
    }

    /// The device among those of ONNX Runtime.
    ///
    /// # Safety
    /// The devices are alive.
    pub unsafe fn among(&self, devices: &[*const OrtHardwareDevice]) -> Option<*const OrtHardwareDevice> {
        let api = self.ort.api;
        let is_it = |device: &&*const OrtHardwareDevice| {
            // SAFETY: the caller vouches for the device.
            !device.is_null()
                && unsafe {
                    api.HardwareDevice_Type(**device) == GPU
                        && api.HardwareDevice_VendorId(**device) == self.vendor.0
                }
        };
        devices.iter().find(is_it).copied()
    }

    /// The device, where ONNX Runtime does not see it; to be released by whoever calls.
    pub fn hardware(&self) -> Result<*mut OrtHardwareDevice> {
        let (number, name) = self.vendor;
        // SAFETY: the name ends with a NUL and is copied, there is no metadata, and the output is valid.
        self.ort.value("CreateHardwareDevice", ptr::null_mut(), |to| unsafe {
            self.ort.ep.CreateHardwareDevice(GPU, number, 0, name.as_ptr(), ptr::null(), to)
        })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // SAFETY: the factory ends after all that it made, so that this is the last use.
        unsafe { self.ort.api.ReleaseMemoryInfo(self.info.cast_mut()) };
    }
}

/// The GPU itself, opened when memory is wanted for the first time.
fn opened() -> Result<Gpu> {
    Gpu::find().map_err(|error| Failure::ep(format!("hipDNN: {error}")))
}

/// Whether a tensor is in the memory of a GPU.
///
/// # Safety
/// The value is a tensor that is alive.
pub unsafe fn is_on_gpu(ort: Ort, value: *const OrtValue) -> bool {
    // SAFETY: the caller vouches for the value, which its device lives as long as.
    unsafe {
        let device = ort.ep.Value_GetMemoryDevice(value);
        !device.is_null() && ort.ep.MemoryDevice_GetDeviceType(device) == GPU
    }
}
