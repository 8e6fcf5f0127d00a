//! Attention and mixtures of experts against results of NumPy (`tests/oracle/make_attention.py`).

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{FieldKind, OperationSpec, Value};
use hipdnn_plugin_sdk::graph::{DataType, Operation};

use super::common::Case;
use super::limits::assert_near;

const CASES: &str = include_str!("../oracle/attention.txt");

/// One case: a graph of one node, and its expected outputs.
struct Oracle {
    name: String,
    case: Case,
    expected: Vec<(&'static str, i64, Vec<f64>)>,
}

fn spec(name: &str) -> &'static OperationSpec {
    Operation::SPECS.iter().find(|spec| spec.name == name).expect("an operation")
}

/// The value of a field that the file does not set.
fn unset(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Input { .. } | FieldKind::Output { .. } => Value::Uid(None),
        FieldKind::Float => Value::Float(None),
        FieldKind::Flag { required } => Value::Flag(required.then_some(false)),
        FieldKind::Int { required } => Value::Int(required.then_some(0)),
        FieldKind::Int32 { required } => Value::Int32(required.then_some(0)),
        FieldKind::Enum(_) => Value::Enum(0),
        other => panic!("no operation here has fields like {other:?}"),
    }
}

/// The same field set to a number.
fn set(kind: FieldKind, number: f64) -> Value {
    match kind {
        FieldKind::Float => Value::Float(Some(number as f32)),
        FieldKind::Flag { .. } => Value::Flag(Some(number != 0.0)),
        FieldKind::Int { .. } => Value::Int(Some(number as i64)),
        FieldKind::Int32 { .. } => Value::Int32(Some(number as i32)),
        FieldKind::Enum(_) => Value::Enum(number as u8),
        other => panic!("{other:?} is not a number"),
    }
}

fn read(text: &str) -> Oracle {
    let mut lines = text.lines();
    let mut head = lines.next().unwrap().split(' ');
    let (name, operation) = (head.next().unwrap().to_owned(), head.next().unwrap());
    let spec = spec(operation);
    let mut case = Case::new();
    case.graph.compute_type = DataType::Double;
    let mut values: Vec<Value> = spec.fields.iter().map(|field| unset(field.kind)).collect();
    let mut expected = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let place = spec.fields.iter().position(|field| field.name == words[1]).expect("a field");
        let field = &spec.fields[place];
        if words[0] == "set" {
            values[place] = set(field.kind, words[2].parse().unwrap());
            continue;
        }
        let data_type = *DataType::ALL.iter().find(|data_type| data_type.name() == words[2]).expect("a type");
        let dims: Vec<i64> = words[3].split('x').map(|dim| dim.parse().unwrap()).collect();
        let numbers: Vec<f64> = words[5..].iter().map(|number| number.parse().unwrap()).collect();
        let uid = case.tensor(data_type, &dims);
        values[place] = Value::Uid(Some(uid));
        match words[0] {
            "in" => case.fill(uid, &numbers),
            _ => expected.push((field.name, uid, numbers)),
        }
    }
    case.node((spec.from_values)(values).unwrap());
    Oracle { name: format!("{operation} {name}"), case, expected }
}

#[test]
fn engines_agree_with_numpy() {
    let mut cases = 0;
    for text in CASES.split("case ").skip(1) {
        let mut oracle = read(text);
        for engine in 0..2 {
            oracle.case.run(planner(engine));
            for (field, uid, expected) in &oracle.expected {
                println!("{}, engine {engine}: {field}", oracle.name);
                assert_near(&oracle.case, engine, &[(*uid, expected)]);
            }
        }
        assert!(!oracle.expected.is_empty());
        cases += 1;
    }
    assert_eq!(cases, 34);
}
