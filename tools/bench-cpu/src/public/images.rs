//! Operations on images: convolutions, pooling, batch normalization.

use serde_json::{Value, json};

use super::problem::{Layout, Problem};
use super::{empty, joined};
use crate::case::{Case, Model, Work};
use crate::graph::Uid;

/// Windows that slide over an image.
struct Window {
    size: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
}

impl Window {
    fn of(problem: &Problem, size: Vec<i64>) -> Result<Self, String> {
        let of = |key, fill| problem.spatial(key, size.len(), fill);
        let [stride, dilation] = [of("stride", 1)?, of("dilation", 1)?];
        let [pre, post] = [of("pre", 0)?, of("post", 0)?];
        Ok(Self { size, stride, dilation, pre, post })
    }

    /// The dilated size of a window.
    fn extent(&self, axis: usize) -> Option<i64> {
        Some(self.dilation.get(axis)? * (self.size.get(axis)? - 1) + 1)
    }

    /// The spatial dimensions of the output.
    fn output(&self, input: &[i64]) -> Result<Vec<i64>, String> {
        let of = |(axis, input): (usize, &i64)| {
            let padded = input + self.pre.get(axis)? + self.post.get(axis)?;
            let output = (padded - self.extent(axis)?) / self.stride.get(axis)? + 1;
            (output > 0).then_some(output)
        };
        input
            .iter()
            .enumerate()
            .map(of)
            .collect::<Option<_>>()
            .ok_or_else(|| format!("no output of {input:?}"))
    }

    fn pads(&self) -> Vec<i64> {
        [self.pre.as_slice(), self.post.as_slice()].concat()
    }

    fn words(&self) -> String {
        let [stride, dilation, pre, post] =
            [&self.stride, &self.dilation, &self.pre, &self.post].map(|numbers| joined(numbers));
        format!("window={} stride={stride} dilation={dilation} pre={pre} post={post}", joined(&self.size))
    }
}

/// Splits batch and channels from the spatial dimensions.
fn split<'d>(problem: &Problem, dims: &'d [i64]) -> Result<(i64, i64, &'d [i64]), String> {
    match dims {
        [batch, channels, spatial @ ..] => Ok((*batch, *channels, spatial)),
        _ => Err(format!("{}: {dims:?}, expected batch, channels and space", problem.text)),
    }
}

fn count(dims: &[i64]) -> f64 {
    dims.iter().product::<i64>() as f64
}

impl Case {
    fn image(&mut self, name: &'static str, dims: &[i64], layout: Layout, is_weight: bool) -> Uid {
        let uid = self.ranged(name, dims, (-1.0, 1.0), is_weight);
        self.lay_out(uid, dims, layout)
    }

    fn result(&mut self, name: &'static str, dims: &[i64], layout: Layout) -> Uid {
        let uid = self.output(name, dims);
        self.lay_out(uid, dims, layout)
    }

    fn lay_out(&mut self, uid: Uid, dims: &[i64], layout: Layout) -> Uid {
        self.graph.permuted(uid, dims, &layout.in_memory(dims), &layout.axes_in_memory(dims.len()));
        for input in self.inputs.iter_mut().filter(|input| input.uid == uid) {
            input.dims = layout.in_memory(dims);
        }
        for output in self.outputs.iter_mut().filter(|output| output.uid == uid) {
            output.dims = layout.in_memory(dims);
        }
        uid
    }
}

/// A model with channels-first images.
fn model(arrays: &[(&str, &[i64])], layout: Layout) -> Model {
    match layout {
        Layout::First => Model::default(),
        Layout::Last => arrays.iter().fold(Model::default(), |model, (name, dims)| {
            model.layout(name, &layout.axes_in_memory(dims.len()), dims)
        }),
    }
}

/// A convolution or one of its gradients.
pub(super) fn convolution(problem: &Problem) -> Result<Case, String> {
    let (x, layout) = (problem.dims("x")?, problem.layout());
    let (batch, channels, input) = split(problem, &x)?;
    let groups = problem.number("groups", 1)?;
    let filters = problem.number("k", 1)?;
    let window = Window::of(problem, problem.dims("window")?)?;
    let w = [&[filters, channels / groups], window.size.as_slice()].concat();
    let y = [&[batch, filters], window.output(input)?.as_slice()].concat();
    let work = Work::Operations(2.0 * count(&y) * count(&w) / filters as f64);
    let mut case = empty(problem, work)?;
    let parameters = json!({"parameters": {
        "pre_padding": window.pre, "post_padding": window.post, "stride": window.stride,
        "dilation": window.dilation, "conv_mode": "CROSS_CORRELATION",
    }});
    let mut attributes = json!({
        "pads": window.pads(), "strides": window.stride, "dilations": window.dilation, "group": groups,
        "kernel_shape": window.size,
    });
    let direction = problem.word("dir")?;
    match direction {
        "fwd" => {
            let inputs =
                [("x", case.image("x", &x, layout, false)), ("w", case.image("w", &w, layout, true))];
            let to = case.result("y", &y, layout);
            case.graph.node("ConvolutionFwdAttributes", &inputs, &[("y", to)], parameters);
            let model = model(&[("x", &x), ("w", &w), ("y", &y)], layout);
            case.onnx.push(model.node("Conv", &["x", "w"], &["y"], attributes));
        }
        "data" => {
            let inputs =
                [("dy", case.image("dy", &y, layout, false)), ("w", case.image("w", &w, layout, true))];
            let to = case.result("dx", &x, layout);
            case.graph.node("ConvolutionBwdAttributes", &inputs, &[("dx", to)], parameters);
            let rest: Vec<i64> = (0..input.len())
                .filter_map(|axis| {
                    let end = (y.get(axis + 2)? - 1) * window.stride.get(axis)? + window.extent(axis)?;
                    Some(input.get(axis)? - end + window.pre.get(axis)? + window.post.get(axis)?)
                })
                .collect();
            if let Some(object) = attributes.as_object_mut() {
                object.insert("output_padding".to_owned(), json!(rest));
            }
            let model = model(&[("dy", &y), ("w", &w), ("dx", &x)], layout);
            case.onnx.push(model.node("ConvTranspose", &["dy", "w"], &["dx"], attributes));
        }
        "weights" => {
            let inputs =
                [("x", case.image("x", &x, layout, false)), ("dy", case.image("dy", &y, layout, false))];
            let to = case.result("dw", &w, layout);
            case.graph.node("ConvolutionWrwAttributes", &inputs, &[("dw", to)], parameters);
        }
        _ => return Err(format!("{}: dir is {direction}", problem.text)),
    }
    let words = window.words();
    let shape = format!("x={} k={filters} groups={groups} layout={}", joined(&x), layout.word());
    case.onednn = Some(format!("images_{direction} {shape} {words}"));
    Ok(case)
}

/// Pooling, forward or forward with the gradient.
pub(super) fn pooling(problem: &Problem) -> Result<Case, String> {
    let (x, layout) = (problem.dims("x")?, problem.layout());
    let (batch, channels, input) = split(problem, &x)?;
    let window = Window::of(problem, problem.dims("window")?)?;
    let y = [&[batch, channels], window.output(input)?.as_slice()].concat();
    let algorithm = problem.word("alg")?;
    let trains = problem.word("dir")? == "train";
    let times = if trains { 2.0 } else { 1.0 };
    let mut case = empty(problem, Work::Bytes(4.0 * times * (count(&x) + count(&y))))?;
    let from = case.image("x", &x, layout, false);
    let to = case.result("y", &y, layout);
    let mode = match algorithm {
        "max" => "maxpool",
        "avg_np" => "avgpool_exclude_padding",
        "avg_p" => "avgpool_include_padding",
        _ => return Err(format!("{}: alg is {algorithm}", problem.text)),
    };
    let is_maximum = algorithm == "max";
    let mut rest = json!({
        "pre_padding": window.pre, "post_padding": window.post, "stride": window.stride, "window": window.size,
        "resample_mode": mode, "padding_mode": if is_maximum { "neg_inf_pad" } else { "zero_pad" },
        "x_tensor_uid": from, "y_tensor_uid": to,
    });
    if trains {
        let dy = case.image("dy", &y, layout, false);
        let dx = case.result("dx", &x, layout);
        let mut gradient = rest.clone();
        let objects = (rest.as_object_mut(), gradient.as_object_mut());
        if let (Some(forward), Some(backward)) = objects {
            backward.retain(|key, _| !key.ends_with("_uid"));
            backward.insert("dy_tensor_uid".to_owned(), json!(dy));
            backward.insert("dx_tensor_uid".to_owned(), json!(dx));
            if is_maximum {
                let index = case.own_typed_output("int32", &y);
                case.lay_out(index, &y, layout);
                forward.insert("generate_index".to_owned(), json!(true));
                for of in [forward, backward] {
                    of.insert("index_tensor_uid".to_owned(), json!(index));
                }
            }
        }
        case.graph.node_of("ResampleFwdAttributes", rest);
        case.graph.node_of("ResampleBwdAttributes", gradient);
    } else {
        case.graph.node_of("ResampleFwdAttributes", rest);
        let mut attributes =
            json!({"pads": window.pads(), "strides": window.stride, "kernel_shape": window.size});
        if let (Some(object), false) = (attributes.as_object_mut(), is_maximum) {
            object.insert("count_include_pad".to_owned(), json!(i64::from(algorithm == "avg_p")));
        }
        let kind = if is_maximum { "MaxPool" } else { "AveragePool" };
        case.onnx.push(model(&[("x", &x), ("y", &y)], layout).node(kind, &["x"], &["y"], attributes));
    }
    let words = window.words();
    let shape = format!("x={} layout={} alg={algorithm}", joined(&x), layout.word());
    case.onednn = Some(format!("pool train={} {shape} {words}", i64::from(trains)));
    Ok(case)
}

/// Batch normalization: inference, or training and its gradient.
pub(super) fn batchnorm(problem: &Problem) -> Result<Case, String> {
    let (x, layout) = (problem.dims("x")?, problem.layout());
    let (_, channels, _) = split(problem, &x)?;
    let mut channel = vec![1; x.len()];
    if let Some(of) = channel.get_mut(1) {
        *of = channels;
    }
    let trains = problem.word("dir")? == "train";
    let mut case = empty(problem, Work::Bytes(4.0 * count(&x) * if trains { 5.0 } else { 2.0 }))?;
    let from = case.image("x", &x, layout, false);
    if trains {
        let dy = case.image("dy", &x, layout, false);
        let [scale, bias] = ["scale", "bias"].map(|name| case.weight(name, &channel));
        let [y, dx] = ["y", "dx"].map(|name| case.result(name, &x, layout));
        let [mean, inv_variance] = [(); 2].map(|()| case.own_output(&channel));
        let [dscale, dbias] = ["dscale", "dbias"].map(|name| case.output(name, &channel));
        let epsilon = case.graph.number(1e-5, 1);
        let inputs = [("x", from), ("scale", scale), ("bias", bias), ("epsilon", epsilon)];
        let outputs = [("y", y), ("mean", mean), ("inv_variance", inv_variance)];
        case.graph.node("BatchnormAttributes", &inputs, &outputs, json!({}));
        let inputs =
            [("dy", dy), ("x", from), ("scale", scale), ("mean", mean), ("inv_variance", inv_variance)];
        let outputs = [("dx", dx), ("dscale", dscale), ("dbias", dbias)];
        case.graph.node("BatchnormBackwardAttributes", &inputs, &outputs, json!({}));
        case.onednn = Some(format!("batchnorm x={} layout={}", joined(&x), layout.word()));
        return Ok(case);
    }
    let [scale, bias, mean] = ["scale", "bias", "mean"].map(|name| case.weight(name, &channel));
    let variance = case.ranged("variance", &channel, (0.5, 1.5), true);
    let y = case.result("y", &x, layout);
    let epsilon = case.graph.number(1e-5, 1);
    let inputs = [
        ("x", from),
        ("mean", mean),
        ("variance", variance),
        ("scale", scale),
        ("bias", bias),
        ("epsilon", epsilon),
    ];
    case.graph.node("BatchnormInferenceAttributesVarianceExt", &inputs, &[("y", y)], json!({}));
    let names = ["x", "scale", "bias", "mean", "variance"];
    let order: Vec<usize> = (0..x.len()).collect();
    let model = names
        .iter()
        .skip(1)
        .fold(model(&[("x", &x), ("y", &x)], layout), |model, name| model.layout(name, &order, &[channels]));
    let attributes: Value = json!({"epsilon": 1e-5});
    case.onnx.push(model.node("BatchNormalization", &names, &["y"], attributes));
    Ok(case)
}
