//! Cases with conversion to single precision, or with groups, compared with the same in single precision and one group.

use serde_json::json;

use crate::case::{Case, Work};

const SUITE: &str = "converted";

/// Types and the bits of an element.
const FLOAT: (&str, i64) = ("float", 32);
const SMALL: [(&str, i64); 3] = [("fp8_e8m0", 8), ("int4", 4), ("fp4_e2m1", 4)];

const SIDE: i64 = 256;
const EXPERTS: i64 = 8;
const BLOCK: i64 = 32;

fn product(of: (&str, i64)) -> Case {
    let dims = [SIDE, SIDE];
    let mut case = Case::new(
        SUITE,
        format!("matmul {SIDE}³ {}", of.0),
        Work::Operations(2.0 * (SIDE * SIDE * SIDE) as f64),
    );
    let (a, b) = (case.typed("a", of, &dims), case.typed("b", of, &dims));
    let c = case.own_output(&dims);
    case.graph.node("MatmulAttributes", &[("a", a), ("b", b)], &[("c", c)], json!({}));
    case
}

fn convolution(filter: (&str, i64)) -> Case {
    let (image, window) = ([1, 64, 56, 56], [64, 64, 3, 3]);
    let operations = 2.0 * (56 * 56 * 64 * 64 * 9) as f64;
    let mut case =
        Case::new(SUITE, format!("64→64 3×3 at 56² {} filter", filter.0), Work::Operations(operations));
    let (x, w) = (case.input("x", &image), case.typed("w", filter, &window));
    let y = case.own_output(&image);
    let parameters = json!({"parameters": {
        "pre_padding": [1, 1], "post_padding": [1, 1], "stride": [1, 1], "dilation": [1, 1],
        "conv_mode": "CROSS_CORRELATION",
    }});
    case.graph.node("ConvolutionFwdAttributes", &[("x", x), ("w", w)], &[("y", y)], parameters);
    case
}

/// Groups of equal numbers of rows, or the gradient of their matrices.
fn mixture(is_gradient: bool) -> Case {
    let name = if is_gradient { "mixture gradient" } else { "mixture" };
    let operations = Work::Operations(2.0 * (SIDE * SIDE * SIDE) as f64);
    let mut case = Case::new(SUITE, format!("{name} {SIDE}×{SIDE}, {EXPERTS} experts"), operations);
    let (rows, weights, groups) = ([1, SIDE, SIDE], [EXPERTS, SIDE, SIDE], [EXPERTS, 1, 1]);
    let (token, like) = (case.input("token", &rows), case.input("like", &groups));
    let graph = &mut case.graph;
    let [index, first] = [(); 2].map(|()| graph.typed("int32", &groups, true));
    let of_group = graph.number((SIDE / EXPERTS) as f32, 3);
    graph.index(like, 0, index);
    graph.pointwise("mul", &[index, of_group], first, &[]);
    let inputs = [("token", token), ("first_token_offset", first)];
    if is_gradient {
        let (doutput, dweight) = (case.input("doutput", &rows), case.own_output(&weights));
        let inputs = [inputs.as_slice(), &[("doutput", doutput)]].concat();
        case.graph.node("MoeGroupedMatmulBwdAttributes", &inputs, &[("dweight", dweight)], json!({}));
    } else {
        let (weight, output) = (case.input("weight", &weights), case.own_output(&rows));
        let inputs = [inputs.as_slice(), &[("weight", weight)]].concat();
        let rest = json!({"mode": "none", "top_k": 1});
        case.graph.node("MoeGroupedMatmulAttributes", &inputs, &[("output", output)], rest);
    }
    case
}

/// To 4 bits with scales of 8 bits, and back.
fn block_scale() -> Case {
    let (dims, of_scale) = ([SIDE, SIDE], [SIDE, SIDE / BLOCK]);
    let name = format!("{SIDE}² to fp4_e2m1 and back, blocks of {BLOCK}");
    let mut case = Case::new(SUITE, name, Work::Bytes(9.0 * (SIDE * SIDE) as f64));
    let (x, back) = (case.input("x", &dims), case.own_output(&dims));
    let graph = &mut case.graph;
    let y = graph.typed("fp4_e2m1", &dims, true);
    let scale = graph.typed("fp8_e8m0", &of_scale, true);
    let rest = json!({"block_size": BLOCK, "axis": 1, "transpose": false});
    graph.node("BlockScaleQuantizeAttributes", &[("x", x)], &[("y", y), ("scale", scale)], rest);
    let rest = json!({"block_size": [BLOCK], "is_negative_scale": false});
    graph.node("BlockScaleDequantizeAttributes", &[("x", y), ("scale", scale)], &[("y", back)], rest);
    case
}

/// All of them, each kind after its sibling of single precision.
pub fn cases() -> Vec<Case> {
    let products = std::iter::once(FLOAT).chain(SMALL).map(product);
    let mixtures = [false, true].map(mixture);
    let convolutions = [FLOAT, ("int32", 32)].map(convolution);
    products.chain(mixtures).chain(convolutions).chain([block_scale()]).collect()
}
