//! Memory for tensors, on the host or on a device.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::os;

use crate::failure::{Failure, Result};

/// Where the memory of an engine's tensors is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// The host's memory.
    Host,
    /// A device's memory, through the HIP runtime or the CUDA driver.
    Device,
}

/// The minimum alignment.
const ALIGNMENT: usize = 256;

/// Host memory, filled with a byte and freed on drop.
pub struct HostMemory {
    start: NonNull<u8>,
    layout: Layout,
    size: usize,
}

impl HostMemory {
    /// Allocates `size` bytes with the alignment.
    pub fn new(size: usize, alignment: usize, fill: u8) -> Result<Self> {
        let alignment = alignment.clamp(ALIGNMENT, 1 << 20).next_power_of_two();
        // At least one byte, so that even an empty tensor has a unique address.
        let layout = Layout::from_size_align(size.max(1), alignment)
            .map_err(|_| Failure::work(format!("{size} bytes are more than memory can have")))?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start)
            .ok_or_else(|| Failure::work(format!("there are no {size} bytes of memory for a tensor")))?;
        // SAFETY: the memory is that large.
        unsafe { start.as_ptr().write_bytes(fill, layout.size()) };
        Ok(Self { start, layout, size })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: all bytes were written when the memory was made.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: all bytes were written when the memory was made, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout and is not used any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Device memory, freed on drop.
pub struct DeviceMemory {
    gpu: Gpu,
    start: *mut c_void,
}

/// Fails if the machine is about to run out of memory, since allocations only fail later, on use.
pub fn require_host_memory(bytes: usize) -> Result<()> {
    match os::memory::available() {
        Some(available) if bytes > available => Err(Failure::work(format!(
            "the tensors need {bytes} bytes of memory, the machine has {available} left"
        ))),
        _ => Ok(()),
    }
}

fn of_gpu(error: PluginError) -> Failure {
    Failure::work(error.message().to_owned())
}

/// The GPU, if there is one.
fn gpu() -> Result<Gpu> {
    Gpu::find().map_err(|refusal| Failure::work(format!("device memory is needed, but {refusal}")))
}

impl DeviceMemory {
    fn new(gpu: Gpu, size: usize) -> Result<Self> {
        Ok(Self { gpu, start: gpu.allocate(size).map_err(of_gpu)? })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the memory is ours and this is its last use.
        unsafe { self.gpu.free(self.start) };
    }
}

/// The memory of a tensor, and its image on the host.
pub struct Memory {
    host: HostMemory,
    device: Option<DeviceMemory>,
    /// The bytes before the tensor.
    offset: usize,
}

impl Memory {
    /// Allocates memory that an engine can access.
    pub fn new(place: Place, size: usize, alignment: usize, fill: u8) -> Result<Self> {
        Self::displaced(place, size, (alignment, 0), fill)
    }

    /// The same, `offset` bytes beyond an address with the alignment.
    pub fn displaced(
        place: Place,
        size: usize,
        (alignment, offset): (usize, usize),
        fill: u8,
    ) -> Result<Self> {
        let size = size.saturating_add(offset);
        let host = HostMemory::new(size, alignment, fill)?;
        let device = match place {
            Place::Host => None,
            Place::Device => Some(DeviceMemory::new(gpu()?, size)?),
        };
        let memory = Self { host, device, offset };
        memory.upload()?;
        Ok(memory)
    }

    /// The bytes, as they are on the host.
    pub fn bytes(&self) -> &[u8] {
        self.host.bytes().get(self.offset..).unwrap_or_default()
    }

    /// The bytes, to be written on the host.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.host.bytes_mut().get_mut(self.offset..).unwrap_or_default()
    }

    /// The address that the engine gets.
    pub fn address(&mut self) -> *mut c_void {
        let start = match &self.device {
            Some(device) => device.start,
            None => self.host.start.as_ptr().cast(),
        };
        start.wrapping_byte_add(self.offset)
    }

    /// Copies the host's bytes to the device.
    pub fn upload(&self) -> Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        // SAFETY: the device's memory is as large.
        unsafe { device.gpu.upload(device.start, self.host.bytes()) }.map_err(of_gpu)
    }

    /// Copies the device's bytes to the host.
    pub fn download(&mut self) -> Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        // SAFETY: the device's memory is as large.
        unsafe { device.gpu.download(self.host.bytes_mut(), device.start) }.map_err(of_gpu)
    }
}

impl Place {
    /// Whether there is a usable device.
    pub fn device_is_there() -> bool {
        gpu().is_ok()
    }

    /// Waits until the executed work is done.
    pub fn wait(self) -> Result<()> {
        if self == Self::Host {
            return Ok(());
        }
        gpu()?.synchronize().map_err(of_gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_is_aligned_and_filled() {
        let mut memory = Memory::new(Place::Host, 10, 4096, 0xab).unwrap();
        assert_eq!(memory.bytes(), [0xab; 10]);
        assert_eq!(memory.address().addr() % 4096, 0);
        let mut displaced = Memory::displaced(Place::Host, 10, (256, 16), 0xab).unwrap();
        assert_eq!(displaced.bytes(), [0xab; 10]);
        assert_eq!(displaced.address().addr() % 256, 16);
        assert!(HostMemory::new(usize::MAX, 1, 0).is_err());
        assert!(HostMemory::new(0, 0, 0).unwrap().bytes().is_empty());
        assert!(require_host_memory(usize::MAX).is_err() && require_host_memory(1).is_ok());
    }
}
