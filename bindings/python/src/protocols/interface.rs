//! Arrays described by a dictionary with their address: `__array_interface__` of NumPy, `__cuda_array_interface__`.

use std::ffi::c_void;

use hipdnn_plugin_sdk::cuda::Cuda;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::device::{Place, Stream};
use crate::dlpack;
use crate::error::{ArrayError, because, ordinary, shown};
use crate::view::{Guard, Numbers, View, elements, rank};

/// The attribute of arrays in host memory.
pub const OF_HOST: &str = "__array_interface__";
/// The attribute of arrays in GPU memory.
pub const OF_CUDA: &str = "__cuda_array_interface__";

/// Describes an array by one of these attributes.
pub fn read(
    array: &Bound<'_, PyAny>,
    attribute: &str,
    name: &dyn Fn() -> String,
    view: &mut View,
) -> PyResult<Guard> {
    let py = array.py();
    let wrong = |what: String| ArrayError::new_err(format!("{}: {attribute} {what}", name()));
    let interface = array.getattr(attribute)?;
    let interface = interface
        .cast::<PyDict>()
        .map_err(|_| wrong(format!("is {}, expected a dictionary", shown(&interface))))?;
    let given = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(interface.get_item(key)?.filter(|value| !value.is_none()))
    };
    let item = |key: &str| given(key)?.ok_or_else(|| wrong(format!("has no {key}")));
    let unlike = |key: &'static str, value: &Bound<'_, PyAny>, expected: &'static str| {
        let value = shown(value);
        move |cause| because(py, cause, |_| wrong(format!("has the {key} {value}, expected {expected}")))
    };
    let numbers = |key, value: &Bound<'_, PyAny>| {
        value.extract::<Numbers>().map(|of| of.0).map_err(unlike(key, value, "a tuple of integers"))
    };
    let data = item("data")?;
    let (address, read_only): (usize, bool) =
        data.extract().map_err(unlike("data", &data, "an address and whether it is read-only"))?;
    let dims = numbers("shape", &item("shape")?)?;
    let typestr = item("typestr")?;
    let typestr = typestr
        .cast::<PyString>()
        .map_err(|_| wrong(format!("has the typestr {}, expected a text", shown(&typestr))))?
        .to_string_lossy()
        .into_owned();
    // For types that the interface cannot name, use the array's own dtype.
    let dtype = array.getattr(intern!(py, "dtype")).and_then(|dtype| dtype.getattr(intern!(py, "name")));
    let dtype = match dtype.and_then(|name| name.extract::<String>()) {
        Ok(dtype) => dtype,
        Err(error) => ordinary(py, error).map(|_| String::new())?,
    };
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
            let of: usize = of.extract().map_err(unlike("stream", &of, "an address"))?;
            if of == 0 {
                return Err(wrong("has the stream 0, expected 1 for the default stream".to_owned()));
            }
            stream = Some(Stream::new(of));
        }
    }
    view.begin(data, data_type, rank, device);
    view.read_only = read_only;
    view.stream = stream;
    view.dims.iter_mut().zip(&dims).for_each(|(to, dim)| *to = *dim);
    view.pack();
    if let Some(strides) = given("strides")? {
        let strides = numbers("strides", &strides)?;
        if strides.len() != rank {
            return Err(wrong(format!("has the strides {strides:?}, expected {rank} numbers")));
        }
        for (to, stride) in view.strides.iter_mut().zip(strides) {
            *to = elements(stride, size, name)?;
        }
    }
    Ok(Guard::object(array))
}

/// The number of the device of an address, which the interface does not tell.
fn device_of(data: *const c_void) -> Result<i32, String> {
    let cuda = Cuda::with_device().map_err(|refusal| format!("says nothing here: {refusal}"))?;
    let found = cuda.device_of(data).or_else(|| {
        // The driver may need a current context to look it up.
        let _entered = Place::Cuda(0).enter(Stream::default()).ok()?;
        cuda.device_of(data)
    });
    found.ok_or_else(|| {
        format!("has the address {data:?}, which the CUDA driver does not know, expected device memory")
    })
}

/// The library's name of a type, and its size in bytes.
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
