//! Device memory of the stand-in for the driver.

use hipdnn_cudnn_plugin::timing::Memory;
use hipdnn_plugin_sdk::cuda::{Cuda, Device};
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::gpu::Gpu;

/// The device, current on this thread.
pub fn entered() -> (Gpu, impl Sized) {
    let device = Device::primary(Cuda::with_device().unwrap(), 0).unwrap();
    (Gpu::Cuda(device), device.enter().unwrap())
}

/// Floats as bytes.
pub fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Device memory for tensors.
pub struct Bound {
    memory: Vec<Memory>,
    sizes: Vec<usize>,
    /// The buffers for an execution.
    pub buffers: Vec<hipdnnPluginDeviceBuffer_t>,
}

impl Bound {
    /// Memory with these bytes, whose reported addresses are shifted by `shift` bytes.
    pub fn new(tensors: &[(i64, Vec<u8>)], shift: usize) -> Self {
        let (gpu, _entered) = entered();
        let of = |(_, bytes): &(i64, Vec<u8>)| {
            let memory = Memory::new(gpu, bytes.len()).unwrap();
            // SAFETY: `Memory::new` has allocated `bytes.len()` bytes.
            unsafe { gpu.upload(memory.pointer(), bytes) }.unwrap();
            memory
        };
        let memory: Vec<Memory> = tensors.iter().map(of).collect();
        let buffer = |((uid, _), memory): (&(i64, Vec<u8>), &Memory)| hipdnnPluginDeviceBuffer_t {
            uid: *uid,
            ptr: memory.pointer().wrapping_byte_add(shift),
        };
        let buffers = tensors.iter().zip(&memory).map(buffer).collect();
        Self { memory, sizes: tensors.iter().map(|(_, bytes)| bytes.len()).collect(), buffers }
    }

    /// The floats of the last tensor, after the device is done.
    pub fn result(&self) -> Vec<f32> {
        let (gpu, _entered) = entered();
        gpu.synchronize().unwrap();
        let mut bytes = vec![0; *self.sizes.last().unwrap()];
        // SAFETY: the memory was allocated for the last tensor, whose size the vector has.
        unsafe { gpu.download(&mut bytes, self.memory.last().unwrap().pointer()) }.unwrap();
        bytes.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
    }
}
