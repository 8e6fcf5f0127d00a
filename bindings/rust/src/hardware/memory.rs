//! GPU memory, for the tensors of plans.

use std::ffi::c_void;
use std::fmt;

use hipdnn_plugin_sdk::gpu;

use crate::error::{Error, Result};

/// A GPU of this process: HIP's, or else CUDA's first, or a Vulkan device. Any thread may use it.
#[derive(Clone, Copy, Debug)]
pub struct Gpu(pub(super) gpu::Gpu);

/// Pinned host memory, which the GPU copies faster than other memory; freed on drop.
pub struct HostMemory {
    gpu: Gpu,
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to this object, and GPU libraries may be called on any thread.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference only gives the address.
unsafe impl Sync for HostMemory {}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes at {:?})", self.bytes, self.start)
    }
}

impl HostMemory {
    /// Allocates uninitialized bytes.
    ///
    /// # Errors
    /// The driver's, if memory is short, and that Vulkan devices have none.
    pub fn new(gpu: Gpu, bytes: usize) -> Result<Self> {
        let start = gpu.0.allocate_host(bytes);
        let start = start
            .map_err(|error| failed(&format!("allocating {bytes} bytes that the GPU reaches"), &error))?;
        Ok(Self { gpu, start, bytes })
    }

    /// The host address of the first byte.
    pub fn as_ptr(&self) -> *mut c_void {
        self.start
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: this GPU allocated the memory, and this is its last use; this crate's copies are done when they return.
        unsafe { self.gpu.0.free_host(self.start) };
    }
}

/// GPU memory, freed on drop.
pub struct DeviceMemory {
    gpu: Gpu,
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to this object, and GPU libraries may be called on any thread.
unsafe impl Send for DeviceMemory {}
// SAFETY: through a shared reference, only the driver copies bytes, and it orders copies itself.
unsafe impl Sync for DeviceMemory {}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMemory({} bytes at {:?})", self.bytes, self.start)
    }
}

pub(super) fn failed(during: &str, error: &dyn fmt::Display) -> Error {
    Error::Device(format!("{during}: {error}"))
}

impl Gpu {
    /// The GPU of HIP or CUDA; [`Gpu::vulkan`] finds a Vulkan device.
    ///
    /// # Errors
    /// What was looked for, if a driver or a device is missing.
    pub fn find() -> Result<Self> {
        gpu::Gpu::find().map(Self).map_err(|error| failed("looking for a GPU", &error))
    }

    /// Copies bytes to GPU memory, and waits.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is GPU memory with room for the bytes, which nothing else uses meanwhile.
    pub unsafe fn upload(&self, to: *mut c_void, from: &[u8]) -> Result<()> {
        // SAFETY: the memory has room for the bytes.
        unsafe { self.0.upload(to, from) }.map_err(|error| failed("copying to the GPU", &error))
    }

    /// Copies bytes from GPU memory, after the work before is done.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `from` is GPU memory with at least as many bytes as `to`.
    pub unsafe fn download(&self, to: &mut [u8], from: *const c_void) -> Result<()> {
        // SAFETY: this function requires that `from` is GPU memory with at least as many bytes as `to`.
        unsafe { self.0.download(to, from) }.map_err(|error| failed("copying from the GPU", &error))
    }

    /// Copies bytes within GPU memory, after the work before. May return before the copy is done.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// Both are GPU memory with as many bytes, which do not overlap.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: both have as many bytes, which do not overlap.
        unsafe { self.0.copy(to, from, bytes) }.map_err(|error| failed("copying on the GPU", &error))
    }

    /// Waits for all of this process's work on the GPU.
    ///
    /// # Errors
    /// The driver's, including errors of the work.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize().map_err(|error| failed("waiting for the GPU", &error))
    }
}

impl DeviceMemory {
    /// Allocates uninitialized bytes.
    ///
    /// # Errors
    /// The driver's, if memory is short.
    pub fn new(gpu: Gpu, bytes: usize) -> Result<Self> {
        let start = gpu.0.allocate(bytes);
        let start = start.map_err(|error| failed(&format!("allocating {bytes} bytes of the GPU"), &error))?;
        Ok(Self { gpu, start, bytes })
    }

    /// The address of the first byte, for a [`VariantPack`](crate::VariantPack), aligned to at least 256 bytes.
    pub fn as_ptr(&self) -> *mut c_void {
        self.start
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies bytes to this offset in the GPU's memory, and waits.
    ///
    /// # Errors
    /// The driver's, or an argument error if the bytes would end beyond the memory.
    pub fn upload(&self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: the memory has as many bytes behind the offset.
        unsafe { self.gpu.upload(to, from) }
    }

    /// Copies bytes from this offset in the GPU's memory, after the work before is done.
    ///
    /// # Errors
    /// The driver's, or an argument error if the bytes would end beyond the memory.
    pub fn download(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let from = self.at(offset, to.len())?;
        // SAFETY: the memory has as many bytes behind the offset.
        unsafe { self.gpu.download(to, from) }
    }

    fn at(&self, offset: usize, count: usize) -> Result<*mut c_void> {
        match offset.checked_add(count) {
            Some(end) if end <= self.bytes => Ok(self.start.wrapping_byte_add(offset)),
            _ => Err(Error::Argument(format!(
                "{count} bytes behind {offset} of device memory, expected to end within its {} bytes",
                self.bytes
            ))),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: this GPU allocated the memory, and this is its last use.
        unsafe { self.gpu.0.free(self.start) };
    }
}
