//! Whether an array still has memory.

use std::ffi::c_void;
use std::ptr;

use pyo3::intern;
use pyo3::prelude::*;

use crate::dlpack::Tensor;

/// Offsets into storage, and some memory, are below; most memory is above.
const MOST_OFFSET: usize = 1 << 40;

/// Whether memory can be at an address.
pub fn has_memory(address: usize) -> bool {
    // Linux does not map lower addresses.
    address >= 1 << 16
}

/// The address of a described array; null if PyTorch freed its storage, whose tensors then report their offset from 0.
pub fn address(array: &Bound<'_, PyAny>, tensor: &Tensor) -> PyResult<*mut c_void> {
    let data = tensor.data.wrapping_byte_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
    if data.addr() >= MOST_OFFSET {
        return Ok(data);
    }
    let Some(offset) = array.getattr_opt(intern!(array.py(), "storage_offset"))? else { return Ok(data) };
    let size = (usize::from(tensor.dtype.bits) * usize::from(tensor.dtype.lanes)).div_ceil(8);
    let is_given_up = offset.call0()?.extract::<usize>()?.checked_mul(size) == Some(data.addr());
    Ok(if is_given_up { ptr::null_mut() } else { data })
}
