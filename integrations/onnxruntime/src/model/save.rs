//! Converts a model to JSON and back, without the elements of large constants.

use serde_json::{Value as Json, json};

use super::{Attribute, Constant, Dim, Element, Model, Node, Value, ValueId};
use crate::base64;

/// The kind of an attribute and its value.
fn attribute(of: &Attribute) -> Json {
    match of {
        Attribute::Int(value) => json!({ "int": value }),
        Attribute::Ints(values) => json!({ "ints": values }),
        Attribute::Float(value) => json!({ "float": value.to_bits() }),
        Attribute::Floats(values) => {
            json!({ "floats": values.iter().map(|value| value.to_bits()).collect::<Vec<_>>() })
        }
        Attribute::Text(text) => json!({ "text": text }),
        Attribute::Texts(texts) => json!({ "texts": texts }),
        Attribute::Tensor(tensor) => json!({ "tensor": constant(tensor) }),
        Attribute::NotUtf8 | Attribute::Other => json!({}),
    }
}

fn constant(of: &Constant) -> Json {
    json!({ "element": of.element.onnx(), "dims": of.dims, "bytes": base64::encode(&of.bytes) })
}

fn dim(of: &Dim) -> i64 {
    match of {
        Dim::Known(size) => *size,
        Dim::Open(symbol) => -1 - i64::try_from(*symbol).unwrap_or(0),
    }
}

/// The JSON of a model.
pub fn write(model: &Model) -> Json {
    let value = |value: &Value| {
        json!({
            "name": value.name, "element": value.element.map(Element::onnx),
            "dims": value.dims.as_ref().map(|dims| dims.iter().map(dim).collect::<Vec<_>>()),
            "is_constant": value.is_constant, "constant": value.constant.as_ref().map(constant),
        })
    };
    let node = |node: &Node| {
        let attributes: serde_json::Map<String, Json> =
            node.attributes.iter().map(|(name, of)| (name.clone(), attribute(of))).collect();
        json!({
            "name": node.name, "operator": node.operator, "domain": node.domain, "since": node.since,
            "inputs": node.inputs, "outputs": node.outputs, "attributes": attributes,
        })
    };
    json!({
        "values": model.values.iter().map(value).collect::<Vec<_>>(),
        "nodes": model.nodes.iter().map(node).collect::<Vec<_>>(),
        "inputs": model.inputs, "outputs": model.outputs,
    })
}

fn integers(json: &Json) -> Option<Vec<i64>> {
    json.as_array()?.iter().map(Json::as_i64).collect()
}

fn element(json: &Json) -> Option<Element> {
    Element::from_onnx(i32::try_from(json.as_i64()?).ok()?)
}

fn read_constant(json: &Json) -> Option<Constant> {
    let of = Constant {
        element: element(json.get("element")?)?,
        dims: integers(json.get("dims")?)?,
        bytes: base64::decode(json.get("bytes")?.as_str()?)?,
    };
    let count = of.dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(usize::try_from(*dim).ok()?))?;
    (of.element.bytes(count)? == of.bytes.len()).then_some(of)
}

fn bits(json: &Json) -> Option<f32> {
    Some(f32::from_bits(u32::try_from(json.as_u64()?).ok()?))
}

fn read_attribute(json: &Json) -> Option<Attribute> {
    let Some((kind, of)) = json.as_object()?.iter().next() else { return Some(Attribute::Other) };
    Some(match kind.as_str() {
        "int" => Attribute::Int(of.as_i64()?),
        "ints" => Attribute::Ints(integers(of)?),
        "float" => Attribute::Float(bits(of)?),
        "floats" => Attribute::Floats(of.as_array()?.iter().map(bits).collect::<Option<_>>()?),
        "text" => Attribute::Text(of.as_str()?.to_owned()),
        "texts" => {
            let text = |of: &Json| of.as_str().map(str::to_owned);
            Attribute::Texts(of.as_array()?.iter().map(text).collect::<Option<_>>()?)
        }
        "tensor" => Attribute::Tensor(read_constant(of)?),
        _ => return None,
    })
}

fn read_value(json: &Json) -> Option<Value> {
    let is_there = |name: &str| json.get(name).filter(|of| !of.is_null());
    let dims = match is_there("dims") {
        Some(dims) => {
            let known = |dim: i64| usize::try_from(-1 - dim).map_or(Dim::Known(dim), Dim::Open);
            Some(integers(dims)?.into_iter().map(known).collect())
        }
        None => None,
    };
    Some(Value {
        name: json.get("name")?.as_str()?.to_owned(),
        element: match is_there("element") {
            Some(of) => Some(element(of)?),
            None => None,
        },
        dims,
        is_constant: json.get("is_constant")?.as_bool()?,
        constant: match is_there("constant") {
            Some(of) => Some(read_constant(of)?),
            None => None,
        },
        kept: None,
    })
}

/// Parses a model from JSON; none if it is invalid.
pub fn read(json: &Json) -> Option<Model> {
    let list = |json: &Json, name: &str| json.get(name)?.as_array().cloned();
    let values = list(json, "values")?.iter().map(read_value).collect::<Option<Vec<_>>>()?;
    let id = |json: &Json| -> Option<ValueId> {
        usize::try_from(json.as_u64()?).ok().filter(|id| *id < values.len())
    };
    let ids = |json: &Json, name: &str| -> Option<Vec<ValueId>> {
        json.get(name)?.as_array()?.iter().map(id).collect()
    };
    let optional = |json: &Json, name: &str| -> Option<Vec<Option<ValueId>>> {
        let one = |json: &Json| if json.is_null() { Some(None) } else { id(json).map(Some) };
        json.get(name)?.as_array()?.iter().map(one).collect()
    };
    let node = |json: &Json| -> Option<Node> {
        let text = |name: &str| Some(json.get(name)?.as_str()?.to_owned());
        let attributes = json.get("attributes")?.as_object()?.iter();
        let attributes = attributes.map(|(name, of)| Some((name.clone(), read_attribute(of)?)));
        Some(Node {
            name: text("name")?,
            operator: text("operator")?,
            domain: text("domain")?,
            since: i32::try_from(json.get("since")?.as_i64()?).ok()?,
            inputs: optional(json, "inputs")?,
            outputs: optional(json, "outputs")?,
            attributes: attributes.collect::<Option<_>>()?,
            ..Node::default()
        })
    };
    let nodes = list(json, "nodes")?.iter().map(node).collect::<Option<Vec<_>>>()?;
    let (inputs, outputs) = (ids(json, "inputs")?, ids(json, "outputs")?);
    Some(Model { nodes, inputs, outputs, values })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_model_comes_back() {
        let constant =
            Constant { element: Element::Float, dims: vec![2], bytes: vec![1, 2, 3, 4, 5, 6, 7, 8] };
        let attributes = BTreeMap::from([
            ("a".to_owned(), Attribute::Ints(vec![1, -2])),
            ("b".to_owned(), Attribute::Float(f32::NEG_INFINITY)),
            ("c".to_owned(), Attribute::Text("same".to_owned())),
            ("d".to_owned(), Attribute::Tensor(constant.clone())),
            ("e".to_owned(), Attribute::Other),
            ("f".to_owned(), Attribute::Texts(vec!["one".to_owned(), String::new()])),
        ]);
        let value = |name: &str, constant: Option<Constant>| Value {
            name: name.to_owned(),
            element: Some(Element::Half),
            dims: Some(vec![Dim::Known(3), Dim::Open(0), Dim::Open(5)]),
            is_constant: constant.is_some(),
            constant,
            ..Value::default()
        };
        let node = Node {
            operator: "Conv".to_owned(),
            since: 11,
            inputs: vec![Some(0), None],
            outputs: vec![Some(1)],
            attributes,
            ..Node::default()
        };
        let values = vec![value("x", None), value("y", Some(constant))];
        let model = Model { values, nodes: vec![node], inputs: vec![0], outputs: vec![1] };
        let text = write(&model).to_string();
        let again = read(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{model:?}"));
        // A missing value, and missing elements.
        for (part, other) in [("\"inputs\":[0]", "\"inputs\":[7]"), ("AQIDBAUGBwg=", "AQIDBAUGBw==")] {
            assert!(text.contains(part));
            assert!(read(&serde_json::from_str(&text.replace(part, other)).unwrap()).is_none());
        }
    }
}
