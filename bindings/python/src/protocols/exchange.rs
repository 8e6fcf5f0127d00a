//! Arrays whose type has DLPack's exchange functions, such as PyTorch's: described without Python code.

use pyo3::intern;
use pyo3::prelude::*;

use super::capsule;
use super::kind::Exchange;
use crate::device::Place;
use crate::dlpack::Tensor;
use crate::error::ArrayError;
use crate::storage;
use crate::streams::Consumer;
use crate::view::{Guard, View};

/// Describes an array by its exchange functions.
pub fn read(
    array: &Bound<'_, PyAny>,
    exchange: &Exchange,
    consumer: &mut Consumer,
    name: &dyn Fn() -> String,
    view: &mut View,
) -> PyResult<Guard> {
    let Some(describe) = exchange.describe else { return capsule::read(array, consumer, name, view) };
    // SAFETY: all zeros are a tensor without elements.
    let mut tensor: Tensor = unsafe { std::mem::zeroed() };
    // SAFETY: the object is of the table's type, and the function writes only to the local `tensor`.
    if unsafe { describe(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        let cause = PyErr::fetch(array.py());
        return Err(without_memory(array, name)?.unwrap_or_else(|| super::refused(cause, array.py(), name)));
    }
    // SAFETY: the tensor was filled, and none of its owner's code has run since.
    unsafe { capsule::fill(view, &tensor, name) }?;
    view.data = storage::address(array, &tensor)?;
    capsule::refuse_negated(array, view, name)?;
    refuse_gradients(array, name)?;
    if let Some(place) = view.place().filter(|place| *place != Place::Host) {
        view.stream = consumer.of_exchange(array.py(), exchange, place);
        view.allocator = exchange.allocator;
    }
    Ok(Guard::object(array))
}

/// The error for an array without memory of its elements: PyTorch's of the meta device, or of another layout.
#[cold]
fn without_memory(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<Option<PyErr>> {
    let py = array.py();
    let is_meta =
        array.getattr_opt(intern!(py, "is_meta"))?.is_some_and(|is| is.is_truthy().unwrap_or(false));
    if is_meta {
        let words = "the array is on the meta device, expected one with memory";
        return Ok(Some(ArrayError::new_err(format!("{}: {words}", name()))));
    }
    let layout = array.getattr_opt(intern!(py, "layout"))?.map(|layout| layout.to_string());
    let other = layout.filter(|layout| layout != "torch.strided");
    Ok(other.map(|layout| {
        let words = "expected torch.strided, as its to_dense() returns";
        ArrayError::new_err(format!("{}: the array's layout is {layout}, {words}", name()))
    }))
}

/// An error for an array that requires gradients, where PyTorch records them: executions compute none.
fn refuse_gradients(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<()> {
    let py = array.py();
    let Some(required) = array.getattr_opt(intern!(py, "requires_grad"))? else { return Ok(()) };
    if !required.is_truthy()? || !py.import("torch")?.call_method0("is_grad_enabled")?.is_truthy()? {
        return Ok(());
    }
    Err(ArrayError::new_err(format!(
        "{}: the array requires gradients, which executions do not record: pass its detach(), or execute under torch.no_grad()",
        name()
    )))
}
