//! Operations on tensors without windows.

use serde_json::json;

use super::problem::Problem;
use super::{empty, joined};
use crate::case::{Case, Model, Work};

fn bytes(dims: &[&[i64]]) -> Work {
    Work::Bytes(4.0 * dims.iter().map(|dims| dims.iter().product::<i64>() as f64).sum::<f64>())
}

/// Softmax along a dimension, as five operations.
pub(super) fn softmax(problem: &Problem) -> Result<Case, String> {
    let dims = problem.dims("x")?;
    let axis = problem.number("axis", 1)?;
    let mut column = dims.clone();
    let at = usize::try_from(axis).ok().and_then(|axis| column.get_mut(axis));
    *at.ok_or_else(|| format!("{}: axis", problem.text))? = 1;
    let mut case = empty(problem, bytes(&[&dims, &dims]))?;
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
    case.onnx.push(Model::default().node("Softmax", &["x"], &["y"], json!({"axis": axis})));
    case.onednn = Some(format!("softmax x={} axis={axis}", joined(&dims)));
    Ok(case)
}

/// Layer normalization over the last dimension.
pub(super) fn layernorm(problem: &Problem) -> Result<Case, String> {
    let dims = problem.dims("x")?;
    let len = dims.last().copied().unwrap_or(1);
    let rows = dims.iter().product::<i64>() / len;
    let mut row = vec![1; dims.len()];
    if let Some(last) = row.last_mut() {
        *last = len;
    }
    let mut case = empty(problem, bytes(&[&dims, &dims]))?;
    let x = case.input("x", &dims);
    let [scale, bias] = ["scale", "bias"].map(|name| case.weight(name, &row));
    let y = case.output("y", &dims);
    let epsilon = case.graph.number(1e-5, 1);
    let inputs = [("x", x), ("scale", scale), ("bias", bias), ("epsilon", epsilon)];
    let rest = json!({"normalized_dim_count": 1, "forward_phase": 1});
    case.graph.node("LayernormAttributes", &inputs, &[("y", y)], rest);
    let order: Vec<usize> = (0..dims.len()).collect();
    let model = Model::default().layout("scale", &order, &[len]).layout("bias", &order, &[len]);
    let attributes = json!({"axis": -1, "epsilon": 1e-5});
    case.onnx.push(model.node("LayerNormalization", &["x", "scale", "bias"], &["y"], attributes));
    case.onednn = Some(format!("layernorm m={rows} n={len}"));
    Ok(case)
}

/// A reduction; ONNX and oneDNN also keep its dimensions.
pub(super) fn reduction(problem: &Problem) -> Result<Case, String> {
    let (x, y) = (problem.dims("x")?, problem.dims("y")?);
    let mode = problem.word("mode")?;
    let (onnx, onednn) = match mode {
        "add" => ("ReduceSum", "sum"),
        "avg" => ("ReduceMean", "mean"),
        "max" => ("ReduceMax", "max"),
        "min" => ("ReduceMin", "min"),
        "mul" => ("ReduceProd", "mul"),
        "norm1" => ("ReduceL1", "norm1"),
        "norm2" => ("ReduceL2", "norm2"),
        _ => return Err(format!("{}: mode is {mode}", problem.text)),
    };
    let mut case = empty(problem, bytes(&[&x, &y]))?;
    // Products of many values around 1 are finite.
    let range = if mode == "mul" { (0.9, 1.1) } else { (-1.0, 1.0) };
    let from = case.ranged("x", &x, range, false);
    let to = case.output("y", &y);
    case.graph.reduction(mode, from, to);
    let axes: Vec<i64> =
        x.iter().zip(&y).zip(0..).filter(|((x, y), _)| x != y).map(|(_, axis)| axis).collect();
    let model = Model::default().integers("axes", &axes);
    case.onnx.push(model.node(onnx, &["x", "axes"], &["y"], json!({"keepdims": 1})));
    case.onednn = Some(format!("reduce alg={onednn} x={} y={}", joined(&x), joined(&y)));
    Ok(case)
}

/// A function of each element.
pub(super) fn eltwise(problem: &Problem) -> Result<Case, String> {
    let dims = problem.dims("x")?;
    let operation = problem.word("op")?;
    let (onnx, onednn, range) = match operation {
        "relu_fwd" => ("Relu", "relu", (-1.0, 1.0)),
        "gelu_fwd" => ("Gelu", "gelu_erf", (-3.0, 3.0)),
        "tanh_fwd" => ("Tanh", "tanh", (-3.0, 3.0)),
        "sigmoid_fwd" => ("Sigmoid", "logistic", (-3.0, 3.0)),
        "elu_fwd" => ("Elu", "elu", (-3.0, 3.0)),
        "softplus_fwd" => ("Softplus", "soft_relu", (-3.0, 3.0)),
        "exp" => ("Exp", "exp", (-3.0, 3.0)),
        "log" => ("Log", "log", (0.5, 3.0)),
        "sqrt" => ("Sqrt", "sqrt", (0.5, 3.0)),
        "abs" => ("Abs", "abs", (-1.0, 1.0)),
        _ => return Err(format!("{}: op is {operation}", problem.text)),
    };
    let mut case = empty(problem, bytes(&[&dims, &dims]))?;
    let x = case.ranged("x", &dims, range, false);
    let y = case.output("y", &dims);
    case.graph.pointwise(operation, &[x], y, &[]);
    case.onnx.push(Model::default().node(onnx, &["x"], &["y"], json!({})));
    case.onednn = Some(format!("eltwise alg={onednn} x={}", joined(&dims)));
    Ok(case)
}

/// An operation on two tensors with broadcast.
pub(super) fn binary(problem: &Problem) -> Result<Case, String> {
    let (a, b) = (problem.dims("a")?, problem.dims("b")?);
    let operation = problem.word("op")?;
    let (onnx, onednn) = match operation {
        "add" => ("Add", "add"),
        "sub" => ("Sub", "sub"),
        "mul" => ("Mul", "mul"),
        "div" => ("Div", "div"),
        "max_op" => ("Max", "max"),
        "min_op" => ("Min", "min"),
        _ => return Err(format!("{}: op is {operation}", problem.text)),
    };
    let dims: Vec<i64> = a.iter().zip(&b).map(|(a, b)| *a.max(b)).collect();
    let mut case = empty(problem, bytes(&[&a, &b, &dims]))?;
    let [x, z] = [("a", &a), ("b", &b)].map(|(name, dims)| case.ranged(name, dims, (0.5, 1.5), false));
    let y = case.output("y", &dims);
    case.graph.pointwise(operation, &[x, z], y, &[]);
    case.onnx.push(Model::default().node(onnx, &["a", "b"], &["y"], json!({})));
    if a == dims {
        case.onednn = Some(format!("binary alg={onednn} a={} b={}", joined(&a), joined(&b)));
    }
    Ok(case)
}

/// Matmuls with broadcast batch dimensions. A two-dimensional b counts as weights.
pub(super) fn matmul(problem: &Problem) -> Result<Case, String> {
    let (a, b) = (problem.dims("a")?, problem.dims("b")?);
    let ([batch @ .., m, k], [other @ .., _, n]) = (a.as_slice(), b.as_slice()) else {
        return Err(format!("{}: expected matrices", problem.text));
    };
    let mut y: Vec<i64> = batch.iter().zip(other).map(|(a, b)| *a.max(b)).collect();
    y.extend([m, n]);
    let work = Work::Operations(2.0 * *k as f64 * y.iter().product::<i64>() as f64);
    let mut case = empty(problem, work)?;
    let x = case.input("a", &a);
    let w = case.ranged("b", &b, (-1.0, 1.0), other.is_empty());
    let to = case.output("y", &y);
    case.graph.node("MatmulAttributes", &[("a", x), ("b", w)], &[("c", to)], json!({}));
    case.onnx.push(Model::default().node("MatMul", &["a", "b"], &["y"], json!({})));
    case.onednn = Some(format!("matmuls a={} b={}", joined(&a), joined(&b)));
    Ok(case)
}
