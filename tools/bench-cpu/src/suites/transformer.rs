//! Matmuls, normalizations and attention, as in BERT-base.

use serde_json::json;

use crate::case::{Case, Model, Work};

const WIDTH: i64 = 768;
const HEADS: i64 = 12;
const SEQUENCES: [i64; 2] = [128, 512];

/// y = a · b, optionally with a bias and GELU.
fn product(suite: &'static str, name: String, [m, k, n]: [i64; 3], has_bias: bool, has_gelu: bool) -> Case {
    let mut case = Case::new(suite, name, Work::Operations(2.0 * (m * k * n) as f64));
    let a = case.input("a", &[m, k]);
    let b = case.weight("b", &[k, n]);
    let bias = has_bias.then(|| case.weight("bias", &[1, n]));
    let y = case.output("y", &[m, n]);
    let graph = &mut case.graph;
    let mut model = Model::default();
    let to = if has_bias { graph.between(&[m, n]) } else { y };
    graph.node("MatmulAttributes", &[("a", a), ("b", b)], &[("c", to)], json!({}));
    model = model.node("MatMul", &["a", "b"], &[if has_bias { "p" } else { "y" }], json!({}));
    if let Some(bias) = bias {
        let sum = if has_gelu { graph.between(&[m, n]) } else { y };
        graph.pointwise("add", &[to, bias], sum, &[]);
        model = model.layout("bias", &[0, 1], &[n]);
        model = model.node("Add", &["p", "bias"], &[if has_gelu { "s" } else { "y" }], json!({}));
        if has_gelu {
            graph.pointwise("gelu_fwd", &[sum], y, &[]);
            model = model.node("Gelu", &["s"], &["y"], json!({}));
        }
    }
    case.onnx.push(model);
    let after = match (has_bias, has_gelu) {
        (false, _) => "none",
        (true, false) => "bias",
        (true, true) => "gelu",
    };
    case.onednn = Some(format!("matmul m={m} k={k} n={n} after={after}"));
    case
}

/// The four matmuls of a layer.
pub fn bert() -> Vec<Case> {
    let of = |sequence: i64| {
        [
            ("qkv", [sequence, WIDTH, 3 * WIDTH], false),
            ("out", [sequence, WIDTH, WIDTH], false),
            ("up+gelu", [sequence, WIDTH, 4 * WIDTH], true),
            ("down", [sequence, 4 * WIDTH, WIDTH], false),
        ]
        .map(|(name, size, has_gelu)| product("bert", format!("{name} {sequence}"), size, true, has_gelu))
    };
    SEQUENCES.into_iter().flat_map(of).collect()
}

/// Plain matmuls of large matrices.
pub fn matmul() -> Vec<Case> {
    let sizes = [[1024, 768, 3072], [1024, 1024, 1024], [2048, 2048, 2048], [4096, 1024, 4096]];
    sizes.map(|[m, k, n]| product("matmul", format!("{m}×{k}×{n}"), [m, k, n], false, false)).into()
}

fn rows(suite: &'static str, name: String, dims: &[i64]) -> Case {
    Case::new(suite, name, Work::Bytes(8.0 * dims.iter().product::<i64>() as f64))
}

/// Layernorm, optionally with GELU.
fn layernorm(sequence: i64, has_gelu: bool) -> Case {
    let dims = [sequence, WIDTH];
    let name = format!("layernorm{} {sequence}×{WIDTH}", if has_gelu { "+gelu" } else { "" });
    let mut case = rows("norm", name, &dims);
    let x = case.input("x", &dims);
    let scale = case.weight("scale", &[1, WIDTH]);
    let bias = case.weight("bias", &[1, WIDTH]);
    let y = case.output("y", &dims);
    let graph = &mut case.graph;
    let epsilon = graph.number(1e-5, 1);
    let to = if has_gelu { graph.between(&dims) } else { y };
    let inputs = [("x", x), ("scale", scale), ("bias", bias), ("epsilon", epsilon)];
    let rest = json!({"normalized_dim_count": 1, "forward_phase": 1});
    graph.node("LayernormAttributes", &inputs, &[("y", to)], rest);
    let model = Model::default().layout("scale", &[0, 1], &[WIDTH]).layout("bias", &[0, 1], &[WIDTH]);
    let attributes = json!({"axis": -1, "epsilon": 1e-5});
    let name = if has_gelu { "n" } else { "y" };
    let mut model = model.node("LayerNormalization", &["x", "scale", "bias"], &[name], attributes);
    if has_gelu {
        graph.pointwise("gelu_fwd", &[to], y, &[]);
        model = model.node("Gelu", &["n"], &["y"], json!({}));
    }
    case.onnx.push(model);
    if !has_gelu {
        case.onednn = Some(format!("layernorm m={sequence} n={WIDTH}"));
    }
    case
}

/// Softmax along the last dimension, as five operations.
fn softmax(sequence: i64) -> Case {
    let dims = [HEADS, sequence, sequence];
    let column = [HEADS, sequence, 1];
    let mut case = rows("norm", format!("softmax {HEADS}×{sequence}×{sequence}"), &dims);
    let x = case.input("x", &dims);
    let y = case.output("y", &dims);
    let graph = &mut case.graph;
    let [largest, sum] = [(); 2].map(|()| graph.between(&column));
    let [moved, powers] = [(); 2].map(|()| graph.between(&dims));
    graph.reduction("max", x, largest);
    graph.pointwise("sub", &[x, largest], moved, &[]);
    graph.pointwise("exp", &[moved], powers, &[]);
    graph.reduction("add", powers, sum);
    graph.pointwise("div", &[powers, sum], y, &[]);
    case.onnx.push(Model::default().node("Softmax", &["x"], &["y"], json!({"axis": -1})));
    case.onednn = Some(format!("softmax x={HEADS}x{sequence}x{sequence} axis=2"));
    case
}

fn gelu(sequence: i64) -> Case {
    let dims = [sequence, 4 * WIDTH];
    let mut case = rows("norm", format!("gelu {sequence}×{}", 4 * WIDTH), &dims);
    let x = case.input("x", &dims);
    let y = case.output("y", &dims);
    case.graph.pointwise("gelu_fwd", &[x], y, &[]);
    case.onnx.push(Model::default().node("Gelu", &["x"], &["y"], json!({})));
    case
}

/// Layernorm, softmax and GELU of a layer, and layernorm with an activation.
pub fn norm() -> Vec<Case> {
    let of =
        |sequence| [layernorm(sequence, false), layernorm(sequence, true), softmax(sequence), gelu(sequence)];
    SEQUENCES.into_iter().flat_map(of).collect()
}

fn attention(sequence: i64, is_causal: bool) -> Case {
    const DEPTH: i64 = WIDTH / HEADS;
    let dims = [1, HEADS, sequence, DEPTH];
    let pairs = (sequence * sequence) as f64 / if is_causal { 2.0 } else { 1.0 };
    let name = format!("{sequence}{}", if is_causal { " causal" } else { "" });
    let work = Work::Operations(4.0 * pairs * (HEADS * DEPTH) as f64);
    let mut case = Case::new("sdpa", name, work);
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input(name, &dims));
    let o = case.output("o", &dims);
    let scale = 1.0 / (DEPTH as f64).sqrt();
    let rest = json!({"attributes": {
        "generate_stats": false, "causal_mask": is_causal, "attn_scale_value": scale,
    }});
    case.graph.node("SdpaAttributes", &[("q", q), ("k", k), ("v", v)], &[("o", o)], rest);
    let causal = i64::from(is_causal);
    // ONNX's own operation in our layout, and ONNX Runtime's operation in its layout.
    let attributes = json!({"is_causal": causal, "scale": scale});
    case.onnx.push(Model::default().node("Attention", &["q", "k", "v"], &["o"], attributes));
    let attributes = json!({
        "domain": "com.microsoft", "num_heads": HEADS, "unidirectional": causal, "scale": scale,
    });
    let model = ["q", "k", "v", "o"]
        .iter()
        .fold(Model::default(), |model, name| model.layout(name, &[0, 2, 1, 3], &[1, sequence, WIDTH]));
    case.onnx.push(model.node("MultiHeadAttention", &["q", "k", "v"], &["o"], attributes));
    case
}

/// Attention of all heads, causal and not.
pub fn sdpa() -> Vec<Case> {
    let sequences = [128, 256, 512, 1024, 2048, 4096];
    sequences
        .into_iter()
        .flat_map(|sequence| [attention(sequence, false), attention(sequence, true)])
        .collect()
}
