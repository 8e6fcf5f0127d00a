//! Convolutions, alone and with epilogues.

use crate::timing::*;
use crate::*;
use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Operation, PointwiseMode, Tensor};

/// A convolution of square images.
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) batch: i64,
    pub(crate) channels: i64,
    pub(crate) size: i64,
    pub(crate) rows: i64,
    pub(crate) window: i64,
    pub(crate) stride: i64,
    pub(crate) groups: i64,
    pub(crate) channels_last: bool,
    pub(crate) data_type: DataType,
}

pub(crate) const fn layer(
    name: &'static str,
    [batch, channels, size, rows, window, stride]: [i64; 6],
    groups: i64,
    channels_last: bool,
) -> Layer {
    let data_type = DataType::Float;
    Layer { name, batch, channels, size, rows, window, stride, groups, channels_last, data_type }
}

pub(crate) const LAYERS: [Layer; 21] = [
    layer("digits 1", [32, 1, 8, 16, 3, 1], 1, false),
    layer("digits 2", [32, 16, 8, 32, 3, 2], 1, false),
    layer("digits classifier", [32, 512, 1, 10, 1, 1], 1, false),
    layer("56x56 64 3x3", [1, 64, 56, 64, 3, 1], 1, false),
    layer("56x56 64 1x1", [1, 64, 56, 256, 1, 1], 1, false),
    layer("28x28 128 3x3", [1, 128, 28, 128, 3, 1], 1, false),
    layer("28x28 128 3x3 NHWC", [1, 128, 28, 128, 3, 1], 1, true),
    stored(layer("28x28 128 3x3 double", [1, 128, 28, 128, 3, 1], 1, false), DataType::Double),
    stored(layer("28x28 128 3x3 half", [1, 128, 28, 128, 3, 1], 1, false), DataType::Half),
    stored(layer("28x28 128 3x3 bfloat16", [1, 128, 28, 128, 3, 1], 1, false), DataType::Bfloat16),
    layer("28x28 512 1x1", [1, 512, 28, 128, 1, 1], 1, false),
    layer("14x14 256 3x3", [1, 256, 14, 256, 3, 1], 1, false),
    layer("7x7 512 3x3", [1, 512, 7, 512, 3, 1], 1, false),
    layer("224x224 3 7x7/2", [1, 3, 224, 64, 7, 2], 1, false),
    layer("112x112 64 depthwise", [1, 64, 112, 64, 3, 1], 64, false),
    layer("112x112 96 depthwise/2", [1, 96, 112, 96, 3, 2], 96, false),
    layer("14x14 576 depthwise", [1, 576, 14, 576, 3, 1], 576, false),
    layer("7x7 960 depthwise", [1, 960, 7, 960, 3, 1], 960, false),
    layer("14x14 576 depthwise 5x5", [1, 576, 14, 576, 5, 1], 576, false),
    stored(layer("14x14 576 depthwise half", [1, 576, 14, 576, 3, 1], 576, false), DataType::Half),
    layer("14x14 576 depthwise NHWC", [1, 576, 14, 576, 3, 1], 576, true),
];

pub(crate) fn convolution(layer: &Layer, peak: f64) {
    let pad = layer.window / 2;
    let out = (layer.size + 2 * pad - layer.window) / layer.stride + 1;
    let tensors = || {
        vec![
            tensor(
                1,
                [layer.batch, layer.channels, layer.size, layer.size],
                layer.channels_last,
                layer.data_type,
            ),
            tensor(
                2,
                [layer.rows, layer.channels / layer.groups, layer.window, layer.window],
                layer.channels_last,
                layer.data_type,
            ),
            tensor(3, [layer.batch, layer.rows, out, out], layer.channels_last, layer.data_type),
        ]
    };
    let flops = 2.0
        * (layer.batch * layer.rows * out * out) as f64
        * (layer.channels / layer.groups * layer.window * layer.window) as f64;
    let (pre_padding, post_padding) = (vec![pad; 2], vec![pad; 2]);
    let (stride, dilation, conv_mode) = (vec![layer.stride; 2], vec![1; 2], ConvMode::CrossCorrelation);
    let operations: [(&str, Operation); 3] = [
        (
            "forward",
            ConvolutionForward {
                x: 1,
                w: 2,
                y: 3,
                pre_padding: pre_padding.clone(),
                post_padding: post_padding.clone(),
                stride: stride.clone(),
                dilation: dilation.clone(),
                conv_mode,
            }
            .into(),
        ),
        (
            "data",
            ConvolutionBackwardData {
                dy: 3,
                w: 2,
                dx: 1,
                pre_padding: pre_padding.clone(),
                post_padding: post_padding.clone(),
                stride: stride.clone(),
                dilation: dilation.clone(),
                conv_mode,
            }
            .into(),
        ),
        (
            "filter",
            ConvolutionBackwardFilter {
                x: 1,
                dy: 3,
                dw: 2,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            }
            .into(),
        ),
    ];
    for (direction, operation) in operations {
        let seconds = time(tensors(), operation);
        let rate = flops / seconds / 1e9;
        println!(
            "{:<22} {direction:<8} {:>9.1} µs {rate:>8.1} GFLOP/s {:>6.1} % of one thread's peak",
            layer.name,
            seconds * 1e6,
            100.0 * rate / peak
        );
    }
}

/// A convolution with bias, residual and RELU, compared with the convolution alone.
pub(crate) fn fused_convolution(layer: &Layer) {
    let pad = layer.window / 2;
    let out = (layer.size + 2 * pad - layer.window) / layer.stride + 1;
    let x = [layer.batch, layer.channels, layer.size, layer.size];
    let y = [layer.batch, layer.rows, out, out];
    let image = |uid, dims, is_virtual| {
        let tensor = tensor(uid, dims, layer.channels_last, layer.data_type);
        Tensor { is_virtual, ..tensor }
    };
    let w = tensor(
        2,
        [layer.rows, layer.channels / layer.groups, layer.window, layer.window],
        layer.channels_last,
        layer.data_type,
    );
    let convolution = |y| {
        Operation::from(ConvolutionForward {
            x: 1,
            w: 2,
            y,
            pre_padding: vec![pad; 2],
            post_padding: vec![pad; 2],
            stride: vec![layer.stride; 2],
            dilation: vec![1; 2],
            conv_mode: ConvMode::CrossCorrelation,
        })
    };
    let alone = time_graph(vec![image(1, x, false), w.clone(), image(3, y, false)], vec![convolution(3)], 0);
    let tensors = vec![
        image(1, x, false),
        w,
        image(3, y, true),
        tensor(4, [1, layer.rows, 1, 1], false, layer.data_type),
        image(5, y, true),
        image(6, y, false),
        image(7, y, true),
        image(8, y, false),
    ];
    let operations = vec![
        convolution(3),
        on_each_element(PointwiseMode::Add, 3, Some(4), 5),
        on_each_element(PointwiseMode::Add, 5, Some(6), 7),
        on_each_element(PointwiseMode::ReluFwd, 7, None, 8),
    ];
    let fused = time_graph(tensors, operations, 0);
    println!(
        "{:<22} + bias + residual + RELU {:>9.1} µs, {:.2} times the convolution alone",
        layer.name,
        fused * 1e6,
        fused / alone
    );
}
