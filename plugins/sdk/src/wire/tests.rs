use super::*;
use crate::graph::operation::{ConvolutionForward, Pointwise};
use crate::graph::{DataType, Graph, Node, PointwiseMode, Tensor, TensorValue};

fn conv_relu() -> Graph {
    let conv = ConvolutionForward {
        pre_padding: vec![1, 0],
        post_padding: vec![0, 1],
        stride: vec![2, 1],
        dilation: vec![1, 3],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    let relu = Pointwise {
        in_0: 3,
        out_0: 4,
        in_1: None,
        in_2: None,
        axis: None,
        operation: PointwiseMode::ReluFwd,
        relu_lower_clip: Some(0.0),
        relu_upper_clip: Some(6.0),
        relu_lower_clip_slope: None,
        swish_beta: None,
        elu_alpha: None,
        softplus_beta: None,
    };
    let mut virtual_tensor = Tensor::new(3, DataType::Float, &[1, 2, 4, 4], &[32, 16, 4, 1]);
    virtual_tensor.is_virtual = true;
    let mut scalar = Tensor::new(5, DataType::Double, &[1], &[1]);
    scalar.value = Some(TensorValue::Float64(0.1));
    Graph {
        name: "conv + relu".into(),
        compute_type: DataType::Float,
        intermediate_type: DataType::Float,
        io_type: DataType::Half,
        tensors: vec![
            Tensor::new(1, DataType::Half, &[1, 3, 9, 9], &[243, 81, 9, 1]),
            Tensor::new(2, DataType::Half, &[2, 3, 3, 3], &[27, 9, 3, 1]),
            virtual_tensor,
            Tensor::new(4, DataType::Half, &[1, 2, 4, 4], &[32, 16, 4, 1]),
            scalar,
        ],
        nodes: vec![
            Node { name: "c".into(), compute_type: DataType::Float, operation: conv.into() },
            Node { name: "r".into(), compute_type: DataType::Float, operation: relu.into() },
        ],
        ..Graph::default()
    }
}

#[test]
fn newer_layout_round_trips() {
    let mut graph = conv_relu();
    graph.preferred_engine_id = Some(-7);
    graph.is_override_shape_enabled = true;
    graph.min_required_engine_api_version = Some(crate::graph::ApiVersion::new(1, 1, 0));
    graph.id = Some(*b"0123456789abcdef");
    graph.tensors[0].alignment = 64;
    graph.tensors[1].ragged_offset_uid = Some(0);
    let bytes = write(&graph, Layout::G2).unwrap();
    let summary = verify(&bytes).unwrap();
    assert_eq!(summary.layout, Layout::G2);
    assert!(!summary.fits_g1);
    assert_eq!(summary.required_api_version, crate::graph::ApiVersion::new(1, 1, 0));
    assert_eq!(summary.tensors[0].alignment, 64);
    assert_eq!(read(&bytes).unwrap(), graph);
}

#[test]
fn older_layout_round_trips_without_compute_types() {
    let mut graph = conv_relu();
    let bytes = write(&graph, Layout::G1).unwrap();
    let summary = verify(&bytes).unwrap();
    assert_eq!(summary.layout, Layout::G1);
    assert!(summary.fits_g1);
    for node in &mut graph.nodes {
        node.compute_type = DataType::Unset;
    }
    assert_eq!(read(&bytes).unwrap(), graph);
}

#[test]
fn older_layout_refuses_what_it_cannot_express() {
    let mut graph = conv_relu();
    graph.tensors[0].data_type = DataType::Int64;
    let message = write(&graph, Layout::G1).unwrap_err().0;
    assert!(message.contains("tensor 1 has type int64"), "{message}");
}

#[test]
fn every_operation_round_trips_with_every_field_set() {
    use crate::graph::operation::{FieldKind, Operation, Value};
    for spec in Operation::SPECS {
        let mut next = 0;
        let values = spec.fields.iter().map(|field| {
            next += 1;
            match field.kind {
                FieldKind::Input { .. } | FieldKind::Output { .. } => Value::Uid(Some(next)),
                FieldKind::Inputs | FieldKind::Outputs => Value::Uids(vec![next, -next]),
                FieldKind::Ints => Value::Ints(vec![next, 2, 3]),
                FieldKind::Int32s => Value::Int32s(vec![32, 1]),
                FieldKind::Int { .. } => Value::Int(Some(next)),
                FieldKind::Int32 { .. } => Value::Int32(Some(16)),
                FieldKind::Float => Value::Float(Some(0.5)),
                FieldKind::Flag { .. } => Value::Flag(Some(true)),
                FieldKind::Enum(_) => Value::Enum(1),
                FieldKind::Text => Value::Text("name".into()),
                FieldKind::Bytes => Value::Bytes(vec![0, 255, 1]),
            }
        });
        let operation = (spec.from_values)(values.collect()).unwrap();
        assert_eq!(operation.spec().table, spec.table);
        let node = Node { name: String::new(), compute_type: DataType::Double, operation };
        let graph = Graph { nodes: vec![node], ..Graph::default() };
        let bytes = write(&graph, Layout::G2).unwrap();
        assert_eq!(read(&bytes).unwrap(), graph, "{}", spec.table);
    }
}

#[test]
fn truncation_and_flipped_bytes_never_panic() {
    for layout in [Layout::G1, Layout::G2] {
        let bytes = write(&conv_relu(), layout).unwrap();
        for length in 0..bytes.len() {
            let result = read(&bytes[..length]);
            // The last bytes are padding, which nothing refers to.
            assert!(
                result.is_err() || length + 8 > bytes.len(),
                "{length} of {} bytes were accepted",
                bytes.len()
            );
        }
        for position in 0..bytes.len() {
            for flip in [1, 4, 0x80, 0xff] {
                let mut hostile = bytes.clone();
                hostile[position] ^= flip;
                let _ = read(&hostile);
            }
        }
    }
}

#[test]
fn an_operation_without_attributes_is_refused() {
    let mut b = flatbuffers::FlatBufferBuilder::new();
    let node = b.start_table();
    b.push_slot_always(8, 5_u8);
    let node = b.end_table(node);
    let nodes = b.create_vector(&[node]);
    let graph = b.start_table();
    b.push_slot_always(14, nodes);
    let graph = b.end_table(graph);
    b.finish_minimal(graph);
    let message = verify(b.finished_data()).unwrap_err().0;
    assert!(message.contains("node 0"), "{message}");
}

#[test]
fn shared_parts_cannot_unpack_without_bound() {
    let mut b = flatbuffers::FlatBufferBuilder::new();
    let dims = b.create_vector(&vec![1_i64; 1000]);
    let tensor = b.start_table();
    b.push_slot_always(12, dims);
    let tensor = b.end_table(tensor);
    let tensors = b.create_vector(&vec![tensor; 10_000]);
    let graph = b.start_table();
    b.push_slot_always(12, tensors);
    let graph = b.end_table(graph);
    b.finish_minimal(graph);
    let message = verify(b.finished_data()).unwrap_err().0;
    assert!(message.contains("unpacks"), "{message}");
}

#[test]
fn engine_config_and_details_round_trip() {
    let config = EngineConfig {
        engine_id: -3,
        knobs: vec![
            KnobSetting { knob_id: "a".into(), value: KnobValue::Int(4) },
            KnobSetting { knob_id: "b".into(), value: KnobValue::Float(0.5) },
            KnobSetting { knob_id: "c".into(), value: KnobValue::Text("x".into()) },
        ],
    };
    assert_eq!(read_engine_config(&write_engine_config(&config)).unwrap(), config);
    let details = EngineDetails {
        engine_id: 9,
        knobs: vec![Knob {
            knob_id: "threads".into(),
            description: "how many".into(),
            default_value: KnobValue::Int(2),
            constraint: Some(KnobConstraint::Int { min: 1, max: 64, step: 1, valid: vec![] }),
            deprecated: true,
        }],
        behavior_notes: vec![2, 0],
        name: "CPU_ENGINE".into(),
    };
    assert_eq!(read_engine_details(&write_engine_details(&details)).unwrap(), details);
    assert_eq!(read_knob(&write_knob(&details.knobs[0])).unwrap(), details.knobs[0]);
    for setting in &config.knobs {
        assert_eq!(read_knob_setting(&write_knob_setting(setting)).unwrap(), *setting);
    }
}

#[test]
fn shared_settings_and_knobs_cannot_unpack_without_bound() {
    let setting =
        |id: &str, text: &str| KnobSetting { knob_id: id.into(), value: KnobValue::Text(text.into()) };
    let config = |setting: KnobSetting, count: usize| {
        write_engine_config(&EngineConfig { engine_id: 1, knobs: vec![setting; count] })
    };
    let long = "k".repeat(65536);
    assert_eq!(read_engine_config(&config(setting(&long[..4096], &long), 2)).unwrap().knobs.len(), 2);
    for (bytes, part) in [
        (config(setting("k", ""), 1025), "1025 knobs, expected at most 1024"),
        (config(setting(&long[..4097], ""), 1), "4097 bytes, expected 1 to 4096"),
        (config(setting("", ""), 1), "0 bytes, expected 1 to 4096"),
        (config(setting("k", &format!("{long}k")), 1), "65537 bytes, expected at most 65536"),
    ] {
        let message = read_engine_config(&bytes).unwrap_err().0;
        assert!(message.contains(part), "{message}");
    }
    let details = EngineDetails { knobs: vec![Knob::flag("k", "", false); 1025], ..EngineDetails::default() };
    let message = read_engine_details(&write_engine_details(&details)).unwrap_err().0;
    assert!(message.contains("1025 knobs"), "{message}");
}

#[test]
fn channel_outputs_of_a_batch_normalization_of_2025_have_the_type_of_scale() {
    use crate::graph::DataType::{Float, Half};
    use crate::graph::operation::{Batchnorm, BatchnormBackward};
    let tensor = |uid, data_type, channel: bool| {
        let dims = if channel { [1, 4, 1, 1] } else { [2, 4, 3, 3] };
        Tensor::new(uid, data_type, &dims, &[dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1])
    };
    let graph = |of_scale| {
        let training = Batchnorm { mean: Some(6), inv_variance: Some(7), ..Batchnorm::new(1, 2, 3, 4, 5) };
        let backward = BatchnormBackward {
            dy: 5,
            x: 1,
            scale: 2,
            dx: 12,
            dscale: 8,
            dbias: 9,
            mean: None,
            inv_variance: None,
            peer_stats: Vec::new(),
        };
        let node = |operation| Node { name: String::new(), compute_type: DataType::Unset, operation };
        let parameters = [2, 3, 4].map(|uid| tensor(uid, of_scale, true)).into_iter();
        let images = [1, 5, 12].map(|uid| tensor(uid, Half, false));
        Graph {
            compute_type: Float,
            io_type: Half,
            tensors: parameters.chain(images).chain((6..=11).map(|uid| tensor(uid, Half, true))).collect(),
            nodes: vec![node(training.into()), node(backward.into())],
            ..Graph::default()
        }
    };
    let types = |of_scale, layout| {
        let read = read(&write(&graph(of_scale), layout).unwrap()).unwrap();
        [1, 5, 6, 7, 8, 9, 10, 12].map(|uid| read.tensor(uid).unwrap().data_type)
    };
    // Nothing writes tensor 10, the others that stay are images.
    assert_eq!(types(Float, Layout::G1), [Half, Half, Float, Float, Float, Float, Half, Half]);
    assert_eq!(types(Half, Layout::G1), [Half; 8]);
    assert_eq!(types(Float, Layout::G2), [Half; 8]);
}
