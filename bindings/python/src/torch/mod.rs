//! Kernels for PyTorch, below its autograd: registered with its dispatcher through its stable C interface.
//!
//! The kernels are registered under a dispatch key of no backend (`CustomRNGKeyId`), which lies between PyTorch's modes in Python and
//! its kernels of CPUs and GPUs. A thread that includes the key comes here, others pay nothing; a kernel that leaves a call to PyTorch
//! excludes the key and calls the operation again. PyTorch's own threads for gradients inherit the key from the thread that asks for them.

mod arguments;
mod clock;
mod events;
mod functions;
mod kernels;
mod ops;
mod owned;
mod plan;
mod recipe;
mod table;
mod workspace;

use std::sync::atomic::Ordering;

use pyo3::prelude::*;

use crate::error::Error;
use crate::library::Library;
use arguments::{Arguments, CPU, Value};
use events::Choice;

/// Registers the kernels under a dispatch key, by its name and number.
#[pyfunction]
#[pyo3(name = "torch_register")]
fn register(
    library: &Bound<'_, Library>,
    key: &str,
    number: u16,
    tracer: u16,
    version: u64,
    is_rocm: bool,
) -> PyResult<()> {
    let about = kernels::About { version, is_rocm, tracer };
    kernels::register(ops::OPERATIONS, library.get().session(), key, number, &about).map_err(Error::new_err)
}

/// The names of the operations that kernels are registered for.
#[pyfunction]
#[pyo3(name = "torch_operations")]
fn operations() -> Vec<String> {
    ops::OPERATIONS.iter().map(|op| op.name.to_string_lossy().into_owned()).collect()
}

/// Whether whatever an engine computes is computed here, faster or not.
#[pyfunction]
#[pyo3(name = "torch_always")]
fn always(is_set: bool) {
    kernels::always(is_set);
}

/// Drops all plans and workspaces.
#[pyfunction]
#[pyo3(name = "torch_clear")]
fn clear(py: Python<'_>) {
    py.detach(|| {
        table::clear();
        workspace::clear();
    });
}

/// Operation, tensors and settings, calls computed here, calls computed by PyTorch, reasons, engine, plan as JSON, device type and index.
type Row = (String, String, u64, u64, Vec<String>, Option<String>, Option<String>, (i32, i32));

/// One row for each kind of call.
#[pyfunction]
#[pyo3(name = "torch_report")]
fn report(py: Python<'_>) -> Vec<Row> {
    py.detach(|| table::entries().iter().map(|entry| row(entry)).collect())
}

fn row(entry: &table::Entry) -> Row {
    let mut words = entry.words.to_vec();
    let device = words.pop().unwrap_or_default();
    let device = ((device >> 32) as i32, device as i32);
    let name = words.pop().unwrap_or_default();
    let name = ops::OPERATIONS.iter().find(|op| op.name.as_ptr().addr() as i64 == name);
    let name = name.map_or_else(String::new, |op| op.name.to_string_lossy().replace("aten::", ""));
    let arguments = Arguments { words, device: Some(device), ..Arguments::default() };
    let text = arguments.values().iter().map(in_words).collect::<Vec<_>>().join(", ");
    let (ours, theirs) = entry.times();
    let mut reasons = Vec::new();
    if entry.plan.is_none() {
        reasons.push(entry.reason.clone());
    } else if entry.choice() == Choice::Theirs && ours != u64::MAX && theirs != u64::MAX {
        reasons.push(format!("PyTorch takes {} µs, hipDNN {} µs", theirs / 1000, ours / 1000));
    } else if entry.choice() == Choice::Theirs {
        reasons.push("PyTorch's own is preferred".to_owned());
    } else if entry.passed_on.load(Ordering::Relaxed) > 0 {
        reasons.push("both were timed in turns".to_owned());
    }
    let engine = entry.plan.as_ref().map(|plan| plan.engine.clone());
    let description = entry.plan.as_ref().and_then(|plan| plan.description());
    let (routed, passed) = (entry.routed.load(Ordering::Relaxed), entry.passed_on.load(Ordering::Relaxed));
    (name, text, routed, passed, reasons, engine, description, device)
}

fn in_words(value: &Value) -> String {
    match value {
        Value::None => "None".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Ints(numbers) => format!("{numbers:?}"),
        Value::Tensor(of) => {
            let kind = match of.dtype {
                5 => "half",
                6 => "float",
                7 => "double",
                15 => "bfloat16",
                _ => "other",
            };
            let gaps = if of.is_packed() { String::new() } else { format!(" strides {:?}", of.strides) };
            let place = if of.device.0 == CPU { "" } else { " on a GPU" };
            format!("{kind}{:?}{gaps}{place}", of.dims)
        }
    }
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(register, module)?)?;
    module.add_function(wrap_pyfunction!(operations, module)?)?;
    module.add_function(wrap_pyfunction!(always, module)?)?;
    module.add_function(wrap_pyfunction!(clear, module)?)?;
    module.add_function(wrap_pyfunction!(report, module)?)
}
