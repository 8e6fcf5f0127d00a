//! Tensors that an application keeps on the GPU, for sessions that compute elsewhere. ONNX Runtime copies bound tensors only to devices
//! that the provider has memory on.

use std::ffi::c_void;
use std::slice;

use hipdnn::hardware::Gpu;

use super::{gpu_of, is_on_gpu};
use crate::failure::Result;
use crate::memory::Memory;
use crate::ort::*;

/// The host's copies of such tensors during a run.
pub struct Copies {
    ort: Ort,
    inputs: Vec<Memory>,
    outputs: Vec<Written>,
}

/// An output that the run writes on the host.
struct Written {
    gpu: Gpu,
    memory: Memory,
    to: *mut c_void,
    bytes: usize,
}

impl Copies {
    /// None yet.
    pub const fn new(ort: Ort) -> Self {
        Self { ort, inputs: Vec::new(), outputs: Vec::new() }
    }

    /// The address on the host of an input: its own, or that of a copy.
    ///
    /// # Safety
    /// The value is a tensor that is alive, with its elements at `data`.
    pub unsafe fn input(&mut self, value: *const OrtValue, data: *const c_void) -> Result<*const c_void> {
        // SAFETY: the value is alive, as this function requires.
        let Some((gpu, bytes)) = (unsafe { self.on_gpu(value) })? else { return Ok(data) };
        let memory = Memory::new(bytes)?;
        // SAFETY: the tensor has this many bytes on the GPU, and the memory has room for them.
        unsafe { gpu.download(slice::from_raw_parts_mut(memory.as_ptr(), bytes), data) }?;
        let copy = memory.as_ptr().cast_const().cast();
        self.inputs.push(memory);
        Ok(copy)
    }

    /// The address on the host of an output: its own, or that of memory that [`Copies::send`] copies to it.
    ///
    /// # Safety
    /// The value is a tensor with its elements at `data`, alive until [`Copies::send`].
    pub unsafe fn output(&mut self, value: *const OrtValue, data: *mut c_void) -> Result<*mut c_void> {
        // SAFETY: the value is alive, as this function requires.
        let Some((gpu, bytes)) = (unsafe { self.on_gpu(value) })? else { return Ok(data) };
        let memory = Memory::new(bytes)?;
        let copy = memory.as_ptr().cast();
        self.outputs.push(Written { gpu, memory, to: data, bytes });
        Ok(copy)
    }

    /// Copies the outputs to the GPU.
    ///
    /// # Safety
    /// The run has ended, and the values are alive.
    pub unsafe fn send(self) -> Result<()> {
        for Written { gpu, memory, to, bytes } in self.outputs {
            // SAFETY: the memory has this many bytes, and so has the tensor on the GPU, which is alive, as this function requires.
            unsafe { gpu.upload(to, slice::from_raw_parts(memory.as_ptr(), bytes)) }?;
        }
        Ok(())
    }

    /// The GPU of a tensor and its bytes, if it is on one and has any.
    ///
    /// # Safety
    /// The value is a tensor that is alive.
    unsafe fn on_gpu(&self, value: *const OrtValue) -> Result<Option<(Gpu, usize)>> {
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: the value is alive, as this function requires.
        if !unsafe { is_on_gpu(ort, value) } {
            return Ok(None);
        }
        // SAFETY: the value is alive, as this function requires, and `value` passes the address of a local.
        let bytes =
            unsafe { ort.value("the size of a tensor", 0, |bytes| api.GetTensorSizeInBytes(value, bytes)) }?;
        if bytes == 0 {
            return Ok(None);
        }
        // SAFETY: the value is alive, as this function requires.
        let gpu = unsafe { gpu_of(ort, value) }?;
        Ok(Some((gpu, bytes)))
    }
}
