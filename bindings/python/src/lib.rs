//! The extension module of the Python package `hipdnn`: libraries, graphs and plans for Python.
//!
//! Defining graphs (methods, shapes, names) is plain Python, which passes JSON. This module has what must be fast or accesses
//! memory: finding a library, choosing engines, and executing plans with arrays of any kind, without copies.
//!
//! Each module uses only those before it: `error`, `dlpack`, `forks`, `background`, `device`, `view`, `storage`, `streams`,
//! `memory`, `later`, `protocols`, `spec`, `session`, `plan`, `device_array`, `execute`, `tuning`, `library`, `engine_handle`, `numerics`, `torch`.

mod background;
mod device;
mod device_array;
mod dlpack;
mod engine_handle;
mod error;
mod execute;
mod forks;
mod later;
mod library;
mod memory;
mod numerics;
mod plan;
mod protocols;
mod session;
mod spec;
mod storage;
mod streams;
mod torch;
mod tuning;
mod view;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A library that GPU engines look for: its name, version and file, and why it is missing.
type Found = (&'static str, Option<String>, Option<String>, Option<String>);

/// A device: number, architecture, compute units, bytes of memory.
type FoundDevice = (i32, String, i32, u64);

/// The instructions of the processor that kernels use, and those that it has.
#[pyfunction]
fn instructions() -> Option<String> {
    hipdnn_plugin_sdk::cpu_isa::CpuIsa::description()
}

/// The libraries and devices available to GPU engines, and why no device was found.
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

/// Merges files with plans made ahead of time into one.
#[pyfunction]
fn join_packages<'py>(py: Python<'py>, parts: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let failed = |failure: hipdnn::Error| error::Error::new_err(failure.to_string());
    let mut entries = Vec::new();
    for part in &parts {
        entries.extend(hipdnn::ahead::read(part).map_err(failed)?);
    }
    Ok(PyBytes::new(py, &hipdnn::ahead::write(&entries).map_err(failed)?))
}

/// Whether bytes look like a file with plans made ahead of time.
#[pyfunction]
fn is_package(bytes: &[u8]) -> bool {
    hipdnn::ahead::is_package(bytes)
}

/// Returns freed memory to the system.
#[pyfunction]
fn give_back(py: Python<'_>) {
    py.detach(hipdnn_plugin_sdk::os::memory::give_back);
}

/// Resets state in a child that was just forked, which lacks its parent's threads.
#[pyfunction]
fn forked() {
    forks::forked();
    background::become_main_thread();
    later::forked();
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    background::find_main_thread(py)?;
    let _ = view::functions();
    module.add("Error", py.get_type::<error::Error>())?;
    module.add("EngineError", py.get_type::<error::EngineError>())?;
    module.add("ArrayError", py.get_type::<error::ArrayError>())?;
    module.add("Misaligned", py.get_type::<error::Misaligned>())?;
    module.add("Elsewhere", py.get_type::<error::Elsewhere>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    torch::add(module)?;
    module.add_class::<execute::TensorBase>()?;
    module.add_class::<library::Library>()?;
    module.add_class::<library::OperationGraph>()?;
    module.add_class::<engine_handle::Handle>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<device_array::DeviceArray>()?;
    module.add_function(wrap_pyfunction!(hardware, module)?)?;
    module.add_function(wrap_pyfunction!(instructions, module)?)?;
    module.add_function(wrap_pyfunction!(forked, module)?)?;
    module.add_function(wrap_pyfunction!(give_back, module)?)?;
    module.add_function(wrap_pyfunction!(join_packages, module)?)?;
    module.add_function(wrap_pyfunction!(is_package, module)?)?;
    module.add_function(wrap_pyfunction!(numerics::numerics, module)?)?;
    module.add_function(wrap_pyfunction!(streams::on_stream, module)?)?;
    module.add_function(wrap_pyfunction!(later::synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(protocols::describe, module)?)
}
