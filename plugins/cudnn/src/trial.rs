//! Times cuDNN plans in temporary memory.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::gpu::Gpu;

use crate::descriptor::uid;
use crate::lowering::{Described, Place, Tensor};
use crate::names::{
    DATA_BFLOAT16, DATA_BOOLEAN, DATA_DOUBLE, DATA_FP8_E4M3, DATA_FP8_E5M2, DATA_FP8_E8M0, DATA_HALF,
    DATA_INT8, DATA_INT64, DATA_UINT8,
};
use crate::timing::{Memory, by_time};

/// The plans of a graph that run, fastest first; in the given order if there is not enough memory to run
/// them. `workspace_size` returns the bytes of device memory that a plan needs, and `run` queues it with
/// uids, pointers and that memory.
///
/// # Errors
/// When none of them runs.
pub fn fastest_first<P>(
    gpu: Gpu,
    described: &Described,
    plans: Vec<P>,
    workspace_size: impl Fn(&P) -> usize,
    run: impl Fn(&P, &[i64], &[*mut c_void], *mut c_void) -> Result<(), PluginError>,
) -> Result<Vec<P>, PluginError> {
    let most = plans.iter().map(workspace_size).max().unwrap_or(0);
    let (Ok(memory), Ok(workspace)) = (Tensors::new(gpu, described), Memory::new(gpu, most)) else {
        return Ok(plans);
    };
    let run = |plan: &P| run(plan, &memory.uids, &memory.pointers, workspace.pointer());
    let sorted = by_time(gpu, plans, run);
    if sorted.is_empty() {
        return Err(PluginError::internal("none of the plans that cuDNN made for the graph runs"));
    }
    Ok(sorted)
}

/// Memory for each tensor of a graph that is not virtual.
struct Tensors {
    uids: Vec<i64>,
    pointers: Vec<*mut c_void>,
    _on_device: Vec<Memory>,
    _on_host: Vec<u64>,
}

impl Tensors {
    fn new(gpu: Gpu, described: &Described) -> Result<Self, PluginError> {
        let (mut uids, mut pointers) = (Vec::new(), Vec::new());
        let number = |tensor: &Tensor| match tensor.place {
            Place::Constant(bytes) => u64::from_ne_bytes(bytes),
            _ => 0,
        };
        let on_host: Vec<u64> = described.tensors.iter().map(number).collect();
        let mut on_device = Vec::new();
        let scratch = Memory::new(gpu, described.scratch)?;
        for ((place, tensor), number) in described.tensors.iter().enumerate().zip(&on_host) {
            pointers.push(match tensor.place {
                Place::Virtual => continue,
                Place::Scratch(offset) => scratch.pointer().wrapping_byte_add(offset),
                Place::Constant(_) | Place::Host(_) => std::ptr::from_ref(number).cast_mut().cast(),
                Place::Given(_) => {
                    // All zeros, because kernels follow lengths and offsets, and NaNs would distort times.
                    let memory = Memory::zeros(gpu, extent(tensor))?;
                    let pointer = memory.pointer();
                    on_device.push(memory);
                    pointer
                }
            });
            uids.push(uid(place));
        }
        on_device.push(scratch);
        Ok(Self { uids, pointers, _on_device: on_device, _on_host: on_host })
    }
}

/// The bytes from the first element to the end of the last.
fn extent(tensor: &Tensor) -> usize {
    let ends = tensor.shape.dims.iter().zip(&tensor.shape.strides);
    let last: i64 = ends.map(|(dim, stride)| (dim - 1).saturating_mul(*stride)).fold(0, i64::saturating_add);
    usize::try_from(last.saturating_add(1)).unwrap_or(usize::MAX).saturating_mul(size(tensor.data_type))
}

fn size(data_type: c_int) -> usize {
    match data_type {
        DATA_DOUBLE | DATA_INT64 => 8,
        DATA_HALF | DATA_BFLOAT16 => 2,
        DATA_INT8 | DATA_UINT8 | DATA_BOOLEAN | DATA_FP8_E4M3 | DATA_FP8_E5M2 | DATA_FP8_E8M0 => 1,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::shape::Shape;
    use crate::names::DATA_FLOAT;

    #[test]
    fn an_extent_has_the_gaps_between_rows() {
        let tensor = |data_type, dims: &[i64], strides: &[i64]| Tensor {
            data_type,
            shape: Shape { dims: dims.to_vec(), strides: strides.to_vec() },
            alignment: 16,
            place: Place::Given(0),
            offsets: None,
        };
        assert_eq!(extent(&tensor(DATA_FLOAT, &[2, 3, 4], &[100, 10, 1])), 4 * (100 + 20 + 3 + 1));
        assert_eq!(extent(&tensor(DATA_HALF, &[1], &[1])), 2);
        assert_eq!(extent(&tensor(DATA_BOOLEAN, &[i64::MAX, 2], &[i64::MAX, 1])), i64::MAX as usize);
    }
}
