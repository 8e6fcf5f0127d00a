//! Arrays whose type has DLPack's exchange functions, such as PyTorch's: described without Python code.

use pyo3::prelude::*;

use super::capsule;
use super::kind::Exchange;
use crate::device::Place;
use crate::dlpack::Tensor;
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
    // SAFETY: the object is of the table's type, and the output is valid.
    if unsafe { describe(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        return Err(super::refused(PyErr::fetch(array.py()), array.py(), name));
    }
    // SAFETY: the tensor was filled, and none of its owner's code has run since.
    unsafe { capsule::fill(view, &tensor, name) }?;
    view.data = storage::address(array, &tensor)?;
    capsule::refuse_negated(array, view, name)?;
    if let Some(place) = view.place().filter(|place| *place != Place::Host) {
        view.stream = consumer.of_exchange(array.py(), exchange, place);
        view.allocator = exchange.allocator;
    }
    Ok(Guard::object(array))
}
