//! Kernels for PyTorch, below its autograd: registered with its dispatcher through its stable C interface.
//!
//! The kernels are registered under dispatch keys without a backend, which lie between PyTorch's Python modes and its CPU and
//! GPU kernels (`keys`). A thread that includes a key comes here, others pay nothing; a kernel that leaves a call to PyTorch excludes
//! the keys and calls the operation again. Autograd's threads inherit the key from the thread that calls backward.

mod arguments;
mod budget;
mod choices;
mod clock;
mod direct;
mod events;
mod functions;
mod holes;
mod kernels;
mod keys;
mod layouts;
mod ops;
mod owned;
mod passing;
mod plan;
mod planning;
mod proof;
mod recipe;
mod samples;
mod steps;
mod table;
mod worker;
mod workspace;

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hipdnn_plugin_sdk::os::memory;
use pyo3::prelude::*;

use crate::error::Error;
use crate::library::Library;
use arguments::{Arguments, CPU, Value};
use choices::Times;
use events::Choice;
use functions::functions;
use kernels::NamedKey;

/// Registers the kernels under two dispatch keys, by name and number: that of all operations, and that of threads on GPUs.
#[pyfunction]
#[pyo3(name = "torch_register")]
fn register(
    library: &Bound<'_, Library>,
    keys: [NamedKey; 2],
    modes: [u16; 2],
    version: u64,
    is_rocm: bool,
) -> PyResult<()> {
    let [tracer, python] = modes;
    let about = kernels::About { keys, version, is_rocm, tracer, python };
    kernels::register(ops::OPERATIONS, library.get().session(), &about).map_err(Error::new_err)
}

/// Enables or disables the kernels in this thread; `follows` means on behalf of the process, `is_step` that calls belong to steps,
/// which are timed as a whole.
#[pyfunction]
#[pyo3(name = "torch_switch")]
fn switch(is_on: bool, follows: bool, is_step: bool) -> PyResult<()> {
    let is_always = kernels::is_always() || !is_step;
    keys::switch(functions().map_err(Error::new_err)?, is_on, follows, is_always);
    steps::switched(is_on, is_step);
    Ok(())
}

/// Enables or disables the kernels for threads that follow the process.
#[pyfunction]
#[pyo3(name = "torch_switch_process")]
fn switch_process(is_on: bool) {
    keys::switch_process(is_on);
}

/// The names of the registered operations; `on_gpus`: for threads on GPUs.
#[pyfunction]
#[pyo3(name = "torch_operations")]
fn operations(on_gpus: bool) -> Vec<String> {
    let all = ops::OPERATIONS.iter().map(|(op, _)| *op);
    let wanted = all.filter(|op| kernels::is_registered(op, on_gpus));
    wanted.map(|op| op.name.to_string_lossy().into_owned()).collect()
}

/// Waits until all plans in the background are made.
#[pyfunction]
#[pyo3(name = "torch_wait")]
fn wait(py: Python<'_>) {
    py.detach(worker::wait);
}

/// Makes no more plans in the background.
#[pyfunction]
#[pyo3(name = "torch_end")]
fn end(py: Python<'_>) {
    py.detach(worker::end);
}

/// Sets whether to compute everything that engines support here, faster or not.
#[pyfunction]
#[pyo3(name = "torch_always")]
fn always(is_set: bool) {
    kernels::always(is_set);
}

/// Sets whether an item of a batch must have the same bits in every batch.
#[pyfunction]
#[pyo3(name = "torch_invariant")]
fn invariant(is_set: bool) {
    planning::set_invariant(is_set);
}

/// Leaves these operations to PyTorch, and no others: tests let one engine compute what the other one saved.
#[pyfunction]
#[pyo3(name = "torch_leave")]
fn leave(names: Vec<String>) {
    for (op, _) in ops::OPERATIONS {
        op.is_left.store(names.iter().any(|name| name.as_bytes() == op.name.to_bytes()), Ordering::Relaxed);
    }
}

/// Checks that PyTorch's types have the expected layout, arrays as an address before a length or the reverse. Returns what
/// differs, or none.
#[pyfunction]
#[pyo3(name = "torch_layouts")]
fn layouts_of(is_reversed: bool) -> PyResult<Option<String>> {
    let f = functions().map_err(Error::new_err)?;
    let swapped = |array: functions::Array| (std::ptr::without_provenance(array.size), array.data.addr());
    let read = |array: functions::Array| if is_reversed { swapped(array) } else { (array.data, array.size) };
    Ok(layouts::types(f, read).err())
}

/// Whether PyTorch's function for one operation computes what its stable interface computes for another with the same arguments.
#[pyfunction]
#[pyo3(name = "torch_agrees")]
fn agrees(operation: &str, function: CString) -> PyResult<Option<bool>> {
    let f = functions().map_err(Error::new_err)?;
    let op = ops::OPERATIONS.iter().map(|(op, _)| *op).find(|op| op.name.to_bytes() == operation.as_bytes());
    Ok(op.and_then(|op| layouts::compares(f, op, &function)))
}

/// Whether any call that may be planned is still undecided.
#[pyfunction]
#[pyo3(name = "torch_is_open")]
fn is_open(py: Python<'_>) -> bool {
    let may_compute = |entry: &Arc<table::Entry>| entry.planned().is_none_or(|of| of.plan.is_ok());
    py.detach(|| table::entries().iter().any(|of| of.choice() == Choice::Open && may_compute(of)))
}

/// Reads the choices of earlier processes, and appends this one's to the same file.
#[pyfunction]
#[pyo3(name = "torch_choices")]
fn choices_in(py: Python<'_>, path: PathBuf) {
    py.detach(|| choices::open(path));
}

/// Sets the names of GPUs, which their choices are stored with.
#[pyfunction]
#[pyo3(name = "torch_name_gpus")]
fn name_gpus(names: Vec<String>) {
    choices::name_gpus(names);
}

/// Drops all plans and workspaces.
#[pyfunction]
#[pyo3(name = "torch_clear")]
fn clear(py: Python<'_>) {
    py.detach(|| {
        worker::cancel();
        table::clear();
        keys::listen();
        keys::listen_to_all();
        steps::reset();
        budget::reset();
        workspace::clear();
        memory::give_back();
    });
}

/// Operation, tensors and settings, calls computed here, calls computed by PyTorch, reasons, engine, plan as JSON, device type and index,
/// milliseconds of planning, whether calls went on meanwhile, and whether an earlier process chose.
type Row =
    (String, String, u64, u64, Vec<String>, Option<String>, Option<String>, (i32, i32), f64, (bool, bool));

/// One row per kind of call.
#[pyfunction]
#[pyo3(name = "torch_report")]
fn report(py: Python<'_>) -> Vec<Row> {
    py.detach(|| table::entries().iter().map(|entry| row(entry)).collect())
}

fn row(entry: &table::Entry) -> Row {
    let (words, device) = entry.arguments();
    let name = entry.name.to_string_lossy().replace("aten::", "");
    let arguments = Arguments { words: words.to_vec(), device: Some(device), ..Arguments::default() };
    let text = arguments.values().iter().map(in_words).collect::<Vec<_>>().join(", ");
    let planned = entry.planned();
    let plan = planned.and_then(|planned| planned.plan.as_ref().ok());
    let reason = why_pytorch(entry);
    let engine = plan.map(|plan| plan.engine.clone());
    let description = plan.and_then(|plan| plan.description());
    let (routed, passed) = (entry.routed.load(Ordering::Relaxed), entry.passed_on.load(Ordering::Relaxed));
    let reasons = reason.into_iter().collect();
    let took = planned.map_or(0.0, |planned| planned.time.as_secs_f64() * 1000.0);
    let is_aside = planned.is_some_and(|planned| planned.is_aside);
    (name, text, routed, passed, reasons, engine, description, device, took, (is_aside, entry.is_stored))
}

/// Why PyTorch computed a kind of call, or some of its calls.
fn why_pytorch(entry: &table::Entry) -> Option<String> {
    let Times { ours, theirs } = entry.times();
    let is_timed = ours != u64::MAX && theirs != u64::MAX;
    let times = format!("PyTorch takes {} µs, hipDNN {} µs", theirs / 1000, ours / 1000);
    match entry.planned().map(|planned| (&planned.plan, planned.is_aside)) {
        Some((Err(reason), _)) => Some(reason.clone()),
        _ if entry.is_dropped() => Some(format!("whole steps are no faster with it, though alone {times}")),
        _ if entry.choice() == Choice::Theirs && is_timed => Some(times),
        None => Some("hipDNN's plan is not made yet".to_owned()),
        Some(_) if entry.choice() == Choice::Theirs => Some("PyTorch's own is preferred".to_owned()),
        Some(_) if entry.passed_on.load(Ordering::Relaxed) == 0 => None,
        Some((_, is_aside)) => {
            let when = if is_aside { ", once the plan was made" } else { "" };
            let found = if is_timed { format!(": {times}") } else { String::new() };
            Some(format!("both were timed in turns{when}{found}"))
        }
    }
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
    module.add_function(wrap_pyfunction!(switch, module)?)?;
    module.add_function(wrap_pyfunction!(switch_process, module)?)?;
    module.add_function(wrap_pyfunction!(choices_in, module)?)?;
    module.add_function(wrap_pyfunction!(is_open, module)?)?;
    module.add_function(wrap_pyfunction!(name_gpus, module)?)?;
    module.add_function(wrap_pyfunction!(wait, module)?)?;
    module.add_function(wrap_pyfunction!(end, module)?)?;
    module.add_function(wrap_pyfunction!(always, module)?)?;
    module.add_function(wrap_pyfunction!(invariant, module)?)?;
    module.add_function(wrap_pyfunction!(leave, module)?)?;
    module.add_function(wrap_pyfunction!(layouts_of, module)?)?;
    module.add_function(wrap_pyfunction!(agrees, module)?)?;
    module.add_function(wrap_pyfunction!(clear, module)?)?;
    module.add_function(wrap_pyfunction!(report, module)?)
}
