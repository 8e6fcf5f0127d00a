//! The extension module of the Python package `hipdnn`: libraries, graphs and plans for Python.
//!
//! What a graph says (methods, shapes, names) is plain Python, which hands JSON over. Here is what has to be fast or touches
//! memory: finding a library, choosing engines, and executing plans with arrays of any kind, without copies.

mod array;
mod dlpack;
mod library;
mod memory;
mod plan;

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

/// A failure of the library, as Python has it.
fn raise(error: &hipdnn::Error) -> PyErr {
    Error::new_err(error.to_string())
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("ArrayError", module.py().get_type::<ArrayError>())?;
    module.add("Misaligned", module.py().get_type::<plan::Misaligned>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<plan::TensorBase>()?;
    module.add_class::<library::Library>()?;
    module.add_class::<library::OperationGraph>()?;
    module.add_class::<plan::Plan>()?;
    module.add_function(wrap_pyfunction!(array::describe, module)?)
}
