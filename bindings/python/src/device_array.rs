//! Arrays in GPU memory, for programs without a library that allocates there.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyTuple};

use crate::device::{Place, Stream};
use crate::dlpack::{DataType, Managed, Tensor, VERSION, Versioned};
use crate::error::Failure;
use crate::memory::DeviceMemory;
use crate::streams;
use crate::view::Numbers;

/// An array in GPU memory, which other libraries import by DLPack or ``__cuda_array_interface__``.
#[pyclass(subclass, frozen, module = "hipdnn._native")]
pub struct DeviceArray {
    memory: Arc<DeviceMemory>,
    place: Place,
    dtype: DataType,
    data_type: String,
    dims: Vec<i64>,
    strides: Vec<i64>,
    /// The stream that it was made for, on which work with it is queued.
    stream: Mutex<Stream>,
}

#[pymethods]
impl DeviceArray {
    /// An uninitialized array, with packed strides in elements.
    #[new]
    fn new(
        py: Python<'_>,
        dims: Numbers,
        strides: Numbers,
        data_type: String,
        device: Place,
    ) -> PyResult<Self> {
        let dtype = DataType::of_name(&data_type).ok_or_else(|| {
            PyValueError::new_err(format!("data_type is {data_type:?}, which no array has"))
        })?;
        let (Numbers(dims), Numbers(strides)) = (dims, strides);
        if dims.len() != strides.len() || dims.iter().any(|dim| *dim < 0) {
            return Err(PyValueError::new_err(format!(
                "an array of shape {dims:?} with strides {strides:?}"
            )));
        }
        let count = dims.iter().try_fold(usize::from(dtype.bits / 8), |bytes, dim| {
            bytes.checked_mul(usize::try_from(*dim).ok()?)
        });
        let bytes = count.ok_or_else(|| PyValueError::new_err(format!("an array of shape {dims:?}")))?;
        let stream = streams::of_imported(py, device)?.unwrap_or_default();
        let memory = py.detach(|| {
            let _entered = device.enter(stream)?;
            // SAFETY: the stream is the current one of a library that is imported.
            unsafe { DeviceMemory::new(bytes, device, stream) }
        });
        let memory = Arc::new(memory.map_err(Failure::into_py)?);
        Ok(Self { memory, place: device, dtype, data_type, dims, strides, stream: Mutex::new(stream) })
    }

    /// The number of elements along each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.dims)
    }

    /// The stride in elements of each dimension.
    #[getter]
    fn stride<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.strides)
    }

    /// The type of an element, by the library's name.
    #[getter]
    fn data_type(&self) -> &str {
        &self.data_type
    }

    /// Its device.
    #[getter]
    fn device(&self) -> String {
        self.place.to_string()
    }

    /// The bytes, after all work of the device is done.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.memory.read()).map_err(Failure::into_py)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Fills it with as many bytes, after all work of the device is done.
    fn write(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        if bytes.len() != self.memory.size {
            let (given, size) = (bytes.len(), self.memory.size);
            return Err(PyValueError::new_err(format!("{given} bytes, expected {size}")));
        }
        py.detach(|| self.memory.write(bytes)).map_err(Failure::into_py)
    }

    /// The address of the first byte.
    #[getter]
    fn address(&self) -> usize {
        self.memory.address().expose_provenance()
    }

    /// Kind and number of the device.
    #[pyo3(name = "__dlpack_device__")]
    fn dlpack_device(&self) -> (i32, i32) {
        let device = self.place.device();
        (device.kind, device.id)
    }

    /// Exports the array to another library: ordered after earlier work on its stream.
    #[pyo3(name = "__dlpack__", signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn dlpack<'py>(
        &self,
        py: Python<'py>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if copy == Some(true) || dl_device.is_some_and(|device| device != self.dlpack_device()) {
            return Err(PyBufferError::new_err(format!("an array on {} is lent without a copy", self.place)));
        }
        // -1 requests no synchronization.
        if let Ok(consumer) = usize::try_from(stream.unwrap_or_default()) {
            self.before(py, Stream::new(consumer))?;
        }
        if max_version.is_some_and(|(major, _)| major >= 1) {
            self.capsule(py, c"dltensor_versioned", |tensor, manager| Versioned {
                version: VERSION,
                manager,
                deleter: Some(end_versioned),
                flags: 0,
                tensor,
            })
        } else {
            self.capsule(py, c"dltensor", |tensor, manager| Managed {
                tensor,
                manager,
                deleter: Some(end_managed),
            })
        }
    }

    /// Exports the array by address, for CUDA libraries, after all work of the device is done.
    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let typestr = match (self.dtype.code, self.dtype.bits) {
            (0, bits) => format!("<i{}", bits / 8),
            (1, bits) => format!("<u{}", bits / 8),
            (2, bits) => format!("<f{}", bits / 8),
            (6, 8) => "|b1".to_owned(),
            _ => {
                let name = &self.data_type;
                return Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                    "the interface has no type {name}"
                )));
            }
        };
        let Place::Cuda(_) = self.place else {
            return Err(pyo3::exceptions::PyAttributeError::new_err(format!("an array on {}", self.place)));
        };
        self.finish(py)?;
        let size = i64::from(self.dtype.bits / 8);
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("strides", PyTuple::new(py, self.strides.iter().map(|stride| stride * size))?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (self.memory.address().expose_provenance(), false))?;
        interface.set_item("version", 3)?;
        interface.set_item("stream", py.None())?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        let shape: Vec<_> = self.dims.iter().map(ToString::to_string).collect();
        format!("<DeviceArray {} {} on {}>", shape.join("×"), self.data_type, self.place)
    }
}

impl DeviceArray {
    /// Sets the stream for later work. The previous stream may have been destroyed, so this waits for the whole device.
    fn before(&self, py: Python<'_>, consumer: Stream) -> PyResult<()> {
        let stream = || self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let made = *stream();
        // 2 is a different stream in each thread. The lock is released while waiting, so that other threads can run.
        if made == consumer && consumer != Stream::new(2) {
            return Ok(());
        }
        let is_captured = py.detach(|| {
            let Ok(_entered) = self.place.enter(consumer) else { return false };
            // SAFETY: `stream` of `__dlpack__` names a stream that the consumer will use, which lives during the call.
            unsafe { consumer.is_captured(self.place) }
        });
        if is_captured {
            return Err(PyBufferError::new_err(format!(
                "stream is {consumer}, whose work is being captured, expected the stream {made} that the array was used on: to move to \
                 another one it waits for the device, which would end the capture (use it on the stream before)"
            )));
        }
        self.finish(py)?;
        *stream() = consumer;
        Ok(())
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.memory.finish()).map_err(Failure::into_py)
    }

    /// A capsule with a DLPack structure, which keeps the memory until it is destroyed.
    fn capsule<'py, T>(
        &self,
        py: Python<'py>,
        name: &'static std::ffi::CStr,
        make: impl FnOnce(Tensor, *mut c_void) -> T,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let lent = Box::new(Lent {
            dims: self.dims.clone(),
            strides: self.strides.clone(),
            _memory: Arc::clone(&self.memory),
        });
        let tensor = Tensor {
            data: self.memory.address(),
            device: self.place.device(),
            ndim: i32::try_from(lent.dims.len()).unwrap_or(0),
            dtype: self.dtype,
            shape: lent.dims.as_ptr(),
            strides: lent.strides.as_ptr(),
            byte_offset: 0,
        };
        let made = Box::into_raw(Box::new(make(tensor, Box::into_raw(lent).cast())));
        // SAFETY: the structure lives until a consumer, which renames the capsule, or the capsule itself destroys it.
        unsafe {
            let capsule = ffi::PyCapsule_New(made.cast(), name.as_ptr(), Some(end_capsule));
            Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
        }
    }
}

/// What a DLPack structure points to.
struct Lent {
    dims: Vec<i64>,
    strides: Vec<i64>,
    _memory: Arc<DeviceMemory>,
}

/// # Safety
/// `tensor` was made by this module, and is ended only once.
unsafe extern "C" fn end_versioned(tensor: *mut Versioned) {
    // SAFETY: it was made by `Box::into_raw` in this module, and the consumer calls this once.
    unsafe { drop(Box::from_raw(Box::from_raw(tensor).manager.cast::<Lent>())) };
}

/// # Safety
/// `tensor` was made by this module, and is ended only once.
unsafe extern "C" fn end_managed(tensor: *mut Managed) {
    // SAFETY: it was made by `Box::into_raw` in this module, and the consumer calls this once.
    unsafe { drop(Box::from_raw(Box::from_raw(tensor).manager.cast::<Lent>())) };
}

/// Frees what is still in a capsule; consumers rename the capsules that they take.
///
/// # Safety
/// `capsule` was made by this module; the interpreter calls this when nothing else has it.
unsafe extern "C" fn end_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule was made here, and its names are those of the structures.
    unsafe {
        for name in [c"dltensor_versioned", c"dltensor"] {
            if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 0 {
                continue;
            }
            let Some(tensor) = NonNull::new(ffi::PyCapsule_GetPointer(capsule, name.as_ptr())) else {
                return;
            };
            if name == c"dltensor" {
                end_managed(tensor.as_ptr().cast());
            } else {
                end_versioned(tensor.as_ptr().cast());
            }
            return;
        }
    }
}
