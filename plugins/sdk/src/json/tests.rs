use super::*;
use crate::graph::operation::{FieldKind, Operation, Value};
use crate::graph::{ApiVersion, DataType};
use crate::wire;

const CONV: &str = include_str!("golden/conv_small.json");
const CONV_BIAS_RELU: &str = include_str!("golden/conv_bias_relu.json");
const ATTENTION: &str = include_str!("golden/attn.json");
const NOVEMBER_2025: &str = include_str!("golden/november_2025.json");

/// Removes white space between a text's tokens.
fn compact(pretty: &str) -> String {
    let (mut compact, mut in_text, mut escaped) = (String::new(), false, false);
    for c in pretty.chars() {
        if in_text || !c.is_ascii_whitespace() {
            compact.push(c);
        }
        in_text ^= c == '"' && !escaped;
        escaped = in_text && c == '\\' && !escaped;
    }
    compact
}

#[track_caller]
fn fails(text: &str, parts: &[&str]) {
    let message = read(text).unwrap_err().0;
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    assert!(message.len() < 400, "{message}");
}

/// A graph with one node of every operation, and `value` in each field.
fn every_operation(value: impl Fn(FieldKind, i64) -> Value) -> Graph {
    let mut next = 0;
    let nodes = Operation::SPECS.iter().map(|spec| {
        let values = spec.fields.iter().map(|field| {
            next += 1;
            value(field.kind, next)
        });
        let operation = (spec.from_values)(values.collect()).unwrap();
        Node { name: spec.name.to_lowercase(), compute_type: DataType::Double, operation }
    });
    Graph { nodes: nodes.collect(), ..Graph::default() }
}

fn full(kind: FieldKind, number: i64) -> Value {
    match kind {
        FieldKind::Input { .. } | FieldKind::Output { .. } => Value::Uid(Some(number)),
        FieldKind::Inputs | FieldKind::Outputs => Value::Uids(vec![number, -number]),
        FieldKind::Ints => Value::Ints(vec![number, i64::MIN, i64::MAX]),
        FieldKind::Int32s => Value::Int32s(vec![i32::MAX, i32::MIN]),
        FieldKind::Int { .. } => Value::Int(Some(-number)),
        FieldKind::Int32 { .. } => Value::Int32(Some(16)),
        FieldKind::Float => Value::Float(Some(0.1 * number as f32)),
        FieldKind::Flag { .. } => Value::Flag(Some(true)),
        FieldKind::Enum(_) => Value::Enum(1),
        FieldKind::Text => Value::Text("a \"name\"\n\0é".into()),
        FieldKind::Bytes => Value::Bytes(vec![0, 255, 1]),
    }
}

fn empty(kind: FieldKind, _: i64) -> Value {
    match kind {
        FieldKind::Input { required } | FieldKind::Output { required } => Value::Uid(required.then_some(0)),
        FieldKind::Inputs | FieldKind::Outputs => Value::Uids(vec![]),
        FieldKind::Ints => Value::Ints(vec![]),
        FieldKind::Int32s => Value::Int32s(vec![]),
        FieldKind::Int { required } => Value::Int(required.then_some(0)),
        FieldKind::Int32 { required } => Value::Int32(required.then_some(0)),
        FieldKind::Float => Value::Float(None),
        FieldKind::Flag { required } => Value::Flag(required.then_some(false)),
        FieldKind::Enum(_) => Value::Enum(0),
        FieldKind::Text => Value::Text(String::new()),
        FieldKind::Bytes => Value::Bytes(vec![]),
    }
}

#[test]
fn golden_files_are_read_and_written_as_they_are() {
    for golden in [CONV, CONV_BIAS_RELU, ATTENTION] {
        let graph = read(golden).unwrap();
        assert_eq!(write(&graph), compact(golden));
        let bytes = wire::write(&graph, wire::Layout::G2).unwrap();
        assert_eq!(wire::read(&bytes).unwrap(), graph);
    }
}

#[test]
fn a_file_of_november_2025_is_a_graph_of_that_layout() {
    let graph = read(NOVEMBER_2025).unwrap();
    assert_eq!((graph.compute_type, graph.io_type), (DataType::Float, DataType::Half));
    assert!(graph.nodes.iter().all(|node| node.compute_type == DataType::Float));
    assert_eq!(graph.tensors[0].alignment, Tensor::DEFAULT_ALIGNMENT);
    let Operation::Pointwise(relu) = &graph.nodes[1].operation else { panic!() };
    assert_eq!((relu.relu_upper_clip, relu.swish_beta, relu.in_1), (Some(6.0), None, None));
    let bytes = wire::write(&graph, wire::Layout::G1).unwrap();
    assert_eq!(wire::read(&bytes).unwrap().tensors, graph.tensors);
    assert_eq!(read(&write(&graph)).unwrap(), graph);
}

#[test]
fn every_operation_round_trips() {
    for value in [full, empty] {
        for node in every_operation(value).nodes {
            let graph = Graph { nodes: vec![node], ..Graph::default() };
            let text = write(&graph);
            assert_eq!(read(&text).unwrap(), graph, "{text}");
        }
    }
}

/// Where each key is and which are null or missing: written out, so that changing a declaration fails this
/// test.
#[test]
fn every_operation_has_its_keys() {
    let lines = |value: fn(FieldKind, i64) -> Value| -> Vec<String> {
        let shape = |node: &Node| {
            let mut text = String::new();
            write_node(&mut text, node);
            let node: serde_json::Value = serde_json::from_str(&text).unwrap();
            let mut parts = vec![node["type"].as_str().unwrap().to_owned()];
            for (key, value) in node.as_object().unwrap() {
                let mark = |value: &serde_json::Value| if value.is_null() { "?" } else { "" };
                match value {
                    serde_json::Value::Object(members) => {
                        let keys = members.iter().map(|(key, value)| format!("{key}{}", mark(value)));
                        parts.push(format!("{key}({})", keys.collect::<Vec<_>>().join(" ")));
                    }
                    _ if ["type", "name", "compute_data_type"].contains(&key.as_str()) => {}
                    value => parts.push(format!("{key}{}", mark(value))),
                }
            }
            parts.join(" ").replace("_tensor_uid", "*")
        };
        every_operation(value).nodes.iter().map(shape).collect()
    };
    let (_, golden) = include_str!("../../../../c_tests/golden/abi.txt").split_once("\njson\n").unwrap();
    let golden: Vec<&str> = golden.lines().collect();
    let (full, empty) = (lines(full), lines(empty));
    let both: Vec<&str> = full.iter().zip(&empty).flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    assert_eq!(both, golden, "\n{}", both.join("\n"));
}

#[test]
fn values_of_every_type_round_trip() {
    let mut graph = read(CONV).unwrap();
    graph.min_required_engine_api_version = Some(ApiVersion::new(1, 3, u32::MAX));
    graph.preferred_engine_id = Some(i64::MIN);
    graph.is_override_shape_enabled = true;
    graph.tensors[0].alignment = 256;
    graph.tensors[0].ragged_offset_uid = Some(2);
    graph.tensors[0].ragged_offset_multiplier = -3;
    graph.tensors[1].is_runtime_pass_by_value = true;
    for value in [
        TensorValue::Float32(0.1),
        TensorValue::Float32(-0.0),
        TensorValue::Float32(f32::MIN_POSITIVE / 8.0),
        TensorValue::Float16(65504.0),
        TensorValue::BFloat16(f32::MAX),
        TensorValue::Float8(255),
        TensorValue::Int32(i32::MIN),
        TensorValue::Float64(5e-324),
        TensorValue::Float64(f64::MAX),
        TensorValue::Int64(i64::MAX),
        TensorValue::Bool(true),
        TensorValue::Bool(false),
    ] {
        graph.tensors[0].value = Some(value);
        let text = write(&graph);
        assert_eq!(format!("{:?}", read(&text).unwrap()), format!("{graph:?}"), "{text}");
    }
    graph.tensors[0].value = Some(TensorValue::Float32(f32::NEG_INFINITY));
    fails(&write(&graph), &["tensors[0].value: is missing or null, expected a number"]);
}

#[test]
fn random_floats_round_trip() {
    let mut state = 1_u64;
    for _ in 0..100_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(state ^ (state >> 31));
        if number.is_finite() {
            let mut text = String::new();
            float(&mut text, number);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits(), "{text}");
            let read: f64 = serde_json::from_str(&text).unwrap();
            assert_eq!(read.to_bits(), number.to_bits(), "{text}");
        }
    }
}

#[test]
fn missing_types_are_filled_in() {
    let text = CONV_BIAS_RELU
        .replace("\"data_type\": \"bfloat16\"", "\"data_type\": \"unset\"")
        .replace("\"data_type\": \"float\"", "\"data_type\": \"no such type\"")
        .replace("  {\"compute_data_type\": \"float\",\n", "  {\"metadata\": [{}],\n");
    assert_eq!(read(&text).unwrap(), read(CONV_BIAS_RELU).unwrap());
    // No default to fill in
    let graph = read(r#"{"tensors": [{"uid": 0, "dims": [], "strides": []}], "nodes": []}"#).unwrap();
    assert_eq!(graph.tensors[0], Tensor::new(0, DataType::Unset, &[], &[]));
}

#[test]
fn other_writers_are_understood() {
    let conv = read(CONV).unwrap();
    for (from, to) in [
        ("\"half\"", "\"HALF\""),
        ("\"CROSS_CORRELATION\"", "\"cross_correlation\""),
        ("\"CROSS_CORRELATION\"", "2"),
        ("\"parameters\"", "\"attributes\""),
        ("\"y_tensor_uid\": 3", "\"y_tensor_uid\": [3]"),
        ("{\"y_tensor_uid\": 3}", "[3]"),
        ("{\"w_tensor_uid\": 2, \"x_tensor_uid\": 1}", "null, \"w_tensor_uid\": 2, \"x_uid\": 1"),
        ("\"alignment\": 16, ", "\"alignment\": null, "),
        ("\"is_runtime_pass_by_value\": false, ", "\"value_type\": \"NONE\", "),
        ("\"is_override_shape_enabled\": false,", "\"metadata\": {\"a\": [1.5, {\"b\": null}]},"),
    ] {
        let text = CONV.replace(from, to);
        assert_ne!(text, CONV, "{from}");
        assert_eq!(read(&text).unwrap(), conv, "{to}");
    }
    // An unknown value counts as the first one.
    let Operation::ConvolutionForward(unset) =
        read(&CONV.replace("CROSS_CORRELATION", "?")).unwrap().nodes.remove(0).operation
    else {
        panic!()
    };
    assert_eq!(unset.conv_mode, crate::graph::ConvMode::Unset);
    let attention = read(ATTENTION).unwrap();
    for (from, to) in [
        ("\"unset\"", "\"UNSET\""),
        ("\"attn_mask_tensor_uid\": null, ", ""),
        ("\"alibi_mask\": false, ", ""),
    ] {
        assert_eq!(read(&ATTENTION.replacen(from, to, 1)).unwrap(), attention, "{to}");
    }
    for epsilon in ["epsilon_uid", "epsilon_tensor_uid"] {
        let text = r#"{"tensors": [], "nodes": [{"type": "LayernormBackwardAttributes",
            "inputs": {"dy_tensor_uid": 1, "x_tensor_uid": 2, "scale_tensor_uid": 3, "epsilon_uid": 4},
            "outputs": {"dx_tensor_uid": 5, "dscale_tensor_uid": 6, "dbias_tensor_uid": 7}, "normalized_dim_count": 1}]}"#;
        let graph = read(&text.replace("epsilon_uid", epsilon)).unwrap();
        let Operation::LayernormBackward(node) = &graph.nodes[0].operation else { panic!() };
        assert_eq!((node.epsilon, node.mean), (Some(4), None));
    }
    // Ignores a byte order mark and a trailing NUL.
    assert_eq!(read_bytes(format!("\u{feff}{CONV}\0").as_bytes()).unwrap(), conv);
}

#[test]
fn errors_contain_their_path() {
    for (from, to, parts) in [
        (
            "\"x_tensor_uid\": 1",
            "\"x_tensor_uid\": \"one\"",
            &["nodes[0].inputs.x_tensor_uid: is \"one\", expected an integer"][..],
        ),
        ("\"x_tensor_uid\": 1", "\"z\": 1", &["nodes[0].inputs.x_tensor_uid: is missing or null"]),
        (
            "\"x_tensor_uid\": 1",
            "\"x_tensor_uid\": 9223372036854775808",
            &["nodes[0].inputs.x_tensor_uid: is 9223372036854775808"],
        ),
        (
            "\"x_tensor_uid\": 1",
            "\"x_tensor_uid\": -9223372036854775809",
            &["nodes[0].inputs.x_tensor_uid: is -9.2"],
        ),
        ("\"x_tensor_uid\": 1", "\"x_tensor_uid\": -0", &["nodes[0].inputs.x_tensor_uid: is -0.0"]),
        ("\"x_tensor_uid\": 1", "\"x_tensor_uid\": 1.5", &["nodes[0].inputs.x_tensor_uid: is 1.5"]),
        (
            "\"x_tensor_uid\": 1",
            "\"x_tensor_uid\": 1e400",
            &["nodes[0].inputs.x_tensor_uid: number out of range at line 9"],
        ),
        (
            "\"x_tensor_uid\": 1",
            "\"x_tensor_uid\": [1, 2]",
            &["nodes[0].inputs.x_tensor_uid: is a list of 2"],
        ),
        (
            "\"x_tensor_uid\": 1",
            "\"w_tensor_uid\": 1",
            &["nodes[0].inputs: the key \"w_tensor_uid\" occurs twice"],
        ),
        ("\"stride\": [2, 2]", "\"stride\": [2, true]", &["nodes[0].parameters.stride[1]: is true"]),
        ("\"stride\": [2, 2]", "\"stride\": 2", &["nodes[0].parameters.stride: is 2, expected a list"]),
        ("\"CROSS_CORRELATION\"", "null", &["nodes[0].parameters.conv_mode: is missing"]),
        ("\"CROSS_CORRELATION\"", "3", &["nodes[0].parameters.conv_mode: is 3", "ConvMode"]),
        ("ConvolutionFwdAttributes", "Nonsense", &["nodes[0].type: is \"Nonsense\""]),
        ("\"type\"", "\"typ\"", &["nodes[0].type: is missing"]),
        ("\"uid\": 2", "\"uid\": null", &["tensors[1].uid: is missing"]),
        ("\"dims\": [5, 6", "\"dims\": [5, 0.5", &["tensors[1].dims[1]: is 0.5"]),
        ("\"name\": \"w\"", "\"name\": 7", &["tensors[1].name: is 7, expected a text"]),
        ("\"name\": \"w\"", "\"value\": 7", &["tensors[1].value: has no value_type"]),
        ("\"name\": \"w\"", "\"value_type\": \"Nonsense\"", &["tensors[1].value_type: is \"Nonsense\""]),
        (
            "\"name\": \"w\"",
            "\"value_type\": \"Float8Value\", \"value\": 256",
            &["tensors[1].value: is 256", "255"],
        ),
        (
            "\"name\": \"w\"",
            "\"value_type\": \"Float32Value\", \"value\": 1e39",
            &["tensors[1].value: is 1e39"],
        ),
        ("\"name\": \"w\"", "\"value_type\": \"Float32Value\"", &["tensors[1].value: is missing"]),
        (
            "\"name\": \"w\"",
            "\"value_type\": \"BoolValue\", \"value\": 1",
            &["tensors[1].value: is 1, expected true"],
        ),
        ("\"3f0c9a52-", "\"3f0c9a5-", &["id: is \"3f0c9a5-", "UUID"]),
        (
            "\"is_override_shape_enabled\": false",
            "\"is_override_shape_enabled\": 0",
            &["is_override_shape_enabled: is 0"],
        ),
        (
            "\"is_override_shape_enabled\": false",
            "\"preferred_engine_id\": {}",
            &["preferred_engine_id: is an object"],
        ),
        (
            "\"is_override_shape_enabled\": false",
            "\"min_required_engine_api_version\": {\"major\": 1, \"minor\": -1}",
            &["min_required_engine_api_version.minor: is -1, expected an integer from 0"],
        ),
        ("\"nodes\"", "\"node\"", &["nodes: is missing"]),
        ("\"nodes\": [", "\"nodes\": [[],", &["nodes[0]: is a list of 0, expected an object"]),
    ] {
        let text = CONV.replacen(from, to, 1);
        assert_ne!(text, CONV, "{from}");
        fails(&text, parts);
    }
    fails("[]", &["the graph is a list of 0, expected an object"]);
    fails("", &["EOF"]);
    fails("{} x", &["after the graph", "column 4"]);
    assert!(read_bytes(b"{\"\xff\"}").unwrap_err().0.contains("UTF-8 at byte 2"));
}

#[test]
fn unknown_words_are_remarked_or_refused_with_the_nearest_known_ones() {
    let graph = |tensor: &str, node: &str| {
        format!(
            "{{\"tensors\": [{{\"uid\": 1, \"dims\": [1], \"strides\": [1], {tensor}}}], \"nodes\": [{{{node}, \"inputs\": \
             {{\"in_0_tensor_uid\": 1}}, \"outputs\": {{\"out_0_tensor_uid\": 2}}}}]}}"
        )
    };
    let remarks = |tensor: &str, mode: &str| {
        let node = format!("\"type\": \"PointwiseAttributes\", \"parameters\": {{\"operation\": {mode}}}");
        read_with_remarks(graph(tensor, &node).as_bytes()).unwrap().1
    };
    let float = "\"data_type\": \"float\"";
    assert_eq!(remarks(float, "\"relu_fwd\""), [""; 0]);
    assert_eq!(remarks("\"data_type\": \"UNSET\"", "\"unset\""), [""; 0]);
    assert_eq!(remarks("\"data_type\": null", "\"RELU_FWD\""), [""; 0]);
    let is = "which is no data type and counts as \"unset\"";
    assert_eq!(
        remarks("\"data_type\": \"flaot\"", "\"relu_fw\""),
        [
            format!("tensors[0].data_type: is \"flaot\", {is}; did you mean \"float\"?"),
            "nodes[0].parameters.operation: is \"relu_fw\", which is not a value of PointwiseMode and counts as \"unset\"; did you mean \"relu_fwd\"?".to_owned(),
        ]
    );
    assert_eq!(remarks("\"data_type\": 3", "\"relu_fwd\""), [format!("tensors[0].data_type: is 3, {is}")]);
    fails(
        &graph(float, "\"type\": \"PointwizeAttributes\""),
        &["nodes[0].type: is \"PointwizeAttributes\"", "did you mean \"PointwiseAttributes\"?"],
    );
    let misspelled =
        graph(float, "\"type\": \"PointwiseAttributes\", \"parameters\": {\"operation\": \"relu_fwd\"}")
            .replace("in_0_tensor_uid", "in_0_tensr_uid");
    fails(&misspelled, &["nodes[0].inputs.in_0_tensor_uid: is missing", "; there is \"in_0_tensr_uid\""]);
}

#[test]
fn known_words_are_listed_once() {
    let node = |mode: &str| {
        format!(
            "{{\"type\": \"PointwiseAttributes\", \"parameters\": {{\"operation\": \"{mode}\"}}, \"inputs\": \
             {{\"in_0_tensor_uid\": 1}}, \"outputs\": {{\"out_0_tensor_uid\": 1}}}}"
        )
    };
    let nodes = ["mystery", "relu_fw", "mystery", "relu_fw", "puzzle"].map(node).join(", ");
    let text = format!(
        "{{\"tensors\": [{{\"uid\": 1, \"dims\": [1], \"strides\": [1], \"data_type\": \"float\"}}], \"nodes\": [{nodes}]}}"
    );
    let remarks = read_with_remarks(text.as_bytes()).unwrap().1;
    let [first, near, again, near_again, other] = remarks.as_slice() else { panic!("{remarks:?}") };
    let is = |at: usize, mode: &str| {
        format!(
            "nodes[{at}].parameters.operation: is \"{mode}\", which is not a value of PointwiseMode and counts as \"unset\""
        )
    };
    assert!(first.starts_with(&format!("{}; known are abs, add, ", is(0, "mystery"))), "{first}");
    for (remark, at) in [(near, 1), (near_again, 3)] {
        assert_eq!(remark, &format!("{}; did you mean \"relu_fwd\"?", is(at, "relu_fw")));
    }
    assert_eq!([again, other], [&is(2, "mystery"), &is(4, "puzzle")]);
}

#[test]
fn hostile_texts_get_a_message() {
    for length in 0..CONV.trim_end().len() {
        assert!(read(&CONV[..length]).is_err(), "{length}");
    }
    let whole = compact(ATTENTION).into_bytes();
    for at in 0..whole.len() {
        for byte in [0, b' ', b'"', b'[', b'}', b'9', b'-', b'e', b'\\', 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            if let Ok(graph) = read_bytes(&damaged) {
                let _ = write(&graph);
            }
        }
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        fails(&deep(10_000_000 / open.len()), &["is nested deeper than 64 lists and objects"]);
        fails(&deep(65), &["is nested deeper than 64"]);
        fails(&open.repeat(1_000_000), &["is nested deeper than 64"]);
        let text = CONV.replacen('{', &format!("{{\"metadata\": {}, ", deep(60)), 1);
        assert_eq!(read(&text).unwrap(), read(CONV).unwrap());
    }
    fails(
        &format!("{{\"nodes\": [{}]}}", "0,".repeat(value::MAX_VALUES)),
        &["is one of more than 4194304 values"],
    );
    fails(&" ".repeat(value::MAX_SIZE + 1), &["67108865 bytes, expected at most 67108864"]);
    fails(&format!("{{\"nodes\": {}}}", "9".repeat(5_000_000)), &["nodes: number out of range"]);
    fails(&format!("{{\"tensors\": [], \"nodes\": \"{}\"}}", "é".repeat(5_000_000)), &["nodes: is \"éé"]);
    fails(&format!("{{\"{}\": [1, }}", "k".repeat(5_000_000)), &["kkk"]);
}

/// The page that documents the format begins with a complete graph.
#[test]
fn the_example_in_the_documentation_is_a_graph() {
    let page = include_str!("../../../../docs/json.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (example, rest) = rest.split_once("```").unwrap();
    let graph = read(example).unwrap();
    assert_eq!((graph.nodes.len(), graph.tensors.len()), (2, 4));
    assert_eq!(graph.tensors[2].data_type, DataType::Float);
    assert_eq!(graph.tensors[3].data_type, DataType::Half);
    let Operation::Pointwise(relu) = &graph.nodes[1].operation else { panic!() };
    assert_eq!(relu.relu_upper_clip, Some(6.0));
    for spec in Operation::SPECS {
        let row = rest.lines().find(|line| line.starts_with(&format!("| `{}` |", spec.table)));
        let row = row.unwrap_or_else(|| panic!("{} is not described", spec.table));
        let words: Vec<&str> = row.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let is_named = |name: &str| words.contains(&name) || words.contains(&&*format!("{name}_tensor_uid"));
        // Rows that say "the same" are below the one that lists the fields.
        let same = row.contains("the same");
        for field in spec.fields {
            let is_tensor = matches!(field.kind, FieldKind::Input { .. } | FieldKind::Output { .. });
            let name =
                if field.name == "epsilon" && !is_named("epsilon") { "epsilon_uid" } else { field.name };
            assert!(is_named(name) || (same && !is_tensor), "{} {} is not described", spec.table, field.name);
        }
    }
}
