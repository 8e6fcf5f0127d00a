//! The knobs of CPU_ENGINE: how many threads, and whether their number may show in the result.

use hipdnn_cpu_plugin::plugin::CpuPlugin;
use hipdnn_plugin_sdk::EnginePlugin;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
    Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode, TensorValue};
use hipdnn_plugin_sdk::wire::KnobSetting;

use super::common::{Case, Random, Strides, channels_last, packed};

/// A graph with work for several threads, and a result to look at.
struct Work {
    name: &'static str,
    case: Case,
    result: i64,
    /// Whether sums are divided among the threads.
    divided: bool,
}

fn filled(case: &mut Case, random: &mut Random, dims: &[i64], order: Strides) -> i64 {
    let uid = case.tensor_with(DataType::Float, dims, &order(dims));
    case.memory(uid).fill(|| random.real(-1.0, 1.0));
    uid
}

const IMAGES: [i64; 4] = [16, 16, 28, 28];
const FILTER: [i64; 4] = [16, 16, 3, 3];

/// A convolution or one of its gradients; where `spoiled`, one element of the input is NaN.
fn convolution(name: &'static str, order: Strides, spoiled: bool) -> Work {
    let (mut case, random) = (Case::new(), &mut Random(7));
    let (padding, ones) = (vec![1, 1], vec![1, 1]);
    let conv_mode = ConvMode::CrossCorrelation;
    let (pre_padding, post_padding, stride, dilation) = (padding.clone(), padding, ones.clone(), ones);
    let result = match name {
        "filter gradient" => {
            let x = filled(&mut case, random, &IMAGES, order);
            let dy = filled(&mut case, random, &IMAGES, order);
            let dw = case.tensor(DataType::Float, &FILTER);
            case.node(ConvolutionBackwardFilter {
                x,
                dy,
                dw,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
            dw
        }
        "data gradient" => {
            let dy = filled(&mut case, random, &IMAGES, order);
            let w = filled(&mut case, random, &FILTER, packed);
            let dx = case.tensor_with(DataType::Float, &IMAGES, &order(&IMAGES));
            case.node(ConvolutionBackwardData {
                dy,
                w,
                dx,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
            dx
        }
        _ => {
            let x = filled(&mut case, random, &IMAGES, order);
            let w = filled(&mut case, random, &FILTER, packed);
            let y = case.tensor_with(DataType::Float, &IMAGES, &order(&IMAGES));
            if spoiled {
                let mut values = case.values(x);
                let middle = values.len() / 2;
                values[middle] = f64::NAN;
                case.fill(x, &values);
            }
            case.node(ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode });
            y
        }
    };
    Work { name, case, result, divided: name == "filter gradient" }
}

/// A batch normalization for training or its gradient; the result is a number for each channel.
fn batchnorm(name: &'static str, order: Strides, divided: bool) -> Work {
    let (mut case, random) = (Case::new(), &mut Random(8));
    let dims = [32, 24, 28, 28];
    let channels = [1, dims[1], 1, 1];
    let x = filled(&mut case, random, &dims, order);
    let scale = filled(&mut case, random, &channels, packed);
    let result = if name == "batchnorm gradient" {
        let dy = filled(&mut case, random, &dims, order);
        let dx = case.tensor_with(DataType::Float, &dims, &order(&dims));
        let [dscale, dbias] = [0; 2].map(|_: i32| case.tensor(DataType::Float, &channels));
        case.node(BatchnormBackward {
            dy,
            x,
            scale,
            dx,
            dscale,
            dbias,
            mean: None,
            inv_variance: None,
            peer_stats: vec![],
        });
        dscale
    } else {
        let bias = filled(&mut case, random, &channels, packed);
        let epsilon = case.value(DataType::Float, TensorValue::Float32(1e-5));
        let y = case.tensor_with(DataType::Float, &dims, &order(&dims));
        let [mean, inv_variance] = [0; 2].map(|_: i32| case.tensor(DataType::Float, &channels));
        case.node(Batchnorm {
            x,
            scale,
            bias,
            epsilon,
            y,
            mean: Some(mean),
            inv_variance: Some(inv_variance),
            peer_stats: vec![],
            prev_running_mean: None,
            prev_running_variance: None,
            momentum: None,
            next_running_mean: None,
            next_running_variance: None,
        });
        mean
    };
    Work { name, case, result, divided }
}

fn pointwise(name: &'static str) -> Work {
    let (mut case, random) = (Case::new(), &mut Random(9));
    let dims = [37, 1009];
    let in_0 = filled(&mut case, random, &dims, packed);
    let out_0 = case.tensor(DataType::Float, &dims);
    case.node(Pointwise::new(PointwiseMode::TanhFwd, in_0, None, out_0));
    Work { name, case, result: out_0, divided: false }
}

fn all() -> Vec<Work> {
    vec![
        convolution("convolution", packed, false),
        convolution("convolution, channels last", channels_last, false),
        convolution("convolution with NaN", packed, true),
        convolution("data gradient", packed, false),
        convolution("filter gradient", packed, false),
        convolution("filter gradient", channels_last, false),
        batchnorm("batchnorm", packed, false),
        batchnorm("batchnorm", channels_last, true),
        batchnorm("batchnorm gradient", packed, false),
        batchnorm("batchnorm gradient", channels_last, true),
        pointwise("tanh"),
    ]
}

impl Work {
    /// The result with these settings.
    fn run(&self, threads: i64, deterministic: bool) -> Vec<f64> {
        let set = |id: &str, value: i64| KnobSetting { knob_id: id.to_owned(), value: value.into() };
        let knobs = [set("threads", threads), set("deterministic", deterministic.into())];
        let plan = CpuPlugin::plan(&(), 0, &self.case.graph, &knobs).unwrap();
        let mut case = self.case.clone();
        case.execute(plan.plan());
        case.values(self.result)
    }
}

/// The bits of numbers; one NaN is as good as another.
fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| if value.is_nan() { 0 } else { value.to_bits() }).collect()
}

#[test]
fn deterministic_results_do_not_show_the_number_of_threads() {
    for work in all() {
        let one = work.run(1, true);
        for threads in [2, 3, 5, 0] {
            let other = work.run(threads, true);
            assert!(bits(&one) == bits(&other), "{}: 1 thread and {threads} differ", work.name);
        }
        // And they are results.
        for (at, (got, expected)) in one.iter().zip(work.run(1, false)).enumerate() {
            let close = (got - expected).abs() <= 1e-3 * expected.abs().max(1.0);
            assert!(
                close || (got.is_nan() && expected.is_nan()),
                "{}: element {at} is {got}, expected {expected}",
                work.name
            );
        }
    }
}

/// What the documentation says of the knob at 0: these sums show it, and nothing else does.
#[test]
fn other_results_show_it_where_sums_are_divided_among_the_threads() {
    for work in all() {
        let one = work.run(1, false);
        let same = [2, 3, 5].map(|threads| bits(&one) == bits(&work.run(threads, false)));
        assert_eq!(same.contains(&false), work.divided, "{}: {same:?}", work.name);
    }
}

#[test]
fn a_saved_plan_keeps_its_knobs() {
    let work = convolution("filter gradient", packed, false);
    let set = |id: &str, value: i64| KnobSetting { knob_id: id.to_owned(), value: value.into() };
    let knobs = [set("threads", 3), set("deterministic", 1)];
    let plan = CpuPlugin::plan(&(), 0, &work.case.graph, &knobs).unwrap();
    let (_, config) = hipdnn_cpu_plugin::compiled::Compiled::read(&plan.save().unwrap()).unwrap();
    assert_eq!(config.knobs, knobs);
}
