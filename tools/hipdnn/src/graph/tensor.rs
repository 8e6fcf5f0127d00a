//! Tensors of a graph.

use serde_json::Value;

use super::{data_type, lacks, object, text_of};
use crate::data_type::DataType;
use crate::failure::{Failure, Result};

/// A tensor: its name and layout.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The uid that memory is bound to.
    pub uid: i64,
    /// Its name, often empty.
    pub name: String,
    /// The type of its elements.
    pub data_type: DataType,
    /// Its dimensions.
    pub dims: Vec<i64>,
    /// The strides in elements.
    pub strides: Vec<i64>,
    /// Whether it exists only inside the graph.
    pub is_virtual: bool,
    /// The alignment of its memory in bytes.
    pub alignment: i64,
    /// Whether it is a scalar whose memory is on the host.
    pub is_runtime_pass_by_value: bool,
    /// The tensor with the offsets of a ragged batch.
    pub ragged_offset: Option<i64>,
    /// The factor of these offsets.
    pub ragged_multiplier: i64,
    /// The value that it carries.
    pub value: Option<Value>,
}

impl Tensor {
    /// Reads a tensor of the JSON form.
    pub fn read(value: &Value) -> Result<Self> {
        let object = object(value, "a tensor")?;
        let uid = object
            .get("uid")
            .and_then(Value::as_i64)
            .ok_or_else(|| lacks("a tensor", "uid", "a whole number"))?;
        let numbers = |key: &str| -> Result<Vec<i64>> {
            let values = object.get(key).and_then(Value::as_array);
            values
                .and_then(|values| values.iter().map(Value::as_i64).collect())
                .ok_or_else(|| lacks(&format!("tensor {uid}"), key, "whole numbers"))
        };
        let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
        let number = |key: &str| object.get(key).and_then(Value::as_i64);
        let (dims, strides) = (numbers("dims")?, numbers("strides")?);
        if dims.len() != strides.len() {
            return Err(Failure::work(format!(
                "tensor {uid} has {} dimensions and {} strides",
                dims.len(),
                strides.len()
            )));
        }
        Ok(Self {
            uid,
            name: text_of(object, "name"),
            data_type: data_type(object, "data_type")?,
            dims,
            strides,
            is_virtual: flag("virtual"),
            alignment: number("alignment").unwrap_or(16),
            is_runtime_pass_by_value: flag("is_runtime_pass_by_value"),
            ragged_offset: number("ragged_offset_tensor_uid"),
            ragged_multiplier: number("ragged_offset_multiplier").unwrap_or(1),
            value: object.get("value").filter(|value| !value.is_null()).cloned(),
        })
    }

    /// Its name, or its uid.
    pub fn label(&self) -> String {
        if self.name.is_empty() { format!("#{}", self.uid) } else { self.name.clone() }
    }

    /// Whether its elements are packed in the order of its dimensions.
    pub fn is_packed(&self) -> bool {
        let mut expected = 1_i64;
        for (dim, stride) in self.dims.iter().zip(&self.strides).rev() {
            if *dim != 1 && *stride != expected {
                return false;
            }
            expected = expected.saturating_mul((*dim).max(1));
        }
        true
    }

    /// Whether its layout is channels last, the second dimension being the channels.
    pub fn is_channels_last(&self) -> bool {
        let order: Vec<usize> = (0..self.dims.len()).filter(|axis| *axis != 1).chain([1]).collect();
        let turned = |of: &[i64]| order.iter().filter_map(|axis| of.get(*axis).copied()).collect::<Vec<_>>();
        let turned = Self { dims: turned(&self.dims), strides: turned(&self.strides), ..self.clone() };
        self.dims.len() > 2 && turned.is_packed()
    }

    /// A name for the strides if there is one; empty for vectors and scalars.
    pub fn order(&self) -> String {
        if self.dims.iter().filter(|dim| **dim != 1).count() < 2 && self.is_packed() {
            String::new()
        } else if self.is_packed() {
            "packed".to_owned()
        } else if self.is_channels_last() {
            "channels last".to_owned()
        } else {
            format!("strides {}", self.strides.iter().map(i64::to_string).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Dimensions for people: `2×3×4`.
pub fn shape(dims: &[i64]) -> String {
    dims.iter().map(i64::to_string).collect::<Vec<_>>().join("×")
}
