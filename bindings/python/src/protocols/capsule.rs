//! Arrays by `__dlpack__`: a capsule with a DLPack tensor.

use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::device::Place;
use crate::dlpack::{self, Tensor, Versioned};
use crate::error::{ArrayError, because, shown};
use crate::storage;
use crate::streams::{self, Consumer};
use crate::view::{Guard, Taken, View, rank};

/// The method that returns a capsule.
pub const METHOD: &str = "__dlpack__";

/// Names of capsules, before and after a consumer took their content.
const NAME: (&CStr, &CStr) = (c"dltensor", c"used_dltensor");
const NAME_OF_VERSIONED: (&CStr, &CStr) = (c"dltensor_versioned", c"used_dltensor_versioned");

/// Describes an array by its capsule.
pub fn read(
    array: &Bound<'_, PyAny>,
    consumer: &mut Consumer,
    name: &dyn Fn() -> String,
    view: &mut View,
) -> PyResult<Guard> {
    let py = array.py();
    let options = PyDict::new(py);
    let mut producer = None;
    if let Some(device) = device_of(array, name)?
        && let Some(place) = Place::of(device).filter(|place| *place != Place::Host)
    {
        producer = streams::of_array(array, place)?;
        let stream = consumer.settle(py, place, producer)?;
        options.set_item(intern!(py, "stream"), stream.for_dlpack(place))?;
    }
    options.set_item(intern!(py, "max_version"), (1, 0))?;
    let method = intern!(py, "__dlpack__");
    let capsule = match array.call_method(method, (), Some(&options)) {
        // Older producers do not know this argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item(intern!(py, "max_version"))?;
            array.call_method(method, (), Some(&options))
        }
        result => result,
    };
    let capsule = capsule.map_err(|cause| super::refused(cause, py, name))?;
    let wrong = |what: String| ArrayError::new_err(format!("{}: {METHOD} returned {what}", name()));
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| wrong(format!("{}, expected a capsule", shown(&capsule))))?;
    let is_versioned = capsule.is_valid_checked(Some(NAME_OF_VERSIONED.0));
    if !is_versioned && !capsule.is_valid_checked(Some(NAME.0)) {
        return Err(wrong(
            "a capsule that holds no tensor, or one that another library has taken".to_owned(),
        ));
    }
    let (tensor, read_only, (before, used)) = if is_versioned {
        let managed = capsule.pointer_checked(Some(NAME_OF_VERSIONED.0))?.cast::<Versioned>();
        // SAFETY: a capsule of this name has such a tensor, alive as long as the capsule.
        let managed = unsafe { managed.as_ref() };
        if managed.version.major != 1 {
            return Err(wrong(format!("a tensor of DLPack {}, expected 1", managed.version.major)));
        }
        (&managed.tensor, managed.flags & dlpack::READ_ONLY != 0, NAME_OF_VERSIONED)
    } else {
        let tensor = capsule.pointer_checked(Some(NAME.0))?.cast::<Tensor>();
        // SAFETY: a capsule of this name begins with such a tensor, alive as long as the capsule.
        (unsafe { tensor.as_ref() }, false, NAME)
    };
    // The queries below run Python code, which may pass the capsule to others: from here on they find it taken.
    let taken = Taken::new(capsule, before, used)?;
    // SAFETY: the owner filled the tensor, and the capsule keeps it alive.
    unsafe { fill(view, tensor, name) }?;
    view.data = storage::address(array, tensor)?;
    view.read_only = read_only;
    view.stream = producer;
    refuse_negated(array, view, name)?;
    Ok(Guard::Capsule(taken))
}

/// The device of an array, if it tells.
fn device_of(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<Option<dlpack::Device>> {
    let py = array.py();
    let Some(method) = array.getattr_opt(intern!(py, "__dlpack_device__"))? else { return Ok(None) };
    let device = method.call0()?;
    let (kind, id) = device.extract().map_err(|cause| {
        because(py, cause, |_| {
            ArrayError::new_err(format!(
                "{}: __dlpack_device__ returned {}, expected kind and number of a device",
                name(),
                shown(&device)
            ))
        })
    })?;
    Ok(Some(dlpack::Device { kind, id }))
}

/// Reads the view of a tensor.
///
/// # Safety
/// The tensor's arrays have one number per dimension.
pub unsafe fn fill(view: &mut View, tensor: &Tensor, name: &dyn Fn() -> String) -> PyResult<()> {
    let data_type = tensor.dtype.name().ok_or_else(|| {
        let dlpack::DataType { code, bits, lanes } = tensor.dtype;
        ArrayError::new_err(format!(
            "{}: elements of type {code} with {bits} bits × {lanes} are not known",
            name()
        ))
    })?;
    let rank = rank(i64::from(tensor.ndim), name)?;
    let data = tensor.data.wrapping_byte_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
    view.begin(data, data_type, rank, tensor.device);
    if rank > 0 {
        if tensor.shape.is_null() {
            return Err(ArrayError::new_err(format!("{}: the array has no shape", name())));
        }
        // SAFETY: the shape has one number per dimension, as this function requires.
        let dims = unsafe { std::slice::from_raw_parts(tensor.shape, rank) };
        view.dims.iter_mut().zip(dims).for_each(|(to, dim)| *to = *dim);
        if tensor.strides.is_null() {
            view.pack();
        } else {
            // SAFETY: there is one stride per dimension, as this function requires.
            let strides = unsafe { std::slice::from_raw_parts(tensor.strides, rank) };
            view.strides.iter_mut().zip(strides).for_each(|(to, stride)| *to = *stride);
        }
    }
    Ok(())
}

/// Whether an array may be PyTorch's view of the imaginary part of a conjugate, whose elements carry a lazy sign. Such views
/// are parts of complex numbers, so odd strides rule them out.
fn may_negate<'a>(
    dims: impl IntoIterator<Item = &'a i64>,
    strides: impl IntoIterator<Item = &'a i64>,
) -> bool {
    !dims.into_iter().zip(strides).any(|(dim, stride)| *dim != 1 && stride % 2 != 0)
}

/// Refuses such a view, which DLPack does not tell apart.
pub fn refuse_negated(array: &Bound<'_, PyAny>, view: &View, name: &dyn Fn() -> String) -> PyResult<()> {
    if !may_negate(view.dims(), view.strides()) {
        return Ok(());
    }
    match array.getattr_opt(intern!(array.py(), "is_neg"))? {
        Some(is_neg) if is_neg.call0()?.is_truthy()? => Err(ArrayError::new_err(format!(
            "{}: the array is a view that negates its elements, expected one of its own (resolve_neg makes it)",
            name()
        ))),
        _ => Ok(()),
    }
}
