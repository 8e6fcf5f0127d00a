//! Operations as JSON, driven by the declarations of their fields.

use std::borrow::Cow;

use super::nearest::{nearest, suggestion};
use super::path::At;
use super::scalar;
use super::value::{Json, Object};
use crate::graph::operation::{EnumKind, Field, FieldKind, JsonField, OperationSpec, Value};
use crate::graph::{GraphError, Operation};
use crate::json_text::{self, ObjectWriter};

type Result<T> = std::result::Result<T, GraphError>;

const INPUTS: &str = "inputs";
const OUTPUTS: &str = "outputs";
/// Where misplaced fields are looked for.
const GROUPS: [&str; 4] = ["parameters", "attributes", INPUTS, OUTPUTS];

/// The object that contains a field; none if it is next to the node's name.
fn group(spec: &OperationSpec, field: &Field) -> Option<&'static str> {
    match field.kind {
        FieldKind::Input { .. } | FieldKind::Inputs => spec.json.has_groups.then_some(INPUTS),
        FieldKind::Output { .. } | FieldKind::Outputs => spec.json.has_groups.then_some(OUTPUTS),
        _ => spec.json.parameters,
    }
}

/// The key of a field.
fn key(field: &Field) -> Cow<'static, str> {
    match (field.json, field.kind) {
        (JsonField::Key(key), _) => key.into(),
        (_, FieldKind::Input { .. } | FieldKind::Output { .. }) => {
            format!("{}_tensor_uid", field.name).into()
        }
        _ => field.name.into(),
    }
}

/// Adds an operation to its node.
pub fn write(operation: &Operation, node: &mut ObjectWriter) {
    let spec = operation.spec();
    let (mut inputs, mut outputs) = (ObjectWriter::default(), ObjectWriter::default());
    let mut parameters = ObjectWriter::default();
    for (field, value) in spec.fields.iter().zip(operation.values()) {
        let object = match group(spec, field) {
            Some(INPUTS) => &mut inputs,
            Some(OUTPUTS) => &mut outputs,
            Some(_) => &mut parameters,
            None => &mut *node,
        };
        if !is_left_out(spec, field, &value) {
            object.put(key(field), |to| write_value(to, field, &value));
        }
    }
    if spec.json.has_groups {
        node.put(INPUTS, |to| inputs.write(to));
        node.put(OUTPUTS, |to| outputs.write(to));
    }
    if let Some(name) = spec.json.parameters.filter(|name| *name != INPUTS) {
        node.put(name, |to| parameters.write(to));
    }
}

fn is_left_out(spec: &OperationSpec, field: &Field, value: &Value) -> bool {
    if field.json == JsonField::UnlessZero {
        return matches!(value, Value::Int32(None | Some(0)) | Value::Enum(0));
    }
    !spec.json.writes_null
        && matches!(
            value,
            Value::Uid(None) | Value::Int(None) | Value::Int32(None) | Value::Float(None) | Value::Flag(None)
        )
}

fn write_value(to: &mut String, field: &Field, value: &Value) {
    let number = |to: &mut String, value: Option<i64>| match value {
        Some(value) => json_text::plain(to, value),
        None => to.push_str("null"),
    };
    match value {
        Value::Uid(value) | Value::Int(value) => number(to, *value),
        Value::Int32(value) => number(to, value.map(i64::from)),
        Value::Float(value) => json_text::float(to, f64::from(value.unwrap_or(f32::NAN))),
        Value::Flag(Some(value)) => json_text::plain(to, value),
        Value::Flag(None) => to.push_str("null"),
        Value::Uids(values) | Value::Ints(values) => json_text::list(to, values, json_text::plain),
        Value::Int32s(values) => json_text::list(to, values, json_text::plain),
        Value::Bytes(values) => json_text::list(to, values, json_text::plain),
        Value::Text(text) => json_text::text(to, text),
        Value::Enum(wire) => match field.kind {
            FieldKind::Enum(kind) if field.json != JsonField::Number => {
                json_text::text(to, (kind.spelling)(*wire).unwrap_or_default());
            }
            _ => json_text::plain(to, wire),
        },
    }
}

/// Reads the operation of a node.
pub fn read(node: &Object, at: &At<'_>) -> Result<Operation> {
    let place = at.key("type");
    let name = scalar::text(node.get("type").unwrap_or(&Json::Null), &place)?;
    let spec = Operation::SPECS.iter().find(|spec| spec.table == name);
    let spec = spec.ok_or_else(|| {
        let near = suggestion(name, Operation::SPECS.iter().map(|spec| spec.table));
        let name = Json::Text(name.to_owned());
        place.error(&format!(
            "is {}, expected the name of an operation's table, as \"MatmulAttributes\"{near}",
            name.describe()
        ))
    })?;
    let values = spec.fields.iter().map(|field| read_field(spec, field, node, at)).collect::<Result<_>>()?;
    (spec.from_values)(values).map_err(|error| at.error(&error.0))
}

/// Reads a field from its proper place, or else from places that other writers use.
fn read_field(spec: &OperationSpec, field: &Field, node: &Object, at: &At<'_>) -> Result<Value> {
    let is_tensor = matches!(
        field.kind,
        FieldKind::Input { .. } | FieldKind::Output { .. } | FieldKind::Inputs | FieldKind::Outputs
    );
    let home = group(spec, field);
    let key = key(field);
    let mut keys = vec![key.clone()];
    if is_tensor {
        keys.push(format!("{}_tensor_uid", field.name).into());
        keys.push(format!("{}_uid", field.name).into());
    }
    if !matches!(field.kind, FieldKind::Input { .. } | FieldKind::Output { .. }) {
        keys.push(field.name.into());
    }
    let elsewhere = GROUPS.iter().copied().filter(|name| Some(*name) != home).map(Some);
    let elsewhere = elsewhere.chain(home.map(|_| None));
    for group in std::iter::once(home).chain(elsewhere) {
        let Some((object, place)) = object_of(node, at, group) else { continue };
        for key in &keys {
            if let Some(value) = object.get(key.as_ref()) {
                return read_value(spec, field, value, &place.as_ref().unwrap_or(at).key(key));
            }
        }
    }
    if let (FieldKind::Output { required: true }, Some(value)) = (field.kind, listed_output(spec, node)) {
        return read_value(spec, field, value, &at.key(OUTPUTS));
    }
    let read = match home {
        Some(home) => read_value(spec, field, &Json::Null, &at.key(home).key(&key)),
        None => read_value(spec, field, &Json::Null, &at.key(&key)),
    };
    read.map_err(|GraphError(text)| {
        let beside = object_of(node, at, home).map(|(object, _)| object);
        let near = nearest(&key, beside.into_iter().flat_map(Object::keys));
        GraphError(near.map_or(text.clone(), |near| format!("{text}; there is {near}")))
    })
}

/// One of a node's objects, and its path unless it is the node itself.
fn object_of<'a>(
    node: &'a Object,
    at: &'a At<'a>,
    group: Option<&'a str>,
) -> Option<(&'a Object, Option<At<'a>>)> {
    match group {
        None => Some((node, None)),
        Some(name) => match node.get(name) {
            Some(Json::Object(object)) => Some((object, Some(at.key(name)))),
            _ => None,
        },
    }
}

/// The only element of `outputs`, if that is a list and the operation must write exactly one tensor.
fn listed_output<'a>(spec: &OperationSpec, node: &'a Object) -> Option<&'a Json> {
    let mut required = spec.fields.iter().filter(|field| field.kind == FieldKind::Output { required: true });
    match (required.next(), required.next(), node.get(OUTPUTS)) {
        (Some(_), None, Some(Json::List(list))) => match list.as_slice() {
            [value] => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// Reads the value of a field; null counts as absent.
fn read_value(spec: &OperationSpec, field: &Field, value: &Json, at: &At<'_>) -> Result<Value> {
    let is_absent = *value == Json::Null;
    let needs = |required: bool| required || !is_absent;
    Ok(match field.kind {
        FieldKind::Input { required } | FieldKind::Output { required } => {
            // Some writers wrap each output in a list.
            let value = match value {
                Json::List(list) if list.len() == 1 => list.first().unwrap_or(value),
                value => value,
            };
            Value::Uid(needs(required).then(|| scalar::int(value, at)).transpose()?)
        }
        FieldKind::Int { required } => {
            Value::Int(needs(required).then(|| scalar::int(value, at)).transpose()?)
        }
        FieldKind::Int32 { .. } if is_absent && field.json == JsonField::UnlessZero => Value::Int32(Some(0)),
        FieldKind::Int32 { required } => {
            Value::Int32(needs(required).then(|| scalar::int(value, at)).transpose()?)
        }
        FieldKind::Float => Value::Float(needs(false).then(|| scalar::float(value, at)).transpose()?),
        FieldKind::Flag { required: true } if is_absent => Value::Flag(Some(false)),
        FieldKind::Flag { .. } => Value::Flag(needs(false).then(|| scalar::flag(value, at)).transpose()?),
        FieldKind::Enum(kind) => Value::Enum(read_enum(kind, value, at)?),
        FieldKind::Text => Value::Text(scalar::text(value, at)?.to_owned()),
        FieldKind::Inputs if is_absent && spec.json.has_groups => Value::Uids(Vec::new()),
        FieldKind::Inputs | FieldKind::Outputs => Value::Uids(scalar::ints(value, at)?),
        FieldKind::Ints => Value::Ints(scalar::ints(value, at)?),
        FieldKind::Int32s => Value::Int32s(scalar::ints(value, at)?),
        FieldKind::Bytes if is_absent => Value::Bytes(Vec::new()),
        FieldKind::Bytes => Value::Bytes(scalar::ints(value, at)?),
    })
}

/// Reads an enumeration: its spelling, ignoring case, or its wire number. Other types of value count as the
/// first value.
fn read_enum(kind: EnumKind, value: &Json, at: &At<'_>) -> Result<u8> {
    let spelled = |text: &str| {
        (0..=u8::MAX).map_while(|wire| (kind.spelling)(wire)).position(|name| name.eq_ignore_ascii_case(text))
    };
    let missing = || Err(at.error(&format!("is missing, expected a value of {}", kind.name)));
    match value {
        Json::Null if !kind.has_default => missing(),
        Json::Text(text) => Ok(spelled(text).and_then(|wire| u8::try_from(wire).ok()).unwrap_or_else(|| {
            let names = || (0..=u8::MAX).map_while(|wire| (kind.spelling)(wire));
            let near = nearest(text, names()).map(|near| format!("; did you mean {near}?"));
            let known = || format!("; known are {}", names().skip(1).collect::<Vec<_>>().join(", "));
            let is = format!(
                "is {}, which is not a value of {} and counts as {:?}",
                value.describe(),
                kind.name,
                (kind.spelling)(0).unwrap_or_default()
            );
            match near {
                Some(near) => at.remark(&(is + &near)),
                None => at.remark_with(&is, &known()),
            }
            0
        })),
        Json::Int(number) => {
            let wire = u8::try_from(*number).ok().filter(|wire| (kind.spelling)(*wire).is_some());
            wire.ok_or_else(|| at.error(&format!("is {number}, which is not a value of {}", kind.name)))
        }
        _ => Ok(0),
    }
}
