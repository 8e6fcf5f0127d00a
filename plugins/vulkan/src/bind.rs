//! Finds the memory of a program's tensors: on the device, or on the host.

use std::ffi::c_void;
use std::sync::Arc;

use hipdnn_plugin_sdk::cuda::Cuda;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::hip::{Hip, MemoryKind};
use hipdnn_plugin_sdk::{PluginError, bound, buffer};

use crate::buffer::Buffer;
use crate::gpu::Gpu;
use crate::instance;
use crate::staging::Block;
use crate::work::Recorder;

/// Smaller host arrays are copied rather than imported.
const IMPORTED: u64 = 64 << 10;

/// A tensor that programs bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The tensor.
    pub uid: i64,
    /// Bytes from its first element to its last.
    pub bytes: u64,
    /// Whether kernels read it.
    pub reads: bool,
    /// Whether kernels write it.
    pub writes: bool,
    /// Whether there are bytes between its elements.
    pub has_gaps: bool,
    /// Whether programs may leave it out.
    pub is_optional: bool,
}

/// The memory of a tensor in one execution.
pub enum Bound {
    /// None: an output that the program left out.
    Absent,
    /// On the device, at this address.
    Device(u64),
    /// On the host, where the device uses it directly at this address.
    Imported(u64, Buffer),
    /// On the host, and copied.
    Copied {
        /// The copy; taken when it is given back.
        block: Block,
        /// The host's memory.
        host: *mut u8,
        /// The tensor.
        binding: Binding,
    },
}

impl Binding {
    /// Finds the tensor's memory. What kernels read of host memory is copied now.
    ///
    /// # Errors
    /// When there is none, or too little of it.
    ///
    /// # Safety
    /// The tensor's buffer is valid for its bytes.
    pub unsafe fn bind(
        &self,
        gpu: &Arc<Gpu>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<Bound, PluginError> {
        let pointer = match bound(buffers, self.uid) {
            None if self.is_optional => return Ok(Bound::Absent),
            _ => buffer(buffers, self.uid)?,
        };
        let address = pointer.expose_provenance() as u64;
        if let Some(found) = gpu.memory.find(address) {
            if found.left < self.bytes {
                return Err(PluginError::bad_param(format!(
                    "the buffer of tensor {} is at {pointer:?}, {} bytes before the end of its memory on device {}, expected {}",
                    self.uid,
                    found.left,
                    gpu.device.properties.label(),
                    self.bytes
                )));
            }
            return Ok(Bound::Device(address));
        }
        self.check_host(gpu, pointer)?;
        // SAFETY: no device has the address, so it is the host's, and the buffer is valid for its tensor.
        unsafe { self.bind_host(gpu, pointer.cast()) }
    }

    /// Refuses addresses of devices that the host cannot read.
    fn check_host(&self, gpu: &Gpu, pointer: *mut c_void) -> Result<(), PluginError> {
        let of_cuda = || Cuda::loaded().is_some_and(|cuda| cuda.is_beyond_host(pointer));
        let of_hip =
            || Hip::loaded().is_some_and(|hip| matches!(hip.memory_kind(pointer), Ok(MemoryKind::Device)));
        let other = match instance::other_device(gpu, pointer.addr() as u64) {
            Some(label) => format!("device {label}"),
            None if of_cuda() => "CUDA".to_owned(),
            None if of_hip() => "HIP".to_owned(),
            None => return Ok(()),
        };
        let own = gpu.device.properties.label();
        Err(PluginError::bad_param(format!(
            "the buffer of tensor {} is at {pointer:?} in memory of {other}, expected memory of device {own} or of the host",
            self.uid
        )))
    }

    /// # Safety
    /// The memory is the host's, and valid for the tensor.
    unsafe fn bind_host(&self, gpu: &Arc<Gpu>, host: *mut u8) -> Result<Bound, PluginError> {
        // SAFETY: the memory is the host's, and valid for the tensor.
        if let Some(imported) = unsafe { self.import(gpu, host) } {
            return Ok(imported);
        }
        let block = gpu.block(self.bytes)?;
        if self.reads || self.has_gaps {
            let mapped = block.mapped()?;
            // SAFETY: both have the bytes, and no work uses the block.
            unsafe { mapped.as_ptr().copy_from_nonoverlapping(host, self.bytes as usize) };
        }
        Ok(Bound::Copied { block, host, binding: *self })
    }

    /// Lets the device use host memory directly, if it shares the host's and the driver can.
    ///
    /// # Safety
    /// The memory is the host's, and valid for the tensor.
    unsafe fn import(&self, gpu: &Arc<Gpu>, host: *mut u8) -> Option<Bound> {
        let properties = &gpu.device.properties;
        let alignment =
            properties.host_alignment.filter(|_| properties.shares_memory() && self.bytes >= IMPORTED)?;
        // Whole pages: what else lies in them belongs to the process as well.
        let start = host.addr() as u64 / alignment * alignment;
        let offset = host.addr() as u64 - start;
        let bytes = (offset + self.bytes).next_multiple_of(alignment);
        // SAFETY: the pages of valid memory can be read, and the execution waits for the work.
        let buffer =
            unsafe { Buffer::import(&gpu.device, host.wrapping_sub(offset as usize), bytes) }.ok()?;
        Some(Bound::Imported(buffer.address + offset, buffer))
    }
}

impl Bound {
    /// The tensor's address on the device, if it has memory.
    pub fn address(&self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Device(address) | Self::Imported(address, _) => Some(*address),
            Self::Copied { block, .. } => Some(block.device.address),
        }
    }

    /// Whether the execution must wait for the work.
    pub fn is_of_host(&self) -> bool {
        matches!(self, Self::Imported(..) | Self::Copied { .. })
    }

    /// Records the copy to the device or back, if one is needed.
    pub fn record(&self, recorder: &Recorder<'_>, to_device: bool) {
        let Self::Copied { block, binding, .. } = self else { return };
        let Some(staged) = block.staged() else { return };
        if to_device && (binding.reads || binding.has_gaps) {
            recorder.copy(staged, 0, &block.device, 0, binding.bytes);
        }
        if !to_device && binding.writes {
            recorder.copy(&block.device, 0, staged, 0, binding.bytes);
        }
    }

    /// Copies what kernels wrote to the host.
    ///
    /// # Errors
    /// When the memory cannot be seen.
    ///
    /// # Safety
    /// The work is done, and the host's memory is valid for the tensor.
    pub unsafe fn finish(self, gpu: &Gpu) -> Result<(), PluginError> {
        let Self::Copied { block, host, binding } = self else { return Ok(()) };
        if binding.writes {
            let mapped = block.mapped()?;
            // SAFETY: `block` was made with room for the binding, and this function requires that `host` has the tensor's
            // bytes.
            unsafe { host.copy_from_nonoverlapping(mapped.as_ptr(), binding.bytes as usize) };
        }
        gpu.give_back(block, 0)
    }
}
