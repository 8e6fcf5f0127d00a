//! Arrays that are described by a dictionary with their address: `__array_interface__` of NumPy, `__cuda_array_interface__`.

use std::ffi::c_void;

use hipdnn_plugin_sdk::cuda::Cuda;
use pyo3::exceptions::PyBufferError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{Guard, View, elements, packed, rank};
use crate::device::{Place, Stream};
use crate::{ArrayError, dlpack};

/// The attribute of arrays in memory of the host.
pub const OF_HOST: &str = "__array_interface__";
/// The attribute of arrays in memory of a GPU.
pub const OF_CUDA: &str = "__cuda_array_interface__";

/// By a dictionary with the address: one of the attributes above.
pub fn view(array: &Bound<'_, PyAny>, attribute: &str, name: &dyn Fn() -> String) -> PyResult<(View, Guard)> {
    let py = array.py();
    let interface = array.getattr(attribute)?.cast_into::<PyDict>().map_err(PyErr::from)?;
    let wrong = |what: String| ArrayError::new_err(format!("{}: {attribute} {what}", name()));
    let item = |key: &str| -> PyResult<Bound<'_, PyAny>> {
        interface.get_item(key)?.ok_or_else(|| wrong(format!("has no {key}")))
    };
    let given = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(interface.get_item(key)?.filter(|value| !value.is_none()))
    };
    let (address, read_only): (usize, bool) = item("data")?.extract()?;
    let dims: Vec<i64> = item("shape")?.extract()?;
    let typestr: String = item("typestr")?.extract()?;
    // Types that the interface has no name for have one in the array's own words.
    let dtype = array.getattr(intern!(py, "dtype")).and_then(|dtype| dtype.getattr(intern!(py, "name")));
    let dtype: String = dtype.and_then(|name| name.extract()).unwrap_or_default();
    let (data_type, size) = element(&typestr, &dtype).ok_or_else(|| {
        ArrayError::new_err(format!("{}: elements of type {typestr} ({dtype}) are not known", name()))
    })?;
    if given("mask")?.is_some() {
        return Err(wrong("has a mask, expected an array without".to_owned()));
    }
    if let Some(dim) = dims.iter().find(|dim| **dim < 0) {
        return Err(wrong(format!("has the shape {dims:?}, expected no {dim}")));
    }
    let rank = rank(i64::try_from(dims.len()).unwrap_or(i64::MAX), name)?;
    let data = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let (mut device, mut stream) = (dlpack::Device { kind: dlpack::CPU, id: 0 }, None);
    if attribute == OF_CUDA {
        let number = if dims.contains(&0) { 0 } else { device_of(data).map_err(wrong)? };
        device = dlpack::Device { kind: dlpack::CUDA, id: number };
        if let Some(of) = given("stream")? {
            let of: usize = of.extract()?;
            if of == 0 {
                return Err(wrong("has the stream 0, expected 1 for the default stream".to_owned()));
            }
            stream = Some(Stream::new(of));
        }
    }
    let mut view = View::new(data, data_type, rank, device);
    view.read_only = read_only;
    view.stream = stream;
    view.dims.iter_mut().zip(&dims).for_each(|(to, dim)| *to = *dim);
    packed(&mut view);
    if let Some(strides) = given("strides")? {
        let strides: Vec<i64> = strides.cast_into::<PyTuple>().map_err(PyErr::from)?.extract()?;
        if strides.len() != rank {
            return Err(PyBufferError::new_err(format!(
                "{}: as many strides as dimensions were expected",
                name()
            )));
        }
        for (to, stride) in view.strides.iter_mut().zip(strides) {
            *to = elements(stride, size, name)?;
        }
    }
    Ok((view, Guard::object(array)))
}

/// The number of the device that has an address, which the interface does not say.
fn device_of(data: *const c_void) -> Result<i32, String> {
    let cuda = Cuda::with_device().map_err(|refusal| format!("says nothing here: {refusal}"))?;
    let found = cuda.device_of(data).or_else(|| {
        // Where the thread has no context the driver may not look.
        let _entered = Place::Cuda(0).enter(Stream::default()).ok()?;
        cuda.device_of(data)
    });
    found.ok_or_else(|| {
        format!("has the address {data:?}, which the CUDA driver does not know, expected device memory")
    })
}

/// The library's name of a type and its bytes.
fn element(typestr: &str, dtype: &str) -> Option<(&'static str, i64)> {
    Some(match (typestr.trim_start_matches(['<', '|', '=']), dtype) {
        (_, "bfloat16") => ("bfloat16", 2),
        (_, "float8_e4m3fn") => ("fp8_e4m3", 1),
        (_, "float8_e5m2") => ("fp8_e5m2", 1),
        (_, "float8_e4m3fnuz") => ("fp8_e4m3_fnuz", 1),
        (_, "float8_e5m2fnuz") => ("fp8_e5m2_fnuz", 1),
        (_, "float8_e8m0fnu") => ("fp8_e8m0", 1),
        ("f2", _) => ("half", 2),
        ("f4", _) => ("float", 4),
        ("f8", _) => ("double", 8),
        ("i1", _) => ("int8", 1),
        ("u1", _) => ("uint8", 1),
        ("b1", _) => ("boolean", 1),
        ("i4", _) => ("int32", 4),
        ("i8", _) => ("int64", 8),
        _ => return None,
    })
}
