//! The tensors that memory is bound to.

use pyo3::prelude::*;

use crate::device::Place;
use crate::error::{ArrayError, Misaligned};
use crate::storage::has_memory;
use crate::view::View;

/// A tensor that memory is bound to.
#[derive(FromPyObject)]
pub struct Spec {
    #[pyo3(item)]
    pub uid: i64,
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    data_type: String,
    #[pyo3(item)]
    dims: Vec<i64>,
    #[pyo3(item)]
    strides: Vec<i64>,
    #[pyo3(item)]
    alignment: usize,
    /// Whether the graph writes it.
    #[pyo3(item)]
    pub is_output: bool,
    /// Whether it is a number read on the host, whatever the device of the others.
    #[pyo3(item)]
    pub is_pass_by_value: bool,
    /// Whether the library knows it: not if it has no elements, or only nodes without results read it.
    #[pyo3(item)]
    pub is_used: bool,
}

impl Spec {
    /// Its name in messages.
    pub fn label(&self) -> String {
        if self.name.is_empty() { format!("tensor {}", self.uid) } else { format!("tensor {:?}", self.name) }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// How many bytes it may take before and behind its first element's address; more than it takes for types of less than a byte.
    pub fn extent(&self) -> (usize, usize) {
        let size = match self.data_type.as_str() {
            "double" | "int64" => 8,
            "float" | "int32" => 4,
            "half" | "bfloat16" => 2,
            "boolean" | "int8" | "uint8" => 1,
            other if other.starts_with("fp") || other == "int4" => 1,
            _ => 8,
        };
        if self.is_empty() {
            return (0, 0);
        }
        let (mut before, mut behind) = (0_usize, 1_usize);
        for (dim, stride) in self.steps() {
            let way = usize::try_from(dim - 1).unwrap_or(0).saturating_mul(stride.unsigned_abs() as usize);
            if stride < 0 {
                before = before.saturating_add(way);
            } else {
                behind = behind.saturating_add(way);
            }
        }
        (before.saturating_mul(size), behind.saturating_mul(size))
    }

    /// Dimensions and strides that matter for the layout: those of more than one element.
    fn steps(&self) -> impl Iterator<Item = (i64, i64)> {
        self.dims.iter().copied().zip(self.strides.iter().copied()).filter(|(dim, _)| *dim != 1)
    }

    /// Whether its elements are smaller than a byte, or most array libraries lack their type.
    fn takes_bytes(&self) -> Option<i64> {
        match self.data_type.as_str() {
            "fp4_e2m1" | "int4" => Some(4),
            "fp6_e2m3" | "fp6_e3m2" => Some(6),
            _ => None,
        }
    }

    /// Raises an error unless an array matches the tensor.
    pub fn check(&self, view: &View) -> PyResult<()> {
        let wrong = |what: String| Err(ArrayError::new_err(format!("{}: {what}", self.label())));
        if self.is_output && view.read_only {
            return wrong("the array is read-only, expected one that can be written".to_owned());
        }
        if !self.is_empty() {
            if !has_memory(view.data as usize) {
                return wrong("the array has no memory any more".to_owned());
            }
            let alignment = self.alignment.max(1);
            if !(view.data as usize).is_multiple_of(alignment) {
                return Err(Misaligned::new_err(format!(
                    "{}: the array begins at the address {:?}, expected a multiple of {alignment}",
                    self.label(),
                    view.data
                )));
            }
        }
        let (dims, strides) = (view.dims(), view.strides());
        if let Some(bits) = self.takes_bytes() {
            let count = self.dims.iter().fold(1_i64, |count, dim| count.saturating_mul(*dim));
            let bytes = count.saturating_mul(bits).saturating_add(7) / 8;
            let given = dims.iter().fold(1_i64, |count, dim| count.saturating_mul(*dim));
            let packed = dims.iter().zip(strides).rev().try_fold(1_i64, |stride, (dim, of)| {
                (*of == stride || *dim == 1).then_some(stride.saturating_mul(*dim))
            });
            if !matches!(view.data_type, "uint8" | "int8") || packed.is_none() || given < bytes {
                return wrong(format!(
                    "expected {bytes} bytes without gaps, for elements of type {}",
                    self.data_type
                ));
            }
            return Ok(());
        }
        // Bytes represent 8-bit types that some libraries lack.
        let same = view.data_type == self.data_type
            || (view.data_type == "uint8" && self.data_type.starts_with("fp8"));
        if !same {
            return wrong(format!("the array is of type {}, expected {}", view.data_type, self.data_type));
        }
        let given = || dims.iter().copied().zip(strides.iter().copied()).filter(|(dim, _)| *dim != 1);
        if !given().map(|(dim, _)| dim).eq(self.steps().map(|(dim, _)| dim)) {
            return wrong(format!("the array has the shape {dims:?}, expected {:?}", self.dims));
        }
        if !self.is_empty() && !given().eq(self.steps()) {
            return wrong(format!(
                "the array has the strides {strides:?} (in elements), expected {:?}",
                self.strides
            ));
        }
        Ok(())
    }

    /// The place of an array; an error if no engine computes there.
    pub fn place(&self, view: &View) -> PyResult<Place> {
        let place = view.place().filter(|place| !self.is_pass_by_value || *place == Place::Host);
        place.ok_or_else(|| {
            let expected = if self.is_pass_by_value {
                "host memory, for a number that is passed by value"
            } else {
                "host memory, CUDA, ROCm or Vulkan"
            };
            let (kind, id) = (view.device.kind, view.device.id);
            ArrayError::new_err(format!(
                "{}: the array is on device {kind}:{id}, expected {expected}",
                self.label()
            ))
        })
    }
}
