//! Arrays by Python's buffer protocol, such as NumPy's, `memoryview` and `array.array`.

use std::ffi::CStr;

use pyo3::prelude::*;

use crate::device::Place;
use crate::error::ArrayError;
use crate::view::{Buffer, Guard, View, elements, rank};

/// Describes an array by its buffer.
pub fn read(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String, view: &mut View) -> PyResult<Guard> {
    let buffer = Buffer::export(array).map_err(|cause| super::refused(cause, array.py(), name))?;
    let size = i64::try_from(buffer.itemsize).unwrap_or(0);
    let format = if buffer.format.is_null() {
        b"B".as_slice()
    } else {
        // SAFETY: a format ends with a NUL and lives as long as the buffer.
        unsafe { CStr::from_ptr(buffer.format) }.to_bytes()
    };
    let letter = match format {
        [letter] | [b'@' | b'=' | b'<', letter] => *letter,
        _ => 0,
    };
    let data_type = match (letter, size) {
        (b'e', 2) => "half",
        (b'f', 4) => "float",
        (b'd', 8) => "double",
        (b'b', 1) => "int8",
        (b'B', 1) => "uint8",
        (b'?', 1) => "boolean",
        (b'i' | b'l', 4) => "int32",
        (b'l' | b'q' | b'n', 8) => "int64",
        _ => {
            let format = String::from_utf8_lossy(format).into_owned();
            return Err(ArrayError::new_err(format!(
                "{}: elements of format {format:?} with {size} bytes are not known",
                name()
            )));
        }
    };
    let rank = rank(i64::from(buffer.ndim), name)?;
    view.begin(buffer.buf, data_type, rank, Place::Host.device());
    view.read_only = buffer.readonly != 0;
    if rank > 0 {
        if buffer.shape.is_null() || buffer.strides.is_null() {
            return Err(ArrayError::new_err(format!("{}: the buffer has no shape or no strides", name())));
        }
        // SAFETY: a buffer requested with strides has one per dimension.
        let (dims, strides) = unsafe {
            (std::slice::from_raw_parts(buffer.shape, rank), std::slice::from_raw_parts(buffer.strides, rank))
        };
        for (to, dim) in view.dims.iter_mut().zip(dims) {
            *to = *dim as i64;
        }
        for (to, stride) in view.strides.iter_mut().zip(strides) {
            *to = elements(*stride as i64, size, name)?;
        }
    }
    Ok(Guard::Buffer(buffer))
}
