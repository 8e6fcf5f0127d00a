use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance, ConvolutionForward,
    Pointwise,
};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::{DETERMINISTIC, MIOPEN, ORDERS, TYPES_WITHOUT_BFLOAT16};
use crate::case::{Case, Order};

const CHANNELS: [i64; 4] = [1, 6, 1, 1];
const RANGE: [f32; 2] = [-1.0, 1.0];
/// Bytes of workspace for the channels' variances and for alignment; a tensor between nodes needs more.
const STATISTICS: usize = 512;

/// The nodes of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    /// A convolution with a filter of this size.
    Convolution(i64),
    /// The bias is the second operand, or the first.
    Bias,
    BiasFirst,
    Batchnorm,
    BatchnormVariance,
    Activation(PointwiseMode),
}

/// Adds a node with this result.
type AddNode = Box<dyn FnOnce(&mut Case, i64)>;

/// The setting of a chain.
#[derive(Clone, Copy)]
struct Setting {
    data_type: DataType,
    order: Order,
    /// Whether MIOpen has one kernel for it, so that the workspace holds no tensor between nodes.
    fused: bool,
}

fn chain(links: &[Link], setting: Setting) -> Case {
    let Setting { data_type, order, fused } = setting;
    let mut case = Case::new("");
    let names: Vec<String> = links.iter().map(|link| link.name()).collect();
    let kernels = if fused { "in one kernel" } else { "one by one" };
    case.name = format!("{} {kernels} {} {order:?}", names.join(" + "), data_type.name());
    case.workspace_limit = fused.then_some(STATISTICS);
    let y = [2, 6, 9, 7];
    let mut last = None;
    for (place, link) in links.iter().enumerate() {
        let x = last.unwrap_or_else(|| match link {
            Link::Convolution(_) => case.input(data_type, &[2, 8, 9, 7], order, RANGE),
            _ => case.input(data_type, &y, order, RANGE),
        });
        // Inputs are created before outputs.
        let node = link.node(&mut case, setting, x);
        let out = if place + 1 == links.len() {
            case.output(data_type, &y, order)
        } else {
            case.between(data_type, &y, order)
        };
        node(&mut case, out);
        last = Some(out);
    }
    case
}

impl Link {
    fn name(self) -> String {
        match self {
            Self::Convolution(size) => format!("convolution {size}x{size}"),
            Self::Bias => "bias".to_owned(),
            Self::BiasFirst => "bias first".to_owned(),
            Self::Batchnorm => "batchnorm".to_owned(),
            Self::BatchnormVariance => "batchnorm with variance".to_owned(),
            Self::Activation(mode) => mode.name().to_owned(),
        }
    }

    /// Adds the inputs of the node and says how to add the node with its result.
    fn node(self, case: &mut Case, setting: Setting, x: i64) -> AddNode {
        let Setting { data_type, order, .. } = setting;
        let given =
            |case: &mut Case, range| case.input(DataType::Float, &CHANNELS, Order::ChannelsFirst, range);
        match self {
            Self::Convolution(size) => {
                let w = case.input(data_type, &[6, 8, size, size], order, [-0.3, 0.3]);
                Box::new(move |case, y| {
                    case.node(ConvolutionForward {
                        pre_padding: vec![size / 2; 2],
                        post_padding: vec![size / 2; 2],
                        ..ConvolutionForward::new(x, w, y, 2)
                    });
                })
            }
            Self::Bias | Self::BiasFirst => {
                let bias = case.input(data_type, &CHANNELS, order, RANGE);
                let (a, b) = if self == Self::Bias { (x, bias) } else { (bias, x) };
                Box::new(move |case, y| case.node(Pointwise::new(PointwiseMode::Add, a, Some(b), y)))
            }
            Self::Batchnorm => {
                let (mean, inv_variance) = (given(case, RANGE), given(case, [0.5, 2.0]));
                let (scale, bias) = (given(case, [-1.0, 2.0]), given(case, RANGE));
                Box::new(move |case, y| {
                    case.node(BatchnormInference { x, mean, inv_variance, scale, bias, y });
                })
            }
            Self::BatchnormVariance => {
                let (mean, variance) = (given(case, RANGE), given(case, [0.1, 2.0]));
                let (scale, bias) = (given(case, [-1.0, 2.0]), given(case, RANGE));
                // Large, to detect if it is ignored.
                let epsilon = case.value(0.25);
                Box::new(move |case, y| {
                    case.node(BatchnormInferenceVariance { x, mean, variance, scale, bias, epsilon, y });
                })
            }
            Self::Activation(mode) => Box::new(move |case, y| case.node(Pointwise::new(mode, x, None, y))),
        }
    }
}

/// An activation that may be clipped or leaky.
fn activation(mode: PointwiseMode, name: &str, in_0: i64, in_1: Option<i64>, out_0: i64) -> Pointwise {
    let mut node = Pointwise::new(mode, in_0, in_1, out_0);
    match name {
        " clipped" => node.relu_upper_clip = Some(0.5),
        " leaky" => node.relu_lower_clip_slope = Some(0.25),
        _ => {}
    }
    node
}

/// The gradient through an activation of batchnorm(x), which recomputes the normalized tensor.
fn gradient(mode: PointwiseMode, name: &str, setting: Setting) -> Case {
    let Setting { data_type, order, fused } = setting;
    let dims = [2, 6, 5, 7];
    let kernels = if fused { "in one kernel" } else { "one by one" };
    let mut case = Case::new(format!(
        "batchnorm inference + {}{name} + batchnorm backward {kernels} {} {order:?}",
        mode.name(),
        data_type.name()
    ));
    case.workspace_limit = fused.then_some(0);
    let given = |case: &mut Case, range| case.input(DataType::Float, &CHANNELS, Order::ChannelsFirst, range);
    let x = case.input(data_type, &dims, order, [-2.0, 2.0]);
    let (mean, inv_variance) = (given(&mut case, [-0.5, 0.5]), given(&mut case, [0.5, 1.0]));
    let (scale, bias) = (given(&mut case, [0.5, 2.0]), given(&mut case, RANGE));
    let normalized = case.between(data_type, &dims, order);
    case.node(BatchnormInference { x, mean, inv_variance, scale, bias, y: normalized });
    let dy = case.input(data_type, &dims, order, RANGE);
    let through = case.between(data_type, &dims, order);
    case.node(activation(mode, name, dy, Some(normalized), through));
    let dx = case.output(data_type, &dims, order);
    let dscale = case.output(DataType::Float, &CHANNELS, Order::ChannelsFirst);
    let dbias = case.output(DataType::Float, &CHANNELS, Order::ChannelsFirst);
    case.node(BatchnormBackward {
        dy: through,
        x,
        scale,
        dx,
        dscale,
        dbias,
        mean: Some(mean),
        inv_variance: Some(inv_variance),
        peer_stats: Vec::new(),
    });
    case
}

/// The additional results of a batch normalization in training.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Nothing,
    Statistics,
    RunningStatistics,
}

/// An activation of a batch normalization in training.
fn training(mode: PointwiseMode, name: &str, kept: Kept, setting: Setting) -> Case {
    let Setting { data_type, order, fused } = setting;
    let dims = [2, 6, 9, 11];
    let kernels = if fused { "in one kernel" } else { "one by one" };
    let mut case = Case::new(format!(
        "batchnorm training + {}{name} {kernels}, kept {kept:?} {} {order:?}",
        mode.name(),
        data_type.name()
    ));
    // For unused statistics, and for alignment.
    case.workspace_limit = fused.then_some(if kept == Kept::Nothing { 5 * 256 } else { 3 * 256 });
    let given = |case: &mut Case, range| case.input(DataType::Float, &CHANNELS, Order::ChannelsFirst, range);
    let made = |case: &mut Case| Some(case.output(DataType::Float, &CHANNELS, Order::ChannelsFirst));
    let x = case.input(data_type, &dims, order, [-2.0, 3.0]);
    let running = kept == Kept::RunningStatistics;
    let node = Batchnorm {
        x,
        scale: given(&mut case, [-1.0, 2.0]),
        bias: given(&mut case, RANGE),
        epsilon: case.value(1e-3),
        y: case.between(data_type, &dims, order),
        prev_running_mean: running.then(|| given(&mut case, RANGE)),
        prev_running_variance: running.then(|| given(&mut case, [0.1, 2.0])),
        momentum: running.then(|| case.value(0.3)),
        mean: (kept == Kept::Statistics).then(|| made(&mut case)).flatten(),
        inv_variance: (kept == Kept::Statistics).then(|| made(&mut case)).flatten(),
        next_running_mean: running.then(|| made(&mut case)).flatten(),
        next_running_variance: running.then(|| made(&mut case)).flatten(),
        peer_stats: Vec::new(),
    };
    let normalized = node.y;
    case.node(node);
    let y = case.output(data_type, &dims, order);
    case.node(activation(mode, name, normalized, None, y));
    case
}

/// The chains of training, which MIOpen has kernels for with channels first.
fn training_cases() -> Vec<(&'static str, Case)> {
    use PointwiseMode::{ReluBwd, ReluFwd, SigmoidBwd, SigmoidFwd, TanhFwd};
    let mut cases = Vec::new();
    for data_type in TYPES_WITHOUT_BFLOAT16 {
        for order in ORDERS {
            let setting = Setting { data_type, order, fused: order == Order::ChannelsFirst };
            cases.push((MIOPEN, gradient(ReluBwd, "", setting)));
            cases.push((MIOPEN, training(ReluFwd, "", Kept::Statistics, setting)));
            cases.push((MIOPEN, training(ReluFwd, "", Kept::RunningStatistics, setting)));
        }
    }
    let float = Setting { data_type: DataType::Float, order: Order::ChannelsFirst, fused: true };
    for name in [" clipped", " leaky"] {
        cases.push((MIOPEN, gradient(ReluBwd, name, float)));
        cases.push((MIOPEN, training(ReluFwd, name, Kept::Nothing, float)));
    }
    for mode in [SigmoidFwd, TanhFwd] {
        cases.push((MIOPEN, training(mode, "", Kept::Statistics, float)));
    }
    // The gradient of a sigmoid is computed from its result.
    cases.push((MIOPEN, gradient(SigmoidBwd, "", Setting { fused: false, ..float })));
    cases
}

pub fn cases() -> Vec<(&'static str, Case)> {
    use Link::{Activation, Batchnorm, BatchnormVariance, Bias, BiasFirst, Convolution};
    use PointwiseMode::{EluFwd, ReluFwd, SigmoidFwd, SoftplusFwd, TanhFwd};
    let relu = Activation(ReluFwd);
    let mut cases = Vec::new();
    let float = Setting { data_type: DataType::Float, order: Order::ChannelsFirst, fused: true };
    for mode in [ReluFwd, SigmoidFwd, TanhFwd, EluFwd, SoftplusFwd] {
        cases.push((MIOPEN, chain(&[Convolution(3), Bias, Activation(mode)], float)));
    }
    for links in [
        &[Convolution(3), Bias][..],
        &[Convolution(3), BiasFirst, relu],
        &[Convolution(3), relu],
        &[Convolution(3), Batchnorm],
        &[Convolution(3), Batchnorm, relu],
        &[Convolution(3), BatchnormVariance, relu],
        &[Convolution(3), Bias, BatchnormVariance, relu],
    ] {
        cases.push((MIOPEN, chain(links, float)));
        cases.push((DETERMINISTIC, chain(links, float)));
    }
    for data_type in TYPES_WITHOUT_BFLOAT16 {
        for order in ORDERS {
            let fused = Setting { data_type, order, fused: true };
            cases.push((MIOPEN, chain(&[Batchnorm, relu], fused)));
            cases.push((MIOPEN, chain(&[BatchnormVariance, relu], fused)));
            cases.push((MIOPEN, chain(&[BatchnormVariance, Activation(SigmoidFwd)], fused)));
            let apart = Setting { data_type, order, fused: false };
            cases.push((MIOPEN, chain(&[Convolution(1), Bias, relu], apart)));
            cases.push((MIOPEN, chain(&[Convolution(1), BatchnormVariance, relu], apart)));
        }
    }
    cases.extend(training_cases());
    let last = Setting { order: Order::ChannelsLast, fused: false, ..float };
    cases.push((MIOPEN, chain(&[Convolution(3), Bias, relu], last)));
    cases.push((MIOPEN, chain(&[Convolution(3), Batchnorm, relu], last)));
    let half = Setting { data_type: DataType::Half, fused: false, ..float };
    cases.push((MIOPEN, chain(&[Convolution(3), Bias, relu], half)));
    cases.push((MIOPEN, chain(&[Convolution(3), Batchnorm, relu], half)));
    for order in ORDERS {
        let fused = Setting { order, fused: true, ..half };
        cases.push((MIOPEN, chain(&[Batchnorm, relu], fused).with_wide_tensors()));
    }
    let fused = Setting { fused: true, ..half };
    cases.push((MIOPEN, gradient(PointwiseMode::ReluBwd, "", fused).with_wide_tensors()));
    cases.push((MIOPEN, training(ReluFwd, "", Kept::Statistics, fused).with_wide_tensors()));
    cases
}
