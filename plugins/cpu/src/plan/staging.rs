//! Executions with tensors in device memory, if asked for: they are copied to the host, computed there, and the results copied back.
//!
//! This is slow, and waits for the device twice; it is there so that a graph that no engine of the device takes runs at all.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::{Graph, Tensor};
use hipdnn_plugin_sdk::{PluginError, log};

use crate::kernel::Refusal;
use crate::layout::{Layout, storage_size};
use crate::memory;
use crate::plan::own_memory::OwnMemory;
use crate::plan::steps::Plan;

/// The variable that asks for it: 1, or anything but 0.
pub(crate) const VARIABLE: &str = "HIPDNN_CPU_FALLBACK";

/// Alignment in bytes of the copies.
const ALIGNMENT: usize = 64;

/// Whether plans that are made now may copy tensors.
pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// What a plan needs for copies.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) memory: OwnMemory,
    is_told: AtomicBool,
}

impl Copies {
    /// Warns, once for a plan, that its executions copy.
    pub(crate) fn tell(&self, graph: &str) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            log::warn(format!(
                "graph {graph:?} has tensors in device memory: the CPU copies them and waits for the device, as {VARIABLE} asks"
            ));
        }
    }
}

/// A tensor in device memory, and the place of its copy.
struct Staged {
    uid: i64,
    gpu: Gpu,
    device: *mut c_void,
    offset: usize,
    size: usize,
    is_written: bool,
}

/// Runs a plan of `graph` with copies of those tensors that lie in device memory, and with memory of its own as workspace.
///
/// # Errors
/// A tensor that cannot be copied, those of the device's library and those of the plan.
///
/// # Safety
/// As for [`Plan::execute`], in device memory as well, and for [`memory::device_of`].
pub(crate) unsafe fn execute(
    graph: &Graph,
    plan: &Plan,
    own: &OwnMemory,
    stream: hipStream_t,
    buffers: &[hipdnnPluginDeviceBuffer_t],
) -> Result<(), PluginError> {
    let mut staged = Vec::new();
    let mut total = 0_usize;
    for buffer in buffers.iter().filter(|buffer| plan.bindable().contains(&buffer.uid)) {
        // SAFETY: the caller promises the stream.
        let Some(gpu) = (unsafe { memory::device_of(buffer.ptr, stream) })? else { continue };
        let Some(tensor) = graph.tensor(buffer.uid) else { continue };
        let size = size_of_tensor(tensor).map_err(PluginError::invalid_value)?;
        let is_written = graph.nodes.iter().any(|node| node.operation.outputs().contains(&buffer.uid));
        staged.push(Staged { uid: buffer.uid, gpu, device: buffer.ptr, offset: total, size, is_written });
        let next = total.checked_add(size).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        total = next.ok_or_else(|| no_memory(usize::MAX))?;
    }
    let taken = own.take(total).ok_or_else(|| no_memory(total))?;
    let copies = taken.memory();
    let mut bound = buffers.to_vec();
    for staged in &staged {
        // The work that fills a tensor may be on any stream.
        staged.gpu.synchronize()?;
        let copy = copies.wrapping_add(staged.offset);
        // SAFETY: the copy has the size, in a buffer of this execution alone that was zeros once; the caller promises as many bytes of
        // device memory.
        unsafe { staged.gpu.download(std::slice::from_raw_parts_mut(copy, staged.size), staged.device) }?;
        for buffer in bound.iter_mut().filter(|buffer| buffer.uid == staged.uid) {
            buffer.ptr = copy.cast();
        }
    }
    // SAFETY: the caller promises the tensors that are not copied, and the copies have the size of theirs.
    unsafe { plan.execute(&bound, null_mut()) }?;
    for staged in staged.iter().filter(|staged| staged.is_written) {
        let copy = copies.wrapping_add(staged.offset);
        // SAFETY: as above; nothing writes the copy any more.
        unsafe { staged.gpu.upload(staged.device, std::slice::from_raw_parts(copy, staged.size)) }?;
    }
    Ok(())
}

fn no_memory(size: usize) -> PluginError {
    PluginError::alloc_failed(format!(
        "there is no memory for {size} bytes of copies of tensors in device memory"
    ))
}

/// Bytes from a tensor's first element to its last.
fn size_of_tensor(tensor: &Tensor) -> Result<usize, Refusal> {
    if tensor.ragged_offset_uid.is_some() {
        return Err(format!(
            "tensor {} is ragged and in device memory, of which {VARIABLE} does not know the size; expected host memory",
            tensor.uid
        ));
    }
    storage_size(tensor.data_type, Layout::of(tensor)?.extent())
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::DataType;

    use super::*;

    #[test]
    fn sizes_reach_to_the_last_element_and_ragged_tensors_have_none() {
        let mut tensor = Tensor::new(1, DataType::Half, &[2, 3], &[8, 2]);
        assert_eq!(size_of_tensor(&tensor), Ok(2 * (8 + 4 + 1)));
        tensor.ragged_offset_uid = Some(2);
        assert!(size_of_tensor(&tensor).unwrap_err().contains("tensor 1 is ragged"));
    }
}
