//! Memory-bound cases: batch normalization, pointwise chains.

use serde_json::json;

use crate::case::{Case, Model, Work};

fn training([n, c, h, w]: [i64; 4]) -> Case {
    let dims = [n, c, h, w];
    let channel = [1, c, 1, 1];
    let size = 4.0 * (n * c * h * w) as f64;
    // Forward reads x and writes y, backward reads x and dy and writes dx.
    let mut case = Case::new("batchnorm", format!("training {n}×{c}×{h}×{w}"), Work::Bytes(5.0 * size));
    let x = case.input("x", &dims);
    let dy = case.input("dy", &dims);
    let scale = case.weight("scale", &channel);
    let bias = case.weight("bias", &channel);
    let y = case.output("y", &dims);
    let dx = case.output("dx", &dims);
    let [mean, inv_variance] = [(); 2].map(|()| case.own_output(&channel));
    let [dscale, dbias] = ["dscale", "dbias"].map(|name| case.output(name, &channel));
    let graph = &mut case.graph;
    let epsilon = graph.number(1e-5, 1);
    graph.node(
        "BatchnormAttributes",
        &[("x", x), ("scale", scale), ("bias", bias), ("epsilon", epsilon)],
        &[("y", y), ("mean", mean), ("inv_variance", inv_variance)],
        json!({}),
    );
    graph.node(
        "BatchnormBackwardAttributes",
        &[("dy", dy), ("x", x), ("scale", scale), ("mean", mean), ("inv_variance", inv_variance)],
        &[("dx", dx), ("dscale", dscale), ("dbias", dbias)],
        json!({}),
    );
    case.onednn = Some(format!("batchnorm x={n}x{c}x{h}x{w} layout=first"));
    case
}

fn inference([n, c, h, w]: [i64; 4]) -> Case {
    let dims = [n, c, h, w];
    let channel = [1, c, 1, 1];
    let size = 4.0 * (n * c * h * w) as f64;
    let mut case = Case::new("batchnorm", format!("inference+relu {n}×{c}×{h}×{w}"), Work::Bytes(2.0 * size));
    let x = case.input("x", &dims);
    let [scale, bias, mean] = ["scale", "bias", "mean"].map(|name| case.weight(name, &channel));
    let variance = case.ranged("variance", &channel, (0.5, 1.5), true);
    let y = case.output("y", &dims);
    let graph = &mut case.graph;
    let epsilon = graph.number(1e-5, 1);
    let normal = graph.between(&dims);
    let inputs = [
        ("x", x),
        ("mean", mean),
        ("variance", variance),
        ("scale", scale),
        ("bias", bias),
        ("epsilon", epsilon),
    ];
    graph.node("BatchnormInferenceAttributesVarianceExt", &inputs, &[("y", normal)], json!({}));
    graph.pointwise("relu_fwd", &[normal], y, &[]);
    let names = ["x", "scale", "bias", "mean", "variance"];
    let model =
        names.iter().skip(1).fold(Model::default(), |model, name| model.layout(name, &[0, 1, 2, 3], &[c]));
    let model = model.node("BatchNormalization", &names, &["n"], json!({"epsilon": 1e-5}));
    case.onnx.push(model.node("Relu", &["n"], &["y"], json!({})));
    case
}

/// Batch normalization of ResNet-50 images.
pub fn batchnorm() -> Vec<Case> {
    let sizes = [[16, 64, 56, 56], [16, 256, 56, 56], [16, 512, 14, 14], [16, 2048, 7, 7]];
    sizes.into_iter().flat_map(|size| [training(size), inference(size)]).collect()
}

/// y = min(|relu(x · s + t) · z - x|, u) + v
pub fn chain() -> Vec<Case> {
    let dims = [2048, 2048];
    let size = 4.0 * (2048.0 * 2048.0);
    let mut case = Case::new("chain", "2048×2048, two operands", Work::Bytes(3.0 * size));
    let x = case.input("x", &dims);
    let z = case.input("z", &dims);
    let y = case.output("y", &dims);
    let graph = &mut case.graph;
    let [s, t, u, v] = [1.5, 0.25, 0.75, 0.125].map(|value| graph.number(value, 2));
    let steps: [(&str, &[i64]); 7] = [
        ("mul", &[s]),
        ("add", &[t]),
        ("relu_fwd", &[]),
        ("mul", &[z]),
        ("sub", &[x]),
        ("abs", &[]),
        ("min_op", &[u]),
    ];
    let mut last = x;
    for (operation, operands) in steps {
        let to = graph.between(&dims);
        graph.pointwise(operation, &[&[last], operands].concat(), to, &[]);
        last = to;
    }
    // All of them are cheap, so that memory is the limit.
    graph.pointwise("add", &[last, v], y, &[]);
    let model = Model::default().number("s", 1.5).number("t", 0.25).number("u", 0.75).number("v", 0.125);
    let nodes: [(&str, &[&str], &str); 8] = [
        ("Mul", &["x", "s"], "1"),
        ("Add", &["1", "t"], "2"),
        ("Relu", &["2"], "3"),
        ("Mul", &["3", "z"], "4"),
        ("Sub", &["4", "x"], "5"),
        ("Abs", &["5"], "6"),
        ("Min", &["6", "u"], "7"),
        ("Add", &["7", "v"], "y"),
    ];
    case.onnx.push(
        nodes.into_iter().fold(model, |model, (kind, inputs, to)| model.node(kind, inputs, &[to], json!({}))),
    );
    vec![case]
}
