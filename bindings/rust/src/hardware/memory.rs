//! Memory of a GPU, for the tensors of plans whose engines compute there.

use std::ffi::c_void;
use std::fmt;

use hipdnn_plugin_sdk::gpu;

use crate::error::{Error, Result};

/// The GPU of this process: the one that HIP finds, or else the first one of CUDA's. It may be used by any thread.
#[derive(Clone, Copy, Debug)]
pub struct Gpu(pub(super) gpu::Gpu);

/// Bytes of the host's memory that a GPU reaches, which are copied faster than others; freed with this object.
pub struct HostMemory {
    gpu: Gpu,
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to this object alone, and HIP and CUDA take calls from any thread.
unsafe impl Send for HostMemory {}
// SAFETY: through a shared reference only the address is had.
unsafe impl Sync for HostMemory {}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes at {:?})", self.bytes, self.start)
    }
}

impl HostMemory {
    /// So many bytes, whose values are not known.
    ///
    /// # Errors
    /// The driver's, where there are not as many.
    pub fn new(gpu: Gpu, bytes: usize) -> Result<Self> {
        let start = gpu.0.allocate_host(bytes);
        let start = start
            .map_err(|error| failed(&format!("allocating {bytes} bytes that the GPU reaches"), &error))?;
        Ok(Self { gpu, start, bytes })
    }

    /// The address of the first byte, on the host.
    pub fn as_ptr(&self) -> *mut c_void {
        self.start
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the memory is that of this GPU, and this is its last use; copies of this crate are done when they return.
        unsafe { self.gpu.0.free_host(self.start) };
    }
}

/// Bytes of a GPU's memory, freed with this object.
pub struct DeviceMemory {
    gpu: Gpu,
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to this object alone, and HIP and CUDA take calls from any thread.
unsafe impl Send for DeviceMemory {}
// SAFETY: through a shared reference bytes are copied by the driver, which orders copies itself.
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
    /// The GPU.
    ///
    /// # Errors
    /// What was looked for, where a driver or a device is missing.
    pub fn find() -> Result<Self> {
        gpu::Gpu::find().map(Self).map_err(|error| failed("looking for a GPU", &error))
    }

    /// Copies bytes to the GPU's memory, and waits.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is memory of the GPU with room for the bytes.
    pub unsafe fn upload(&self, to: *mut c_void, from: &[u8]) -> Result<()> {
        // SAFETY: the memory has room for the bytes.
        unsafe { self.0.upload(to, from) }.map_err(|error| failed("copying to the GPU", &error))
    }

    /// Copies bytes from the GPU's memory, once the work before is done.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `from` is memory of the GPU with as many bytes.
    pub unsafe fn download(&self, to: &mut [u8], from: *const c_void) -> Result<()> {
        // SAFETY: the memory has as many bytes.
        unsafe { self.0.download(to, from) }.map_err(|error| failed("copying from the GPU", &error))
    }

    /// Copies bytes inside of the GPU's memory, behind the work before. It need not be done when this returns.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// Both are memory of the GPU with as many bytes, which do not overlap.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: both have as many bytes, which do not overlap.
        unsafe { self.0.copy(to, from, bytes) }.map_err(|error| failed("copying on the GPU", &error))
    }

    /// Waits until the GPU has done all work of this process.
    ///
    /// # Errors
    /// The driver's, those of the work among them.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize().map_err(|error| failed("waiting for the GPU", &error))
    }
}

impl DeviceMemory {
    /// So many bytes, whose values are not known.
    ///
    /// # Errors
    /// The driver's, where there are not as many.
    pub fn new(gpu: Gpu, bytes: usize) -> Result<Self> {
        let start = gpu.0.allocate(bytes);
        let start = start.map_err(|error| failed(&format!("allocating {bytes} bytes of the GPU"), &error))?;
        Ok(Self { gpu, start, bytes })
    }

    /// The address of the first byte, for a [`VariantPack`](crate::VariantPack). It is at least 256 bytes aligned.
    pub fn as_ptr(&self) -> *mut c_void {
        self.start
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies bytes to the GPU, behind so many of the memory's, and waits.
    ///
    /// # Errors
    /// The driver's, and an argument error where the bytes would end behind the memory.
    pub fn upload(&self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: the memory has as many bytes behind the offset.
        unsafe { self.gpu.upload(to, from) }
    }

    /// Copies bytes from the GPU, from behind so many of the memory's, once the work before is done.
    ///
    /// # Errors
    /// The driver's, and an argument error where the bytes would end behind the memory.
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
        // SAFETY: the memory is that of this GPU, and this is its last use.
        unsafe { self.gpu.0.free(self.start) };
    }
}
