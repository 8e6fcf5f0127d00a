//! Describes arrays of any kind without copies, trying one protocol after the other.

mod buffer;
mod capsule;
mod exchange;
mod interface;
mod kind;

pub use kind::Kind;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::{ArrayError, because, ordinary, shown};
use crate::streams::Consumer;
use crate::view::{Buffer, Guard, View};

/// Describes the arrays of an execution, one after the other.
#[derive(Default)]
pub struct Reader {
    /// The view of the last array.
    pub view: View,
    pub consumer: Consumer,
    /// The last array's type by address, and what is known of it.
    last: Option<(usize, Kind)>,
}

impl Reader {
    /// Describes an array: by its type's exchange functions, the buffer protocol, DLPack, or the array interface of NumPy or CUDA.
    /// The result keeps the array as it is.
    pub fn read(&mut self, array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<Guard> {
        let address = array.get_type_ptr().addr();
        let kind = match self.last {
            Some((known, kind)) if known == address => kind,
            _ => Kind::of(&array.get_type())?,
        };
        // The array keeps its type alive.
        self.last = Some((address, kind));
        let (view, consumer) = (&mut self.view, &mut self.consumer);
        if let Some(exchange) = kind.exchange() {
            return exchange::read(array, exchange, consumer, name, view);
        }
        if kind.is_masked {
            return Err(ArrayError::new_err(format!(
                "{}: the array is masked, expected one without a mask, as its filled() answers",
                name()
            )));
        }
        if Buffer::is_of(array) {
            return match buffer::read(array, name, view) {
                Err(error) => {
                    let error = ordinary(array.py(), error)?;
                    without_buffer(array, error, consumer, name, view)
                }
                result => result,
            };
        }
        if array.hasattr(capsule::METHOD)? {
            return capsule::read(array, consumer, name, view);
        }
        if array.hasattr(interface::OF_CUDA)? {
            return interface::read(array, interface::OF_CUDA, name, view);
        }
        Err(PyTypeError::new_err(format!(
            "{}: {} is not an array, expected one with DLPack, the buffer protocol or {}",
            name(),
            shown(array),
            interface::OF_CUDA
        )))
    }
}

/// Describes an array whose buffer is insufficient: its type has no buffer format, such as ml_dtypes' bfloat16, or it is JAX's.
#[cold]
fn without_buffer(
    array: &Bound<'_, PyAny>,
    error: PyErr,
    consumer: &mut Consumer,
    name: &dyn Fn() -> String,
    view: &mut View,
) -> PyResult<Guard> {
    let other = if array.hasattr(interface::OF_HOST)? {
        interface::read(array, interface::OF_HOST, name, view)
    } else if array.hasattr(capsule::METHOD)? {
        capsule::read(array, consumer, name, view)
    } else {
        return Err(error);
    };
    match other {
        Err(second) => ordinary(array.py(), second).and(Err(error)),
        result => result,
    }
}

/// The error of the array's own library, with the tensor's name.
fn refused(cause: PyErr, py: Python<'_>, name: &dyn Fn() -> String) -> PyErr {
    because(py, cause, |cause| {
        let text = cause.value(py).to_string();
        // PyTorch appends where in C++ it was raised.
        let text = text.split("\nException raised from").next().unwrap_or_default().trim_end();
        ArrayError::new_err(format!("{}: {text}", name()))
    })
}

/// Shape, strides in elements, type, device and whether it is read-only.
type Description = (Vec<i64>, Vec<i64>, &'static str, (i32, i32), bool);

/// Shape, strides in elements, type, device and whether it is read-only, for an array of any kind.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub fn describe(array: &Bound<'_, PyAny>) -> PyResult<Description> {
    let mut reader = Reader::default();
    let _guard = reader.read(array, &|| "array".to_owned())?;
    let view = &reader.view;
    let device = (view.device.kind, view.device.id);
    Ok((view.dims().to_vec(), view.strides().to_vec(), view.data_type, device, view.read_only))
}
