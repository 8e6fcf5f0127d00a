//! All operation descriptors: the SDK declares each operation's fields, and this file handles them generically.

use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::graph::operation::{EnumKind, Field, FieldKind, OperationSpec, Value};
use hipdnn_plugin_sdk::graph::{DataType, Node};

use super::attribute::{Incoming, Outgoing, unknown};
use super::tensor::FrozenTensor;
use super::{Descriptor, Draft, Lifecycle};
use crate::ffi::{CEnum, hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::status::{Error, Result};

const OPERATION_NAME: c_int = Name::HIPDNN_ATTR_OPERATION_NAME_EXT as c_int;
const OPERATION_TYPE: c_int = Name::HIPDNN_ATTR_OPERATION_TYPE_EXT as c_int;

/// A finalized operation.
pub struct FrozenOperation {
    /// The graph node.
    pub node: Node,
    /// Its tensors, in the operation's declaration order.
    pub tensors: Vec<Arc<FrozenTensor>>,
    /// The bytes of its texts and lists.
    pub size: usize,
}

/// The bytes of texts and lists.
pub fn size_of_values(name: &str, values: &[Value]) -> usize {
    values.iter().fold(name.len(), |size, value| {
        size + match value {
            Value::Uids(list) | Value::Ints(list) => size_of_val(&**list),
            Value::Int32s(list) => size_of_val(&**list),
            Value::Bytes(bytes) => bytes.len(),
            Value::Text(text) => text.len(),
            _ => 0,
        }
    })
}

/// An open operation.
pub struct OperationDraft {
    spec: &'static OperationSpec,
    name: String,
    compute_type: DataType,
    /// One for each field of the operation.
    fields: Vec<Setting>,
}

/// A field's value, and the tensors it refers to.
#[derive(Clone, Default)]
struct Setting {
    value: Option<Value>,
    tensors: Vec<Arc<FrozenTensor>>,
}

impl OperationDraft {
    /// An operation with nothing set.
    pub fn new(spec: &'static OperationSpec) -> Self {
        let fields = vec![Setting::default(); spec.fields.len()];
        Self { spec, name: String::new(), compute_type: DataType::Unset, fields }
    }
}

impl Draft for OperationDraft {
    type Frozen = Arc<FrozenOperation>;

    fn name(&self) -> &'static str {
        self.spec.name
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        let name = incoming.name();
        if name == OPERATION_NAME {
            self.name = incoming.text()?;
        } else if name == self.spec.compute_attribute {
            let number = incoming.one::<i32>(Type::HIPDNN_TYPE_DATA_TYPE)?;
            self.compute_type = DataType::from_c(number)
                .ok_or_else(|| incoming.bad_value(number, "a hipdnnDataType_t, 0 to 17"))?;
        } else {
            let mut fields = self.spec.fields.iter().zip(&mut self.fields);
            match fields.find(|(field, _)| field.attribute == name) {
                Some((field, setting)) => *setting = read(field, incoming)?,
                None => return Err(unknown(self.spec.name, name, "set")),
            }
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<Self::Frozen> {
        let name = self.spec.name;
        if self.compute_type == DataType::Unset {
            return Err(Error::bad_param(format!(
                "the type to compute in of the {name} ({}) is not set",
                attribute_name(self.spec.compute_attribute)
            )));
        }
        let mut values = Vec::with_capacity(self.fields.len());
        for (field, setting) in self.spec.fields.iter().zip(&self.fields) {
            values.push(finished(name, field, setting)?);
        }
        check_spatial(name, self.spec.fields, &values)?;
        let size = size_of_values(&self.name, &values);
        let operation = (self.spec.from_values)(values)
            .and_then(|operation| (self.spec.check)(&operation).map(|()| operation))
            .map_err(|error| Error::bad_param(error.0))?;
        // From now on only the frozen form is read, so the draft's tensors move there.
        let fields = std::mem::take(&mut self.fields);
        let mut tensors = Vec::with_capacity(fields.iter().map(|setting| setting.tensors.len()).sum());
        fields.into_iter().for_each(|setting| tensors.extend(setting.tensors));
        let node = Node { name: std::mem::take(&mut self.name), compute_type: self.compute_type, operation };
        Ok(Arc::new(FrozenOperation { node, tensors, size }))
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        let name = outgoing.name();
        let spec = frozen.node.operation.spec();
        if name == OPERATION_NAME {
            outgoing.text(&frozen.node.name)
        } else if name == OPERATION_TYPE {
            outgoing.one(Type::HIPDNN_TYPE_OPERATION_TYPE_EXT, spec.operation_type)
        } else if name == spec.compute_attribute {
            outgoing.optional(Type::HIPDNN_TYPE_DATA_TYPE, frozen.node.compute_type.c())
        } else {
            let values = frozen.node.operation.values();
            let mut fields = spec.fields.iter().zip(values);
            match fields.find(|(field, _)| field.attribute == name) {
                Some((field, value)) => write(frozen, field, &value, outgoing),
                None => Err(unknown(spec.name, name, "read")),
            }
        }
    }
}

impl Descriptor {
    /// A finalized operation descriptor that shares an operation.
    pub(super) fn of_operation(operation: Arc<FrozenOperation>) -> Self {
        let spec = operation.node.operation.spec();
        let draft =
            OperationDraft { spec, name: String::new(), compute_type: DataType::Unset, fields: Vec::new() };
        Self::Operation(Lifecycle::finalized(draft, operation))
    }

    /// The operation in a finalized operation descriptor.
    pub(super) fn operation(&self) -> Result<Arc<FrozenOperation>> {
        match self {
            Self::Operation(lifecycle) => {
                lifecycle.frozen().cloned().ok_or_else(|| super::child_not_finalized(self.name()))
            }
            other => Err(Error::not_supported(format!(
                "the descriptor is a {}, expected an operation",
                other.name()
            ))),
        }
    }
}

fn attribute_name(number: c_int) -> String {
    Name::from_raw(number).map_or_else(|| number.to_string(), |name| name.name().to_owned())
}

/// The attribute type of a small enumeration.
fn enum_type(kind: EnumKind) -> Type {
    Type::from_raw(kind.attribute_type).unwrap_or(Type::HIPDNN_TYPE_INT32)
}

/// Reads a field from a caller's array.
fn read(field: &Field, incoming: &Incoming) -> Result<Setting> {
    let value = match field.kind {
        FieldKind::Input { .. } | FieldKind::Output { .. } => {
            let tensor = incoming.descriptor(Descriptor::tensor)?;
            return Ok(Setting { value: Some(Value::Uid(Some(tensor.tensor.uid))), tensors: vec![tensor] });
        }
        FieldKind::Inputs | FieldKind::Outputs => {
            let tensors = incoming.descriptors(Descriptor::tensor)?;
            let uids = tensors.iter().map(|tensor| tensor.tensor.uid).collect();
            return Ok(Setting { value: Some(Value::Uids(uids)), tensors });
        }
        FieldKind::Ints => Value::Ints(incoming.some(Type::HIPDNN_TYPE_INT64)?),
        FieldKind::Int32s => Value::Int32s(incoming.some(Type::HIPDNN_TYPE_INT32)?),
        FieldKind::Int { .. } => Value::Int(Some(incoming.one(Type::HIPDNN_TYPE_INT64)?)),
        FieldKind::Int32 { .. } => Value::Int32(Some(incoming.one(Type::HIPDNN_TYPE_INT32)?)),
        FieldKind::Float => Value::Float(Some(incoming.one(Type::HIPDNN_TYPE_FLOAT)?)),
        FieldKind::Flag { .. } => Value::Flag(Some(incoming.flag()?)),
        FieldKind::Enum(kind) => {
            let number = incoming.one::<i32>(enum_type(kind))?;
            let wire = (kind.wire_from_c)(number);
            Value::Enum(wire.ok_or_else(|| incoming.bad_value(number, &format!("a value of {}", kind.name)))?)
        }
        FieldKind::Text => Value::Text(incoming.text()?),
        FieldKind::Bytes => Value::Bytes(incoming.bytes()?),
    };
    Ok(Setting { value: Some(value), tensors: Vec::new() })
}

/// Writes a field to a caller's array.
fn write(frozen: &FrozenOperation, field: &Field, value: &Value, outgoing: &Outgoing) -> Result<()> {
    let of_uid = |uid: i64| {
        let tensor = frozen.tensors.iter().find(|tensor| tensor.tensor.uid == uid)?;
        Some(Descriptor::of_tensor(Arc::clone(tensor)))
    };
    match value {
        Value::Uid(uid) => outgoing.optional_descriptor(uid.map(|uid| move || of_uid(uid))),
        Value::Uids(uids) => outgoing.descriptors(uids.len(), |i| of_uid(*uids.get(i)?)),
        Value::Ints(values) => outgoing.many(Type::HIPDNN_TYPE_INT64, values),
        Value::Int32s(values) => outgoing.many(Type::HIPDNN_TYPE_INT32, values),
        Value::Int(value) => outgoing.optional(Type::HIPDNN_TYPE_INT64, *value),
        Value::Int32(value) => outgoing.optional(Type::HIPDNN_TYPE_INT32, *value),
        Value::Float(value) => outgoing.optional(Type::HIPDNN_TYPE_FLOAT, *value),
        Value::Flag(value) => outgoing.optional(Type::HIPDNN_TYPE_BOOLEAN, value.map(u8::from)),
        Value::Enum(number) => match field.kind {
            FieldKind::Enum(kind) => outgoing.optional(enum_type(kind), (kind.c_from_wire)(*number)),
            _ => Err(Error::internal(format!("field {} is not an enumeration", field.name))),
        },
        Value::Text(text) => outgoing.text(text),
        Value::Bytes(bytes) => outgoing.many(Type::HIPDNN_TYPE_CHAR, bytes),
    }
}

/// The value of a field at finalize: the one set, or the default of an optional field.
fn finished(operation: &str, field: &Field, setting: &Setting) -> Result<Value> {
    if let Some(value) = &setting.value {
        return Ok(value.clone());
    }
    let missing = || {
        Err(Error::bad_param(format!(
            "field {} ({}) of the {operation} is not set",
            field.name,
            attribute_name(field.attribute)
        )))
    };
    match field.kind {
        FieldKind::Input { required: true } | FieldKind::Output { required: true } => missing(),
        FieldKind::Int { required: true } | FieldKind::Ints | FieldKind::Int32s | FieldKind::Text => {
            missing()
        }
        FieldKind::Enum(kind) if !kind.has_default => missing(),
        FieldKind::Enum(_) => Ok(Value::Enum(0)),
        FieldKind::Input { .. } | FieldKind::Output { .. } => Ok(Value::Uid(None)),
        FieldKind::Inputs | FieldKind::Outputs => Ok(Value::Uids(Vec::new())),
        FieldKind::Int { .. } => Ok(Value::Int(None)),
        FieldKind::Int32 { required } => Ok(Value::Int32(required.then_some(0))),
        FieldKind::Float => Ok(Value::Float(None)),
        FieldKind::Flag { required } => Ok(Value::Flag(required.then_some(false))),
        FieldKind::Bytes => Ok(Value::Bytes(Vec::new())),
    }
}

/// Checks that all lists with one element per spatial dimension have the same length.
fn check_spatial(operation: &str, fields: &[Field], values: &[Value]) -> Result<()> {
    let mut first: Option<(&Field, usize)> = None;
    for (field, value) in fields.iter().zip(values) {
        let Value::Ints(list) = value else { continue };
        match first {
            None => first = Some((field, list.len())),
            Some((other, length)) if length != list.len() => {
                return Err(Error::bad_param(format!(
                    "{} of the {operation} has {} elements, expected {length} as {} has",
                    field.name,
                    list.len(),
                    other.name
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
