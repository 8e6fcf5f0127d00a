use hipdnn_plugin_sdk::graph::operation::{ConvolutionBackwardData, ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{ConvMode, Node, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::numerics::{MatrixSums, name_of};
use hipdnn_plugin_sdk::wire::KnobSetting;

use crate::knob::{BENCHMARKING, DETERMINISTIC};

use super::*;

fn graph(data_type: DataType, operation: Operation, tensors: &[&[i64]]) -> Graph {
    let tensor = |(place, dims): (usize, &&[i64])| {
        let strides: Vec<i64> = (1..=dims.len()).map(|axis| dims[axis..].iter().product()).collect();
        Tensor::new(place as i64 + 1, data_type, dims, &strides)
    };
    let node = Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
    Graph { tensors: tensors.iter().enumerate().map(tensor).collect(), nodes: vec![node], ..Graph::default() }
}

/// A convolution with square filters.
fn convolution(data_type: DataType, side: i64) -> Graph {
    let operation = ConvolutionForward {
        pre_padding: vec![side / 2; 2],
        post_padding: vec![side / 2; 2],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    graph(data_type, operation.into(), &[&[2, 8, 9, 9], &[16, 8, side, side], &[2, 16, 9, 9]])
}

fn notes(graph: &Graph, options: &Options) -> Vec<&'static str> {
    numerics_of(&prepare(graph).unwrap(), &[0], options).notes.into_iter().map(name_of).collect()
}

#[test]
fn convolutions_have_the_notes_of_every_solution_that_miopen_may_take() {
    let any = Options::default();
    let expected = ["TENSOR_CORE", "FFT", "NONDETERMINISTIC", "WINOGRAD"];
    assert_eq!(notes(&convolution(DataType::Float, 3), &any), expected);
    let expected = ["TENSOR_CORE", "NONDETERMINISTIC", "WINOGRAD", "FLUSH_SUBNORMALS"];
    assert_eq!(notes(&convolution(DataType::Half, 3), &any), expected);
    assert_eq!(notes(&convolution(DataType::Float, 1), &any), ["TENSOR_CORE", "NONDETERMINISTIC"]);
    let sums = |data_type| numerics_of(&prepare(&convolution(data_type, 3)).unwrap(), &[0], &any).matrix_sums;
    assert_eq!(sums(DataType::Bfloat16), Some(MatrixSums { terms: 2, bits: 24 }));
    assert_eq!(sums(DataType::Float), None);
    // gfx90a may compute gradients of half in bfloat16.
    let operation = ConvolutionBackwardData {
        dy: 1,
        w: 2,
        dx: 3,
        pre_padding: vec![1; 2],
        post_padding: vec![1; 2],
        stride: vec![1; 2],
        dilation: vec![1; 2],
        conv_mode: ConvMode::CrossCorrelation,
    };
    let dims: [&[i64]; 3] = [&[2, 16, 9, 9], &[16, 8, 3, 3], &[2, 8, 9, 9]];
    for (data_type, converts) in [(DataType::Half, true), (DataType::Bfloat16, false)] {
        let told = notes(&graph(data_type, operation.clone().into(), &dims), &any);
        assert_eq!(told.contains(&"DOWN_CONVERT_INPUTS"), converts, "{data_type:?}");
    }
    let relu = Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2).into();
    assert!(notes(&graph(DataType::Float, relu, &[&[4, 4], &[4, 4]]), &any).is_empty());
}

#[test]
fn kernels_that_repeat_their_bits_need_both_knobs() {
    let setting = |id: &str, value: i64| KnobSetting { knob_id: id.to_owned(), value: value.into() };
    let repeats = |deterministic, benchmarking| {
        let options =
            Options::of(false, &[setting(DETERMINISTIC, deterministic), setting(BENCHMARKING, benchmarking)]);
        !notes(&convolution(DataType::Float, 3), &options).contains(&"NONDETERMINISTIC")
    };
    assert_eq!([repeats(0, 0), repeats(1, 0), repeats(0, 1), repeats(1, 1)], [false, true, false, false]);
    let of_engine = Options::of(true, &[]);
    assert!(!notes(&convolution(DataType::Float, 3), &of_engine).contains(&"NONDETERMINISTIC"));
}
