//! Errors, in Rust and in Python.

use hipdnn::Status;
use hipdnn_plugin_sdk::cuda::CudaError;
use hipdnn_plugin_sdk::hip::HipError;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;

pyo3::create_exception!(
    hipdnn,
    Error,
    pyo3::exceptions::PyRuntimeError,
    "What the library or this package could not do."
);
pyo3::create_exception!(
    hipdnn,
    EngineError,
    Error,
    "An engine that offered to run a graph and failed, when it was planned or executed."
);
pyo3::create_exception!(
    hipdnn,
    ArrayError,
    Error,
    "An array that is missing or does not fit its tensor: shape, strides, type, device, or read-only."
);
pyo3::create_exception!(
    hipdnn,
    Elsewhere,
    ArrayError,
    "Arrays on another device than their plan's: its kind and number, as DLPack has them."
);
pyo3::create_exception!(
    hipdnn,
    Misaligned,
    ArrayError,
    "An array that begins where its plan does not expect it."
);

/// Why something failed, independent of the interpreter.
pub enum Failure {
    /// The library's error.
    Library(hipdnn::Error),
    /// A GPU's error.
    Device(String),
    /// This many bytes could not be allocated.
    Memory(usize),
}

/// A result with such an error.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The Python exception.
    pub fn into_py(self) -> PyErr {
        match self {
            Self::Memory(_) => PyMemoryError::new_err(self.to_string()),
            Self::Library(hipdnn::Error::Status { status, .. }) if is_of_engine(status) => {
                EngineError::new_err(self.to_string())
            }
            _ => Error::new_err(self.to_string()),
        }
    }
}

/// Whether another engine may succeed after this status.
fn is_of_engine(status: Status) -> bool {
    matches!(
        status,
        Status::Plugin
            | Status::ExecutionFailed
            | Status::AllocFailed
            | Status::HostAllocationFailed
            | Status::DeviceAllocationFailed
    )
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::Device(words) => f.write_str(words),
            Self::Memory(size) => write!(f, "no memory for a workspace of {size} bytes"),
        }
    }
}

impl From<hipdnn::Error> for Failure {
    fn from(error: hipdnn::Error) -> Self {
        Self::Library(error)
    }
}

macro_rules! of_devices {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Device(error.to_string())
            }
        }
    )*};
}

of_devices!(CudaError, HipError, PluginError, Refusal);

/// An error that may be replaced by another one. Interrupts and exits must not be: they are returned as errors.
pub fn ordinary(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    if error.is_instance_of::<PyException>(py) { Ok(error) } else { Err(error) }
}

/// An error of this package with another one as its cause, except for those passed on unchanged.
pub fn because(py: Python<'_>, cause: PyErr, make: impl FnOnce(&PyErr) -> PyErr) -> PyErr {
    match ordinary(py, cause) {
        Ok(cause) => {
            let error = make(&cause);
            error.set_cause(py, Some(cause));
            error
        }
        Err(cause) => cause,
    }
}

/// The `repr` of a value, cut if it is long.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 80;
    let Ok(text) = value.repr() else { return format!("a {}", value.get_type()) };
    let text = text.to_string_lossy();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}
