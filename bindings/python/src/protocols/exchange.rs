//! Arrays whose type has exchange functions of DLPack's, as PyTorch's: described without Python code.

use pyo3::prelude::*;

use super::capsule;
use super::kind::Exchange;
use crate::device::Place;
use crate::dlpack::Tensor;
use crate::storage;
use crate::streams::Consumer;
use crate::view::{Guard, MOST_DIMS, View};

/// An array as its exchange functions describe it, for as long as nothing else of its owner runs.
pub struct Described {
    pub tensor: Tensor,
}

impl Described {
    /// The description of an array of the type that the functions are of; none where they refuse.
    pub fn new(array: &Bound<'_, PyAny>, exchange: &Exchange) -> Option<Self> {
        // SAFETY: all zeros are a tensor without elements.
        let mut tensor: Tensor = unsafe { std::mem::zeroed() };
        // SAFETY: the object is of the type that the table is of, and the output is valid.
        if unsafe { exchange.describe?(array.as_ptr().cast(), &raw mut tensor) } != 0 {
            drop(PyErr::take(array.py()));
            return None;
        }
        Some(Self { tensor })
    }

    fn numbers(&self, at: *const i64) -> Option<&[i64]> {
        let rank = usize::try_from(self.tensor.ndim).ok().filter(|rank| *rank <= MOST_DIMS)?;
        if rank == 0 {
            return Some(&[]);
        }
        // SAFETY: a description has as many numbers as dimensions.
        (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, rank) })
    }

    pub fn dims(&self) -> Option<&[i64]> {
        self.numbers(self.tensor.shape)
    }

    pub fn strides(&self) -> Option<&[i64]> {
        self.numbers(self.tensor.strides)
    }

    /// Where the first element is.
    pub fn address(&self) -> usize {
        let offset = usize::try_from(self.tensor.byte_offset).unwrap_or(0);
        self.tensor.data.wrapping_byte_add(offset).expose_provenance()
    }
}

/// The array as its exchange functions describe it.
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
    // SAFETY: the object is of the type that the table is of, and the output is valid.
    if unsafe { describe(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        return Err(super::refused(PyErr::fetch(array.py()), array.py(), name));
    }
    // SAFETY: the tensor was filled, and nothing else of its owner has run since.
    unsafe { capsule::fill(view, &tensor, name) }?;
    view.data = storage::address(array, &tensor)?;
    capsule::refuse_negated(array, view, name)?;
    if let Some(place) = view.place().filter(|place| *place != Place::Host) {
        view.stream = consumer.of_exchange(array.py(), exchange, place);
        view.allocator = exchange.allocator;
    }
    Ok(Guard::object(array))
}
