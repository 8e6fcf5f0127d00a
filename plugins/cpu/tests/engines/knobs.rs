//! The knobs of CPU_ENGINE: number of threads, determinism, and constant weights.

use std::sync::Barrier;

use hipdnn_cpu_plugin::plan::compiled::Compiled;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plugin::CpuPlugin;
use hipdnn_plugin_sdk::EnginePlugin;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
    Matmul, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Graph, PointwiseMode, TensorValue};
use hipdnn_plugin_sdk::wire::KnobSetting;

use super::common::{Case, Memory, Random, Strides, channels_last, packed};
use super::limits::Limits;

/// A graph with work for several threads, and its result.
struct Work {
    name: &'static str,
    case: Case,
    result: i64,
    /// Whether sums are divided among the threads.
    divided: bool,
}

fn filled(case: &mut Case, random: &mut Random, dims: &[i64], order: Strides) -> i64 {
    filled_of(case, random, DataType::Float, dims, order)
}

fn filled_of(case: &mut Case, random: &mut Random, of: DataType, dims: &[i64], order: Strides) -> i64 {
    let uid = case.tensor_with(of, dims, &order(dims));
    case.memory(uid).fill(|| random.real(-1.0, 1.0));
    uid
}

const IMAGES: [i64; 4] = [16, 16, 28, 28];
const FILTER: [i64; 4] = [16, 16, 3, 3];
/// The filter shape for groups with too few channels for a vector.
const OF_GROUPS: [i64; 4] = [16, 2, 3, 3];

/// A convolution or one of its gradients; if `spoiled`, one element of the input is NaN.
fn convolution(name: &'static str, order: Strides, spoiled: bool) -> Work {
    let (mut case, random) = (Case::new(), &mut Random(7));
    let (padding, ones) = (vec![1, 1], vec![1, 1]);
    let conv_mode = ConvMode::CrossCorrelation;
    let (pre_padding, post_padding, stride, dilation) = (padding.clone(), padding, ones.clone(), ones);
    let result = match name {
        "filter gradient" | "filter gradient of groups" => {
            let filter = if name == "filter gradient" { FILTER } else { OF_GROUPS };
            let x = filled(&mut case, random, &IMAGES, order);
            let dy = filled(&mut case, random, &IMAGES, order);
            let dw = case.tensor(DataType::Float, &filter);
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
            let of = if name == "convolution of 8 bits" { DataType::Fp8E4m3 } else { DataType::Float };
            let x = filled_of(&mut case, random, of, &IMAGES, order);
            let w = filled_of(&mut case, random, of, &FILTER, packed);
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
    Work { name, case, result, divided: name == "filter gradient of groups" }
}

/// A batch normalization for training or its gradient; the result is one value per channel.
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
            mean: Some(mean),
            inv_variance: Some(inv_variance),
            ..Batchnorm::new(x, scale, bias, epsilon, y)
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
        convolution("filter gradient of groups", packed, false),
        convolution("filter gradient of groups", channels_last, false),
        batchnorm("batchnorm", packed, false),
        batchnorm("batchnorm", channels_last, true),
        batchnorm("batchnorm gradient", packed, false),
        batchnorm("batchnorm gradient", channels_last, true),
        pointwise("tanh"),
    ]
}

impl Work {
    fn knobs(threads: i64, deterministic: bool) -> [KnobSetting; 2] {
        let set = |id: &str, value: i64| KnobSetting { knob_id: id.to_owned(), value: value.into() };
        [set("threads", threads), set("deterministic", deterministic.into())]
    }

    /// The result with these settings.
    fn run(&self, threads: i64, deterministic: bool) -> Vec<f64> {
        let knobs = Self::knobs(threads, deterministic);
        let plan = CpuPlugin::plan(&Default::default(), 0, &self.case.graph, &knobs).unwrap();
        let mut case = self.case.clone();
        case.execute(plan.plan());
        case.values(self.result)
    }
}

/// The bits of values; all NaN are equal.
fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| if value.is_nan() { 0 } else { value.to_bits() }).collect()
}

#[test]
fn deterministic_results_do_not_depend_on_the_number_of_threads() {
    for work in all() {
        let one = work.run(1, true);
        for threads in [2, 3, 5, 0] {
            let other = work.run(threads, true);
            assert!(bits(&one) == bits(&other), "{}: 1 thread and {threads} differ", work.name);
        }
        // Also check the results themselves.
        let (mut got, mut reference) = (work.case.clone(), work.case.clone());
        got.fill(work.result, &one);
        reference.run(planner(1));
        let expected = [(work.result, reference.values(work.result))];
        Limits::of(&work.case, 0, &Work::knobs(1, true)).hold(work.name, &got, &expected);
    }
}

/// As documented for the knob at 0: these sums depend on the number of threads, and nothing else does.
#[test]
fn divided_sums_depend_on_the_number_of_threads() {
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
    let knobs = [set("threads", 3), set("deterministic", 1), set("constant_weights", 1)];
    let plan = CpuPlugin::plan(&Default::default(), 0, &work.case.graph, &knobs).unwrap();
    let config = Compiled::read(&plan.save().unwrap()).unwrap().config;
    assert_eq!(config.knobs, knobs);
}

/// A product of `rows` rows in each of two matrices with a single matrix as operand B, followed by an
/// element-wise operation if `behind`.
fn product(
    name: &'static str,
    data_type: DataType,
    [rows, columns, terms]: [i64; 3],
    order: Strides,
    behind: bool,
) -> Work {
    let (mut case, random) = (Case::new(), &mut Random(11));
    let a = case.tensor(data_type, &[2, rows, terms]);
    let right = [1, terms, columns];
    let b = case.tensor_with(data_type, &right, &order(&right));
    for uid in [a, b] {
        case.memory(uid).fill(|| random.real(-1.0, 1.0));
    }
    let dims = [2, rows, columns];
    let result = if behind {
        let c = case.virtual_tensor(DataType::Float, &dims, &packed(&dims));
        let result = case.tensor(DataType::Float, &dims);
        case.node(Matmul { a, b, c });
        case.node(Pointwise::new(PointwiseMode::Neg, c, None, result));
        result
    } else {
        let c = case.tensor(DataType::Float, &dims);
        case.node(Matmul { a, b, c });
        c
    };
    Work { name, case, result, divided: false }
}

fn columns_first(dims: &[i64]) -> Vec<i64> {
    vec![dims[1] * dims[2], 1, dims[1]]
}

/// The filter of a convolution or data gradient, or operand B: the second tensor of each graph.
const FILTER_UID: i64 = 2;

fn plan_with_constant_weights(graph: &Graph, promised: bool) -> Compiled {
    let knob = KnobSetting { knob_id: "constant_weights".to_owned(), value: i64::from(promised).into() };
    CpuPlugin::plan(&Default::default(), 0, graph, &[knob]).unwrap()
}

fn weighted() -> Vec<Work> {
    vec![
        convolution("convolution", packed, false),
        convolution("convolution, channels last", channels_last, false),
        convolution("convolution of 8 bits", packed, false),
        convolution("data gradient", packed, false),
        product("product", DataType::Float, [50, 130, 70], packed, false),
        product("product, columns first", DataType::Float, [50, 130, 70], columns_first, true),
        product("product of few rows", DataType::Float, [2, 530, 70], packed, false),
        product("product of single rows", DataType::Float, [1, 530, 70], packed, true),
        product("product of long sums", DataType::Double, [9, 50, 1700], packed, false),
        product("product of bfloat16", DataType::Bfloat16, [20, 130, 71], packed, true),
        product("product of half", DataType::Half, [20, 130, 70], columns_first, false),
    ]
}

#[test]
fn constant_weights_are_read_once() {
    for Work { name, mut case, result, .. } in weighted() {
        let [kept, anew] = [true, false].map(|promised| plan_with_constant_weights(&case.graph, promised));
        case.execute(anew.plan());
        let first = case.values(result);
        for _ in 0..2 {
            case.execute(kept.plan());
            assert!(bits(&case.values(result)) == bits(&first), "{name}");
        }
        // Breaks the promise, to show whether the filter is read.
        let other: Vec<f64> = case.values(FILTER_UID).iter().map(|value| -value).collect();
        case.fill(FILTER_UID, &other);
        case.execute(kept.plan());
        assert!(bits(&case.values(result)) == bits(&first), "{name}: the filter was read again");
        case.execute(anew.plan());
        let second = case.values(result);
        assert!(first.iter().zip(&second).all(|(first, second)| *first == -second), "{name}");
        // Another filter at another address was not promised to stay, and does not replace the prepacked one.
        let mut elsewhere = case.clone();
        for _ in 0..2 {
            elsewhere.execute(kept.plan());
            assert!(bits(&elsewhere.values(result)) == bits(&second), "{name}: bound elsewhere");
        }
        case.execute(kept.plan());
        assert!(bits(&case.values(result)) == bits(&first), "{name}: after another filter");
    }
}

#[test]
fn constant_weights_with_nan_and_infinity_stay_so() {
    let Work { mut case, result, .. } = convolution("convolution", packed, false);
    let mut filter = case.values(FILTER_UID);
    filter[0] = f64::INFINITY;
    case.fill(FILTER_UID, &filter);
    case.execute(plan_with_constant_weights(&case.graph, false).plan());
    let expected = case.values(result);
    assert!(
        expected.iter().any(|value| value.is_infinite()) && expected.iter().any(|value| value.is_finite())
    );
    let kept = plan_with_constant_weights(&case.graph, true);
    for _ in 0..2 {
        case.execute(kept.plan());
        assert!(bits(&case.values(result)) == bits(&expected));
    }
}

#[test]
fn weights_that_the_graph_computes_are_not_constant() {
    let (mut case, random) = (Case::new(), &mut Random(10));
    let x = filled(&mut case, random, &IMAGES, packed);
    let raw = filled(&mut case, random, &FILTER, packed);
    let mut shifted = case.graph.clone();
    let w = case.virtual_tensor(DataType::Float, &FILTER, &packed(&FILTER));
    let y = case.tensor(DataType::Float, &IMAGES);
    case.node(Pointwise::new(PointwiseMode::TanhFwd, raw, None, w));
    let (padding, ones) = (vec![1, 1], vec![1, 1]);
    let convolution = ConvolutionForward {
        x,
        w,
        y,
        pre_padding: padding.clone(),
        post_padding: padding,
        stride: ones.clone(),
        dilation: ones,
        conv_mode: ConvMode::CrossCorrelation,
    };
    case.node(convolution);
    shifted.tensors.clone_from(&case.graph.tensors);
    // The same with the intermediate filter bound to memory.
    if let Some(tensor) = shifted.tensors.iter_mut().find(|tensor| tensor.uid == w) {
        tensor.is_virtual = false;
    }
    shifted.nodes.clone_from(&case.graph.nodes);
    let mut bound = Case { graph: shifted, memory: case.memory.clone() };
    let tensor = bound.graph.tensors.iter().find(|tensor| tensor.uid == w).unwrap();
    bound.memory.push(Memory::new(tensor, 0));
    for mut case in [case, bound] {
        let kept = plan_with_constant_weights(&case.graph, true);
        case.execute(kept.plan());
        let first = case.values(y);
        let other: Vec<f64> = case.values(raw).iter().map(|value| -value).collect();
        case.fill(raw, &other);
        case.execute(kept.plan());
        let second = case.values(y);
        assert!(first.iter().zip(&second).all(|(first, second)| *first == -second));
        assert!(first.iter().any(|value| *value != 0.0));
    }
}

/// A product of subnormal numbers on all threads, and of the smallest normal ones.
#[test]
fn subnormal_numbers_are_flushed_if_the_knob_asks_for_it() {
    const SIZES: [i64; 2] = [400, 400];
    let (mut case, subnormal) = (Case::new(), f64::from(f32::MIN_POSITIVE / 8.0));
    let [a, b] = [0; 2].map(|_: i32| case.tensor(DataType::Float, &SIZES));
    let c = case.tensor(DataType::Float, &SIZES);
    case.node(Matmul { a, b, c });
    let mut random = Random(11);
    case.memory(b).fill(|| random.real(1.0, 2.0));
    for (value, threads, flushes) in [(1.0, 1, 1), (2.0, 1, 0), (1.0, 3, 1), (4.0, 3, 0), (100.0, 3, 1)] {
        case.memory(a).fill(|| value * subnormal);
        let knobs = [("threads", threads), ("flush_subnormals", flushes)]
            .map(|(id, value)| KnobSetting { knob_id: id.to_owned(), value: i64::into(value) });
        let plan = CpuPlugin::plan(&Default::default(), 0, &case.graph, &knobs).unwrap();
        case.execute(plan.plan());
        let is_zero = flushes == 1 && value < 8.0;
        assert!(case.values(c).iter().all(|c| (*c == 0.0) == is_zero), "{value}, {knobs:?}");
        // The thread computes as before.
        assert!(std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5) > 0.0);
    }
}

/// The logarithm of a number that counts as 0, in both precisions.
#[test]
fn logarithms_of_flushed_numbers_are_those_of_zeros() {
    for (data_type, subnormal) in
        [(DataType::Float, f64::from(f32::MIN_POSITIVE) / 8.0), (DataType::Double, f64::MIN_POSITIVE / 8.0)]
    {
        let mut case = Case::new();
        case.graph.compute_type = data_type;
        let [x, y] = [0; 2].map(|_: i32| case.tensor(data_type, &[3, 37]));
        case.node(Pointwise::new(PointwiseMode::Log, x, None, y));
        case.memory(x).fill(|| subnormal);
        for (flushes, expected) in [(1, f64::NEG_INFINITY), (0, subnormal.ln())] {
            let knob = KnobSetting { knob_id: "flush_subnormals".to_owned(), value: i64::into(flushes) };
            let knobs = [knob];
            let plan = CpuPlugin::plan(&Default::default(), 0, &case.graph, &knobs).unwrap();
            case.execute(plan.plan());
            let expected = [(y, vec![expected; 3 * 37])];
            Limits::of(&case, 0, &knobs).hold(&format!("{data_type:?}, {flushes}"), &case, &expected);
        }
    }
}

#[test]
fn threads_may_concurrently_start_a_plan_with_constant_weights() {
    for name in ["convolution", "convolution of 8 bits"].into_iter().flat_map(|name| [name; 5]) {
        let Work { mut case, result, .. } = convolution(name, packed, false);
        case.execute(plan_with_constant_weights(&case.graph, false).plan());
        let expected = bits(&case.values(result));
        let kept = plan_with_constant_weights(&case.graph, true);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (kept, start, expected) = (&kept, &start, &expected);
                // Each thread has its own tensors.
                let mut case = case.clone();
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..3 {
                        case.execute(kept.plan());
                        assert!(bits(&case.values(result)) == *expected, "thread {number}");
                    }
                });
            }
        });
    }
}
