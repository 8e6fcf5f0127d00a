//! The extension module of the Python package `hipdnn`: libraries, graphs and plans for Python.
//!
//! What a graph says (methods, shapes, names) is plain Python, which hands JSON over. Here is what has to be fast or touches
//! memory: finding a library, choosing engines, and executing plans with arrays of any kind, without copies.

mod array;
mod calls;
mod device;
mod device_array;
mod dlpack;
mod forks;
mod interface;
mod later;
mod library;
mod memory;
mod plan;
mod router;
mod signature;
mod spec;
mod storage;
mod streams;

use hipdnn_plugin_sdk::cuda::CudaError;
use hipdnn_plugin_sdk::hip::HipError;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

pyo3::create_exception!(
    hipdnn,
    Error,
    pyo3::exceptions::PyRuntimeError,
    "What the library or this package could not do."
);
pyo3::create_exception!(
    hipdnn,
    ArrayError,
    Error,
    "An array that does not fit its tensor: shape, strides, type, device, or read-only."
);

/// Why something was not done, told apart from the interpreter.
pub enum Failure {
    /// The library's.
    Library(hipdnn::Error),
    /// A GPU's.
    Device(String),
    /// There are not so many bytes.
    Memory(usize),
}

/// The result of what can fail.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The same as Python has it.
    fn into_py(self) -> PyErr {
        match self {
            Self::Memory(_) => PyMemoryError::new_err(self.to_string()),
            _ => Error::new_err(self.to_string()),
        }
    }
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

/// A library that engines for GPUs look for: what people call it, its version, its file, and why it is not there.
type Found = (&'static str, Option<String>, Option<String>, Option<String>);

/// A device: number, architecture, compute units, bytes of memory.
type FoundDevice = (i32, String, i32, u64);

/// The libraries and devices that engines for GPUs have here, and why there is no device.
#[pyfunction]
fn hardware(py: Python<'_>) -> (Vec<Found>, Vec<FoundDevice>, Option<String>) {
    py.detach(|| {
        let path = |file: std::path::PathBuf| file.display().to_string();
        let libraries = hipdnn::hardware::libraries().into_iter();
        let libraries = libraries.map(|of| (of.library, of.version, of.file.map(path), of.missing)).collect();
        match hipdnn::hardware::devices() {
            Err(reason) => (libraries, Vec::new(), Some(reason)),
            Ok(devices) => {
                let of = |of: hipdnn::hardware::Device| {
                    (of.number, of.architecture, of.compute_units, of.memory_bytes)
                };
                (libraries, devices.into_iter().map(of).collect(), None)
            }
        }
    })
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("ArrayError", module.py().get_type::<ArrayError>())?;
    module.add("Misaligned", module.py().get_type::<spec::Misaligned>())?;
    module.add("Elsewhere", module.py().get_type::<spec::Elsewhere>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<plan::TensorBase>()?;
    module.add_class::<library::Library>()?;
    module.add_class::<library::OperationGraph>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<device_array::DeviceArray>()?;
    module.add_class::<calls::Calls>()?;
    module.add_class::<router::Counts>()?;
    module.add_class::<router::Router>()?;
    module.add_class::<router::Mode>()?;
    module.add_class::<router::Overrides>()?;
    module.add_function(wrap_pyfunction!(hardware, module)?)?;
    module.add_function(wrap_pyfunction!(forks::forked, module)?)?;
    module.add_function(wrap_pyfunction!(plan::noting, module)?)?;
    module.add_function(wrap_pyfunction!(streams::on_stream, module)?)?;
    module.add_function(wrap_pyfunction!(device::synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(array::describe, module)?)
}
