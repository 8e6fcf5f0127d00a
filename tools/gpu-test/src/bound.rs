//! A case's tensors in device memory.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;

use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::Tensor;

use crate::Failure;
use crate::backend::Plan;
use crate::case::Case;
use crate::memory::{DeviceMemory, unpack};

impl Case {
    /// Allocates device memory for the tensors, with the inputs' values, and for a workspace.
    ///
    /// # Errors
    /// The device's errors.
    pub fn bind(&self, gpu: Gpu, workspace_size: usize) -> Result<Bound<'_>, Failure> {
        let mut memory = Vec::new();
        for tensor in self.bound() {
            memory.push((tensor, DeviceMemory::with(gpu, &self.bytes(tensor)?)?));
        }
        let has_workspace = !self.without_workspace;
        let workspace = has_workspace.then(|| DeviceMemory::new(gpu, workspace_size)).transpose()?;
        Ok(Bound { memory, workspace })
    }

    /// Runs a plan in memory from `allocate`, which must have the given size at least and live until this returns.
    ///
    /// # Errors
    /// Those of `allocate`, the device's errors, and the engine's message.
    pub fn run_in_memory(
        &self,
        plan: &Plan<'_>,
        gpu: Gpu,
        mut allocate: impl FnMut(usize) -> Result<*mut c_void, Failure>,
    ) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        let mut memory = Vec::new();
        for tensor in self.bound() {
            let bytes = self.bytes(tensor)?;
            let pointer = allocate(bytes.len())?;
            // SAFETY: the memory is new and has the size.
            unsafe { gpu.upload(pointer, &bytes) }?;
            memory.push((tensor, pointer, bytes));
        }
        let workspace = DeviceMemory::new(gpu, plan.workspace_size)?;
        let tensors: Vec<(i64, *mut c_void)> =
            memory.iter().map(|(tensor, pointer, _)| (tensor.uid, *pointer)).collect();
        // SAFETY: every tensor has its bytes and the workspace its size; all live until the device is done.
        unsafe { plan.execute(&tensors, workspace.pointer) }?;
        gpu.synchronize()?;
        let read = |(tensor, pointer, mut bytes): (&Tensor, *mut c_void, Vec<u8>)| {
            // SAFETY: the vector has as many bytes as were allocated at `pointer` for the tensor.
            unsafe { gpu.download(&mut bytes, pointer) }?;
            Ok((tensor.uid, unpack(tensor.data_type, &bytes)?))
        };
        memory.into_iter().map(read).collect()
    }
}

/// Device memory with the tensors of a case.
pub struct Bound<'a> {
    memory: Vec<(&'a Tensor, DeviceMemory)>,
    workspace: Option<DeviceMemory>,
}

impl Bound<'_> {
    /// Puts a plan's work on the stream of its handle.
    ///
    /// # Errors
    /// The engine's own words.
    ///
    /// # Safety
    /// The memory of `self` lives until the work is done.
    pub unsafe fn execute(&self, plan: &Plan<'_>) -> Result<(), Failure> {
        // SAFETY: every tensor has its bytes and the workspace its size, and this lives until the work is done, as this function
        // requires.
        unsafe { plan.execute(&self.tensors(), self.workspace()) }
    }

    /// The tensors and their addresses.
    pub fn tensors(&self) -> Vec<(i64, *mut c_void)> {
        self.memory.iter().map(|(tensor, memory)| (tensor.uid, memory.pointer)).collect()
    }

    /// The address of the workspace; null without one.
    pub fn workspace(&self) -> *mut c_void {
        self.workspace.as_ref().map_or(ptr::null_mut(), |memory| memory.pointer)
    }

    /// Writes the inputs of a case of the same graph, and NaN into results.
    ///
    /// # Errors
    /// The device's.
    pub fn fill(&self, case: &Case) -> Result<(), Failure> {
        self.memory.iter().try_for_each(|(tensor, memory)| memory.fill(&case.bytes(tensor)?))
    }

    /// The content of the tensors after all previous work.
    ///
    /// # Errors
    /// The device's.
    pub fn results(&self) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        let read = |(tensor, memory): &(&Tensor, DeviceMemory)| {
            Ok((tensor.uid, unpack(tensor.data_type, &memory.bytes()?)?))
        };
        self.memory.iter().map(read).collect()
    }
}
