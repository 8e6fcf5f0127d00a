//! A handle of the library for programs that pass its address on.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::error::Failure;
use crate::library::{EngineTuple, Library, engine_tuples};

/// A `hipdnnHandle_t`, destroyed with the object.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Handle {
    handle: Mutex<hipdnn::Handle>,
}

impl Handle {
    /// Runs `f` without the interpreter's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&hipdnn::Handle) -> hipdnn::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| f(&self.handle.lock().unwrap_or_else(PoisonError::into_inner)))
            .map_err(|error| Failure::from(error).into_py())
    }
}

#[pymethods]
impl Handle {
    #[new]
    fn new(py: Python<'_>, library: &Library) -> PyResult<Self> {
        let session = library.session();
        let handle = py.detach(|| hipdnn::Handle::new(&session.backend));
        Ok(Self { handle: Mutex::new(handle.map_err(|error| Failure::from(error).into_py())?) })
    }

    /// The address of the library's handle.
    #[getter]
    fn address(&self) -> usize {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner).raw().expose_provenance()
    }

    /// Every loaded engine.
    fn engines(&self, py: Python<'_>) -> PyResult<Vec<EngineTuple>> {
        Ok(engine_tuples(self.with(py, hipdnn::Handle::engines)?))
    }

    /// The files of the engine plugins that are loaded.
    fn engine_plugin_paths(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        self.with(py, hipdnn::Handle::engine_plugin_paths)
    }
}
