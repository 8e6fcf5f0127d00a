//! Int8 convolutions of ResNet-50 and int8 matmuls, as quantizers write them: dequantize, compute in single precision, quantize.

use serde_json::json;

use crate::case::{Case, Model, Work};
use crate::graph::{Graph, Uid};
use crate::suites::convolution::{Layer, RESNET50};

/// 3 · 2²²: adding it to a single-precision number rounds that to an integer.
const NO_FRACTION: f32 = 12_582_912.0;

/// The scales of the operands.
const SCALES: [f32; 2] = [0.02, 0.01];

/// The zero points of the image and of the result, of unsigned bytes.
const ZERO: i32 = 128;

/// The scale of the result, so that few sums of so many random terms saturate.
fn scale_of(terms: i64) -> f32 {
    SCALES[0] * SCALES[1] * 74.0 * 74.0 * (terms as f32).sqrt() / 32.0
}

fn two(graph: &mut Graph, operation: &str, a: Uid, b: Uid, dims: &[i64]) -> Uid {
    let out = graph.between(dims);
    graph.pointwise(operation, &[a, b], out, &[]);
    out
}

/// The operands as the graph dequantizes them.
fn operands(case: &mut Case, x: &[i64], w: &[i64]) -> [Uid; 2] {
    let rank = x.len();
    let stored = [case.integers("x", "uint8", x, false), case.integers("w", "int8", w, true)];
    let graph = &mut case.graph;
    let zero = graph.number(ZERO as f32, rank);
    let scales = SCALES.map(|scale| graph.number(scale, rank));
    let moved = two(graph, "sub", stored[0], zero, x);
    [two(graph, "mul", moved, scales[0], x), two(graph, "mul", stored[1], scales[1], w)]
}

/// Adds a bias, optionally RELU, and quantizes the result.
fn quantize(case: &mut Case, product: Uid, bias: &[i64], y: &[i64], scale: f32, has_relu: bool) {
    let stored = case.integers("b", "int32", bias, true);
    let to = case.bytes_output("y", "uint8", y);
    let graph = &mut case.graph;
    let rank = y.len();
    let of_bias = graph.number(SCALES[0] * SCALES[1], rank);
    let bias = two(graph, "mul", stored, of_bias, bias);
    let mut value = two(graph, "add", product, bias, y);
    if has_relu {
        let out = graph.between(y);
        graph.pointwise("relu_fwd", &[value], out, &[]);
        value = out;
    }
    let [scale, whole, zero] = [scale, NO_FRACTION, ZERO as f32].map(|number| graph.number(number, rank));
    value = two(graph, "div", value, scale, y);
    value = two(graph, "add", value, whole, y);
    value = two(graph, "sub", value, whole, y);
    graph.pointwise("add", &[value, zero], to, &[]);
}

/// The ONNX nodes around a convolution or matmul, with the bias as a row.
fn model(terms: i64, columns: i64, rank: usize) -> Model {
    Model::default()
        .number("xs", SCALES[0])
        .number("ws", SCALES[1])
        .number("bs", SCALES[0] * SCALES[1])
        .number("ys", scale_of(terms))
        .byte("z", "uint8", ZERO)
        .byte("none", "int8", 0)
        .layout("b", &(0..rank).collect::<Vec<_>>(), &[columns])
        .node("DequantizeLinear", &["x", "xs", "z"], &["xd"], json!({}))
        .node("DequantizeLinear", &["w", "ws", "none"], &["wd"], json!({}))
}

fn convolution(layer: &Layer, batch: i64) -> Case {
    let (x, w, y) = (layer.x(batch), layer.w(), layer.y(batch));
    let terms = w[1] * w[2] * w[3];
    let mut case = Case::new("int8", layer.name(batch), Work::Operations(layer.operations(batch)));
    let [image, filter] = operands(&mut case, &x, &w);
    let product = case.graph.between(&y);
    case.graph.node(
        "ConvolutionFwdAttributes",
        &[("x", image), ("w", filter)],
        &[("y", product)],
        layer.parameters(),
    );
    quantize(&mut case, product, &[1, y[1], 1, 1], &y, scale_of(terms), true);
    let model = model(terms, y[1], 4)
        .node("DequantizeLinear", &["b", "bs"], &["bd"], json!({}))
        .node("Conv", &["xd", "wd", "bd"], &["c"], layer.attributes())
        .node("Relu", &["c"], &["r"], json!({}))
        .node("QuantizeLinear", &["r", "ys", "z"], &["y"], json!({}));
    case.onnx.push(model);
    case
}

fn matmul(name: String, [m, k, n]: [i64; 3]) -> Case {
    let mut case = Case::new("int8", name, Work::Operations(2.0 * (m * k * n) as f64));
    let [a, b] = operands(&mut case, &[m, k], &[k, n]);
    let product = case.graph.between(&[m, n]);
    case.graph.node("MatmulAttributes", &[("a", a), ("b", b)], &[("c", product)], json!({}));
    quantize(&mut case, product, &[1, n], &[m, n], scale_of(k), false);
    let model = model(k, n, 2)
        .node("DequantizeLinear", &["b", "bs"], &["bd"], json!({}))
        .node("Gemm", &["xd", "wd", "bd"], &["g"], json!({}))
        .node("QuantizeLinear", &["g", "ys", "z"], &["y"], json!({}));
    case.onnx.push(model);
    case
}

/// The convolutions with bias and RELU, batch 1 and 16, and matmuls with a bias.
pub fn cases() -> Vec<Case> {
    let convolutions =
        [1, 16].into_iter().flat_map(|batch| RESNET50.iter().map(move |layer| convolution(layer, batch)));
    let sizes = [[128, 768, 768], [512, 768, 3072], [512, 3072, 768], [1024, 1024, 1024], [2048, 2048, 2048]];
    let matmuls = sizes.map(|[m, k, n]| matmul(format!("{m}×{k}×{n}"), [m, k, n]));
    convolutions.chain(matmuls).collect()
}
