//! Memory for tensors, on the host or on a device.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::OnceLock;

use hipdnn::hardware::{DeviceMemory, Gpu};
use hipdnn::{EngineInfo, Handle};
use hipdnn_plugin_sdk::engine_kind::EngineDevice;
use hipdnn_plugin_sdk::os;

use crate::failure::{Failure, Result};

/// Where the memory of an engine's tensors is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(clap::ValueEnum))]
pub enum Place {
    /// The host's memory.
    Host,
    /// A device's memory, through the HIP runtime, the CUDA driver, or the plugin for Vulkan devices.
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

/// Fails if the machine is about to run out of memory, since allocations only fail later, on use.
pub fn require_host_memory(bytes: usize) -> Result<()> {
    match os::memory::available() {
        Some(available) if bytes > available => Err(Failure::work(format!(
            "the tensors need {bytes} bytes of memory, the machine has {available} left"
        ))),
        _ => Ok(()),
    }
}

/// A Vulkan device, as `--device` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vulkan(i32);

impl FromStr for Vulkan {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = match text.split_once(':') {
            None if text == "vulkan" => Some(0),
            Some(("vulkan", digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().ok()
            }
            _ => None,
        };
        number
            .map(Self)
            .ok_or_else(|| "expected a device such as vulkan:0, one that `hipdnn device` lists".to_owned())
    }
}

impl fmt::Display for Vulkan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vulkan:{}", self.0)
    }
}

/// The device of `--device`.
static CHOSEN: OnceLock<Gpu> = OnceLock::new();

impl Vulkan {
    /// Makes this the device of the process: plans of handles that have none yet are made for it, and tensors are in its memory.
    pub fn choose(self, handle: &Handle) -> Result<()> {
        let gpu = Gpu::vulkan(handle, self.0)
            .map_err(|error| Failure::from(error).during(format!("--device {self}")))?;
        CHOSEN.get_or_init(|| gpu);
        Ok(())
    }
}

/// The device, if there is one.
fn gpu() -> Result<Gpu> {
    match CHOSEN.get() {
        Some(gpu) => Ok(*gpu),
        None => Gpu::find().map_err(|error| Failure::work(format!("device memory is needed, but {error}"))),
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
            Some(device) => device.as_ptr(),
            None => self.host.start.as_ptr().cast(),
        };
        start.wrapping_byte_add(self.offset)
    }

    /// Copies the host's bytes to the device.
    pub fn upload(&self) -> Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        Ok(device.upload(0, self.host.bytes())?)
    }

    /// Copies the device's bytes to the host.
    pub fn download(&mut self) -> Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        Ok(device.download(0, self.host.bytes_mut())?)
    }
}

impl Place {
    /// Where the tensors of an engine are by default: in memory of its device if there is one. Vulkan's are there if `--device` has
    /// chosen one.
    pub fn of(engine: &EngineInfo) -> Self {
        let has_device = match engine.of.device {
            EngineDevice::Host => false,
            EngineDevice::Vulkan => CHOSEN.get().is_some(),
            _ => CHOSEN.get().is_none() && gpu().is_ok(),
        };
        if has_device { Self::Device } else { Self::Host }
    }

    /// Waits until the executed work is done.
    pub fn wait(self) -> Result<()> {
        if self == Self::Host {
            return Ok(());
        }
        Ok(gpu()?.synchronize()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vulkan_devices_have_names() {
        assert_eq!("vulkan".parse(), Ok(Vulkan(0)));
        assert_eq!("vulkan:12".parse::<Vulkan>().unwrap().to_string(), "vulkan:12");
        for wrong in ["", "vulkan:", "vulkan:-1", "vulkan:x", "cuda:0", "vulkan:99999999999"] {
            assert!(wrong.parse::<Vulkan>().unwrap_err().contains("vulkan:0"), "{wrong}");
        }
    }

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
