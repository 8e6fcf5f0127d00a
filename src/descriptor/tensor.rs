//! TENSOR: the shape, layout and data type of a node's operand or result.

use std::ffi::c_int;
use std::sync::Arc;

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::{DataType, Tensor, TensorValue};

use super::attribute::{Incoming, Outgoing, unknown};
use super::{Descriptor, Draft, Lifecycle};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::status::{Error, Result};

const KIND: &str = "tensor";

const UNIQUE_ID: c_int = Name::HIPDNN_ATTR_TENSOR_UNIQUE_ID as c_int;
const NAME: c_int = Name::HIPDNN_ATTR_TENSOR_NAME_EXT as c_int;
const DATA_TYPE: c_int = Name::HIPDNN_ATTR_TENSOR_DATA_TYPE as c_int;
const DIMENSIONS: c_int = Name::HIPDNN_ATTR_TENSOR_DIMENSIONS as c_int;
const STRIDES: c_int = Name::HIPDNN_ATTR_TENSOR_STRIDES as c_int;
const IS_VIRTUAL: c_int = Name::HIPDNN_ATTR_TENSOR_IS_VIRTUAL as c_int;
const VALUE: c_int = Name::HIPDNN_ATTR_TENSOR_VALUE_EXT as c_int;
const IS_BY_VALUE: c_int = Name::HIPDNN_ATTR_TENSOR_IS_BY_VALUE as c_int;
const IS_RUNTIME_PASS_BY_VALUE: c_int = Name::HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT as c_int;
const BYTE_ALIGNMENT: c_int = Name::HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT as c_int;
const RAGGED_OFFSET: c_int = Name::HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC as c_int;
const RAGGED_OFFSET_MULTIPLIER: c_int = Name::HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER as c_int;

/// A finalized tensor.
pub struct FrozenTensor {
    /// The tensor itself.
    pub tensor: Tensor,
    /// The tensor with the offsets of a ragged batch.
    pub ragged_offset: Option<Arc<FrozenTensor>>,
}

/// An open tensor.
#[derive(Default)]
pub struct TensorDraft {
    /// Created with the first attribute, taken when the tensor is frozen. Boxed, because other descriptors are much smaller.
    tensor: Option<Box<Tensor>>,
    ragged_offset: Option<Arc<FrozenTensor>>,
}

fn nothing() -> Box<Tensor> {
    Box::new(Tensor::new(0, DataType::Unset, &[], &[]))
}

impl Draft for TensorDraft {
    type Frozen = Arc<FrozenTensor>;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        let tensor = self.tensor.get_or_insert_with(nothing);
        match incoming.name() {
            UNIQUE_ID => tensor.uid = incoming.one(Type::HIPDNN_TYPE_INT64)?,
            NAME => tensor.name = incoming.text()?,
            DATA_TYPE => {
                let number = incoming.one::<i32>(Type::HIPDNN_TYPE_DATA_TYPE)?;
                tensor.data_type = DataType::from_c(number)
                    .ok_or_else(|| incoming.bad_value(number, "a hipdnnDataType_t, 0 to 17"))?;
            }
            DIMENSIONS => tensor.dims = incoming.some(Type::HIPDNN_TYPE_INT64)?,
            STRIDES => tensor.strides = incoming.some(Type::HIPDNN_TYPE_INT64)?,
            IS_VIRTUAL => tensor.is_virtual = incoming.flag()?,
            VALUE => {
                let bytes = incoming.bytes()?;
                tensor.value =
                    Some(value_from_bytes(tensor.data_type, &bytes).map_err(|error| incoming.about(error))?);
            }
            IS_RUNTIME_PASS_BY_VALUE => tensor.is_runtime_pass_by_value = incoming.flag()?,
            BYTE_ALIGNMENT => {
                let alignment = incoming.one::<i64>(Type::HIPDNN_TYPE_INT64)?;
                if !u64::try_from(alignment).is_ok_and(u64::is_power_of_two) {
                    return Err(incoming.bad_value(alignment, "a power of two"));
                }
                tensor.alignment = alignment;
            }
            RAGGED_OFFSET => {
                let offsets = incoming.descriptor(Descriptor::tensor)?;
                tensor.ragged_offset_uid = Some(offsets.tensor.uid);
                self.ragged_offset = Some(offsets);
            }
            RAGGED_OFFSET_MULTIPLIER => {
                tensor.ragged_offset_multiplier = incoming.one(Type::HIPDNN_TYPE_INT64)?
            }
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<Self::Frozen> {
        let Tensor { data_type, dims, strides, .. } = &**self.tensor.get_or_insert_with(nothing);
        if *data_type == DataType::Unset {
            return Err(Error::bad_param("HIPDNN_ATTR_TENSOR_DATA_TYPE of the tensor is not set"));
        }
        if dims.is_empty() || strides.is_empty() || dims.len() != strides.len() {
            return Err(Error::bad_param(format!(
                "the tensor has {} dimensions and {} strides, expected as many of one as of the other, at least 1",
                dims.len(),
                strides.len()
            )));
        }
        if let Some(offsets) = &self.ragged_offset
            && (offsets.tensor.is_virtual || offsets.ragged_offset.is_some())
        {
            return Err(Error::bad_param(format!(
                "tensor {} holds ragged offsets and is itself virtual or ragged, expected neither",
                offsets.tensor.uid
            )));
        }
        // From now on only the frozen form is read, so the draft moves there.
        let tensor = *self.tensor.take().unwrap_or_else(nothing);
        Ok(Arc::new(FrozenTensor { tensor, ragged_offset: self.ragged_offset.take() }))
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        let tensor = &frozen.tensor;
        match outgoing.name() {
            UNIQUE_ID => outgoing.one(Type::HIPDNN_TYPE_INT64, tensor.uid),
            NAME => outgoing.text(&tensor.name),
            DATA_TYPE => outgoing.optional(Type::HIPDNN_TYPE_DATA_TYPE, tensor.data_type.c()),
            DIMENSIONS => outgoing.many(Type::HIPDNN_TYPE_INT64, &tensor.dims),
            STRIDES => outgoing.many(Type::HIPDNN_TYPE_INT64, &tensor.strides),
            IS_VIRTUAL => outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(tensor.is_virtual)),
            VALUE => match tensor.value {
                Some(value) => outgoing.many(Type::HIPDNN_TYPE_CHAR, &value_to_bytes(value)),
                None => Err(Error::bad_param("HIPDNN_ATTR_TENSOR_VALUE_EXT of the tensor is not set")),
            },
            IS_BY_VALUE => outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(tensor.value.is_some())),
            IS_RUNTIME_PASS_BY_VALUE => {
                outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(tensor.is_runtime_pass_by_value))
            }
            BYTE_ALIGNMENT => outgoing.one(Type::HIPDNN_TYPE_INT64, tensor.alignment),
            RAGGED_OFFSET => outgoing.optional_descriptor(
                frozen
                    .ragged_offset
                    .as_ref()
                    .map(|offsets| || Some(Descriptor::of_tensor(Arc::clone(offsets)))),
            ),
            RAGGED_OFFSET_MULTIPLIER => {
                outgoing.one(Type::HIPDNN_TYPE_INT64, tensor.ragged_offset_multiplier)
            }
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

impl Descriptor {
    /// A finalized tensor descriptor that shares a tensor.
    pub(super) fn of_tensor(tensor: Arc<FrozenTensor>) -> Self {
        Self::Tensor(Lifecycle::finalized(TensorDraft::default(), tensor))
    }
}

fn value_from_bytes(data_type: DataType, bytes: &[u8]) -> Result<TensorValue> {
    let size = data_type.size().ok_or_else(|| {
        Error::bad_param(format!(
            "a tensor of type {} cannot hold a value, set the data type first",
            data_type.name()
        ))
    })?;
    let value = match (data_type, bytes) {
        (DataType::Float, &[a, b, c, d]) => TensorValue::Float32(f32::from_le_bytes([a, b, c, d])),
        (DataType::Int32, &[a, b, c, d]) => TensorValue::Int32(i32::from_le_bytes([a, b, c, d])),
        (DataType::Half, &[a, b]) => TensorValue::Float16(f16::from_le_bytes([a, b]).to_f32()),
        (DataType::Bfloat16, &[a, b]) => TensorValue::BFloat16(bf16::from_le_bytes([a, b]).to_f32()),
        (DataType::Boolean, &[a]) => TensorValue::Bool(a != 0),
        (_, &[a]) if size == 1 => TensorValue::Float8(a),
        (DataType::Double, bytes) if let Ok(bytes) = bytes.try_into() => {
            TensorValue::Float64(f64::from_le_bytes(bytes))
        }
        (DataType::Int64, bytes) if let Ok(bytes) = bytes.try_into() => {
            TensorValue::Int64(i64::from_le_bytes(bytes))
        }
        _ => {
            return Err(Error::bad_param(format!(
                "elementCount is {}, expected the {size} bytes of a {}",
                bytes.len(),
                data_type.name()
            )));
        }
    };
    Ok(value)
}

fn value_to_bytes(value: TensorValue) -> Vec<u8> {
    match value {
        TensorValue::Float32(v) => v.to_le_bytes().into(),
        TensorValue::Float16(v) => f16::from_f32(v).to_le_bytes().into(),
        TensorValue::BFloat16(v) => bf16::from_f32(v).to_le_bytes().into(),
        TensorValue::Float8(v) => vec![v],
        TensorValue::Int32(v) => v.to_le_bytes().into(),
        TensorValue::Float64(v) => v.to_le_bytes().into(),
        TensorValue::Int64(v) => v.to_le_bytes().into(),
        TensorValue::Bool(v) => vec![u8::from(v)],
    }
}
