//! Executions on device memory, if enabled: copies operands to the host, computes, and copies results back.
//!
//! This is slow and waits for the device twice, but runs graphs that no engine of the device supports.

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
use crate::plan::steps::Plan;

/// The environment variable that enables it: set and not 0.
pub(crate) const VARIABLE: &str = "HIPDNN_CPU_FALLBACK";

/// Alignment in bytes of the copies.
const ALIGNMENT: usize = 64;

/// Whether new plans may copy tensors.
pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// State of a plan that may copy: whether it has warned.
#[derive(Default)]
pub(crate) struct Copies(AtomicBool);

impl Copies {
    /// Warns once per plan that its executions copy.
    pub(crate) fn tell(&self, graph: &str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            log::warn(format!(
                "graph {graph:?} has tensors in device memory: the CPU copies them and waits for the device, as {VARIABLE} asks"
            ));
        }
    }
}

/// Device memory to copy: one tensor, or several that overlap, like channels of one image.
struct Region {
    gpu: Gpu,
    first: *mut c_void,
    size: usize,
    is_written: bool,
    /// The offset of the copy.
    offset: usize,
}

impl Region {
    fn end(&self) -> usize {
        self.first.addr().saturating_add(self.size)
    }

    /// Merges a region if it begins in this one.
    fn merge(&mut self, other: &Self) -> bool {
        let meets = other.first.addr() < self.end();
        if meets {
            self.size = self.end().max(other.end()) - self.first.addr();
            self.is_written |= other.is_written;
        }
        meets
    }
}

/// Runs a plan of `graph`, whose types are resolved, with host copies of tensors in device memory and the
/// plan's own workspace.
///
/// # Errors
/// If a tensor cannot be copied; errors of the device's library and of the plan.
///
/// # Safety
/// As for [`Plan::execute`], also for device memory, and for [`memory::device_of`].
pub(crate) unsafe fn execute(
    graph: &Graph,
    plan: &Plan,
    stream: hipStream_t,
    buffers: &[hipdnnPluginDeviceBuffer_t],
) -> Result<(), PluginError> {
    // SAFETY: this function requires a stream that `memory::device_of` accepts.
    let mut regions = unsafe { regions(graph, plan, stream, buffers) }?;
    let mut total = 0_usize;
    for region in &mut regions {
        region.offset = total;
        let next = total.checked_add(region.size).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        total = next.ok_or_else(|| no_memory(usize::MAX))?;
    }
    let mut copies = Vec::new();
    copies.try_reserve_exact(total).map_err(|_| no_memory(total))?;
    copies.resize(total, 0_u8);
    for region in &regions {
        // The work that fills a tensor may be queued on any stream.
        region.gpu.synchronize()?;
        let copy = copies.get_mut(region.offset..region.offset + region.size).unwrap_or_default();
        // SAFETY: the region covers the tensor, which has as many bytes of device memory.
        unsafe { region.gpu.download(copy, region.first) }?;
    }
    let first = copies.as_mut_ptr();
    let mut bound = buffers.to_vec();
    for buffer in bound.iter_mut().filter(|buffer| plan.bindable().contains(&buffer.uid)) {
        let address = buffer.ptr.addr();
        let region = regions.iter().find(|region| (region.first.addr()..region.end()).contains(&address));
        if let Some(region) = region {
            buffer.ptr = first.wrapping_add(region.offset + (address - region.first.addr())).cast();
        }
    }
    // SAFETY: tensors that are not copied are valid host memory, and copies are as large as their regions.
    unsafe { plan.execute(&bound, null_mut()) }?;
    for region in regions.iter().filter(|region| region.is_written) {
        let copy = copies.get(region.offset..region.offset + region.size).unwrap_or_default();
        // SAFETY: the region covers the tensor, which has as many bytes of device memory.
        unsafe { region.gpu.upload(region.first, copy) }?;
    }
    Ok(())
}

/// The device memory of bound tensors; regions of one device do not overlap.
///
/// # Safety
/// As for [`memory::device_of`].
unsafe fn regions(
    graph: &Graph,
    plan: &Plan,
    stream: hipStream_t,
    buffers: &[hipdnnPluginDeviceBuffer_t],
) -> Result<Vec<Region>, PluginError> {
    let mut found = Vec::new();
    for buffer in buffers.iter().filter(|buffer| plan.bindable().contains(&buffer.uid)) {
        // SAFETY: this function requires a stream that `memory::device_of` accepts.
        let Some(gpu) = (unsafe { memory::device_of(buffer.ptr, stream) })? else { continue };
        let Some(tensor) = graph.tensor(buffer.uid) else { continue };
        let size = size_of_tensor(tensor).map_err(PluginError::invalid_value)?;
        let is_written = graph.nodes.iter().any(|node| node.operation.outputs().contains(&buffer.uid));
        found.push(Region { gpu, first: buffer.ptr, size, is_written, offset: 0 });
    }
    Ok(merged(found))
}

fn merged(mut regions: Vec<Region>) -> Vec<Region> {
    regions.sort_by_key(|region| region.first.addr());
    let mut merged: Vec<Region> = Vec::with_capacity(regions.len());
    for region in regions {
        // Addresses are unique across devices.
        if !merged.last_mut().is_some_and(|last| last.merge(&region)) {
            merged.push(region);
        }
    }
    merged
}

fn no_memory(size: usize) -> PluginError {
    PluginError::alloc_failed(format!(
        "there is no memory for {size} bytes of copies of tensors in device memory"
    ))
}

/// Bytes that a tensor spans in memory.
fn size_of_tensor(tensor: &Tensor) -> Result<usize, Refusal> {
    if tensor.ragged_offset_uid.is_some() {
        return Err(format!(
            "tensor {} is ragged and in device memory, whose size {VARIABLE} cannot determine; expected host memory",
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
    fn sizes_end_with_the_last_element_and_ragged_tensors_are_refused() {
        let mut tensor = Tensor::new(1, DataType::Half, &[2, 3], &[8, 2]);
        assert_eq!(size_of_tensor(&tensor), Ok(2 * (8 + 4 + 1)));
        tensor.ragged_offset_uid = Some(2);
        assert!(size_of_tensor(&tensor).unwrap_err().contains("tensor 1 is ragged"));
    }
}
