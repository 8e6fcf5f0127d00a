//! Notes against numbers: what a note says can be seen in the results, and is gone with the knob that takes it away.

use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardFilter, ConvolutionForward, Matmul, Pointwise, Reduction,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Node, Operation, PointwiseMode, ReductionMode, Tensor};
use hipdnn_plugin_sdk::numerics::{MatrixSums, NumericalNote, OrderBy, note};

use super::*;
use crate::gemm::pairs::Pairs;
use crate::plan::planner::fast_knobs;
use crate::simd::isa::Isa;
use crate::simd::vector::is_common;

const FAST: usize = 0;
const REFERENCE: usize = 1;

fn set(id: &str, value: i64) -> KnobSetting {
    KnobSetting { knob_id: id.to_owned(), value: value.into() }
}

fn graph(operation: impl Into<Operation>, data_type: DataType, tensors: &[&[i64]]) -> Graph {
    let tensor = |(place, dims): (usize, &&[i64])| {
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        Tensor::new(place as i64 + 1, data_type, dims, &strides)
    };
    let node = Node { name: "n".to_owned(), compute_type: DataType::Float, operation: operation.into() };
    Graph { tensors: tensors.iter().enumerate().map(tensor).collect(), nodes: vec![node], ..Graph::default() }
}

fn convolution() -> Graph {
    let (pre_padding, post_padding) = (vec![1, 1], vec![1, 1]);
    let (stride, dilation) = (vec![1, 1], vec![1, 1]);
    let conv_mode = ConvMode::CrossCorrelation;
    let operation =
        ConvolutionForward { x: 1, w: 2, y: 3, pre_padding, post_padding, stride, dilation, conv_mode };
    graph(operation, DataType::Float, &[&[2, 16, 12, 12], &[16, 16, 3, 3], &[2, 16, 12, 12]])
}

/// The result, the last tensor, of operands whose elements are made from the tensor's and the element's place.
fn result<T: Copy + Default>(
    engine: usize,
    graph: &Graph,
    knobs: &[KnobSetting],
    value: impl Fn(usize, usize) -> T,
) -> Vec<T> {
    let mut arrays: Vec<Vec<T>> = graph
        .tensors
        .iter()
        .enumerate()
        .map(|(at, tensor)| {
            let elements = tensor.dims.iter().product::<i64>() as usize;
            (0..elements).map(|place| value(at, place)).collect()
        })
        .collect();
    let pointers: Vec<*mut T> = arrays.iter_mut().map(|array| array.as_mut_ptr()).collect();
    // SAFETY: every tensor has its elements.
    unsafe { execute(engine, graph, knobs, pointers) };
    arrays.pop().unwrap()
}

/// Executes a graph with its tensors in order.
///
/// # Safety
/// Every tensor has a pointer to all of its elements.
unsafe fn execute<T>(engine: usize, graph: &Graph, knobs: &[KnobSetting], tensors: Vec<*mut T>) {
    let handle = Handle::default();
    let plan = CpuPlugin::plan(&handle, engine, graph, knobs).unwrap();
    let buffer =
        |(tensor, ptr): (&Tensor, *mut T)| hipdnnPluginDeviceBuffer_t { uid: tensor.uid, ptr: ptr.cast() };
    let buffers: Vec<_> = graph.tensors.iter().zip(tensors).map(buffer).collect();
    let mut workspace = vec![0_u8; CpuPlugin::plan_workspace_size(&plan)];
    // SAFETY: the caller's tensors have their elements, and the workspace is as large as the plan asks.
    unsafe { CpuPlugin::execute(&handle, &plan, workspace.as_mut_ptr().cast(), &buffers) }.unwrap();
}

/// Values that use all bits of a float.
fn rough(tensor: usize, place: usize) -> f32 {
    let mixed = ((place + 7777 * tensor) as u32).wrapping_mul(2_654_435_761) >> 8;
    mixed as f32 / (1 << 23) as f32 - 1.0
}

fn notes(engine: usize, graph: &Graph, knobs: &[KnobSetting]) -> Vec<NumericalNote> {
    let said = CpuPlugin::numerics(&Handle::default(), engine, graph, knobs).unwrap().unwrap();
    said.numerics.notes.into_iter().collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn winograd_shows_in_the_results_and_its_knob_takes_it_away() {
    let graph = convolution();
    let with =
        |knobs: &[KnobSetting]| (notes(FAST, &graph, knobs), bits(&result(FAST, &graph, knobs, rough)));
    let has = |notes: &[NumericalNote]| {
        [note::WINOGRAD, note::WINOGRAD_TILE_4X4, note::WINOGRAD_TILE_6X6].map(|note| notes.contains(&note))
    };
    let (implicit, direct) = with(&[set("convolution", 1)]);
    let (two, of_two) = with(&[set("convolution", 4)]);
    let (four, of_four) = with(&[set("convolution", 5)]);
    assert_eq!(
        [has(&implicit), has(&two), has(&four)],
        [[false; 3], [true, true, false], [true, false, true]]
    );
    assert!(direct != of_two && direct != of_four && of_two != of_four);
    for asked in [0, 4, 5] {
        let (without, bits) = with(&[set("convolution", asked), set("winograd", 0)]);
        assert_eq!(has(&without), [false; 3], "{asked}");
        assert_ne!(bits, of_two);
    }
}

#[test]
fn products_of_pairs_flush_subnormals_where_the_note_says_so() {
    use half::bf16;
    let graph = graph(Matmul { a: 1, b: 2, c: 3 }, DataType::Bfloat16, &[&[32, 64], &[64, 32], &[32, 32]]);
    // 64 products of 2^-130, which is subnormal, and 2^10.
    let value = |tensor, _| if tensor == 0 { bf16::from_bits(0x0008) } else { bf16::from_f32(1024.0) };
    let of = |engine| result(engine, &graph, &[], value).into_iter().map(bf16::to_f32).collect::<Vec<_>>();
    let flushed = notes(FAST, &graph, &[]).contains(&note::FLUSH_SUBNORMALS);
    assert_eq!(flushed, Pairs::of(Isa::detect()).bfloat16);
    assert!(!notes(REFERENCE, &graph, &[]).contains(&note::FLUSH_SUBNORMALS));
    let sum = 2.0_f32.powi(-114);
    assert!(of(REFERENCE).iter().all(|value| *value == sum));
    assert!(of(FAST).iter().all(|value| *value == if flushed { 0.0 } else { sum }));
}

fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return Pairs::of(Isa::detect()).has_tiles();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// AMX's sum of products: 16 at even and 16 at odd places by fused multiply-adds, then both and the sum before.
fn by_tiles(products: &[(f32, f32)]) -> f32 {
    products.chunks(32).fold(0.0, |sum, products| {
        let chain =
            |first| products.iter().skip(first).step_by(2).fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum));
        sum + (chain(0) + chain(1))
    })
}

/// Where the processor has AMX its bits are those of the model, and within the bound of what is noted.
#[test]
fn tiles_add_32_products_at_once_in_single_precision() {
    use half::bf16;
    let [m, n, k] = [64, 32, 1024];
    let mut graph = graph(Matmul { a: 1, b: 2, c: 3 }, DataType::Bfloat16, &[&[m, k], &[k, n], &[m, n]]);
    graph.tensors[2].data_type = DataType::Float;
    let said = CpuPlugin::numerics(&Handle::default(), FAST, &graph, &[]).unwrap().unwrap().numerics;
    let has_tiles = has_tiles();
    assert_eq!(said.notes.contains(&note::TENSOR_CORE), has_tiles);
    assert_eq!(said.matrix_sums.is_some(), has_tiles);
    let Some(MatrixSums { terms, bits }) = said.matrix_sums else {
        println!("the processor has no AMX: no sums are compared");
        return;
    };
    let [m, n, k] = [m, n, k].map(|dim| dim as usize);
    let operand =
        |tensor, elements| (0..elements).map(|at| bf16::from_f32(rough(tensor, at))).collect::<Vec<_>>();
    let (mut a, mut b, mut c) = (operand(0, m * k), operand(1, k * n), vec![0.0_f32; m * n]);
    let tensors: Vec<*mut u8> = vec![a.as_mut_ptr().cast(), b.as_mut_ptr().cast(), c.as_mut_ptr().cast()];
    // SAFETY: the tensors have their elements.
    unsafe { execute(FAST, &graph, &[], tensors) };
    // A product is in the roundings of a chain of half of an instruction's, in that of both chains, and in those of all sums.
    let roundings = terms / 2 + 1 + (k as u32).div_ceil(terms);
    let unit = 0.5_f64.powi(bits as i32 - 1);
    let mut differs = 0;
    for (at, c) in c.iter().enumerate() {
        let product = |l: usize| (a[at / n * k + l].to_f32(), b[l * n + at % n].to_f32());
        let products: Vec<_> = (0..k).map(product).collect();
        let model = by_tiles(&products);
        assert_eq!(c.to_bits(), model.to_bits(), "element {at}: {c}, the model has {model}");
        let terms = || products.iter().map(|(a, b)| f64::from(*a) * f64::from(*b));
        let (exact, magnitudes) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let bound = f64::from(roundings) * unit * magnitudes;
        assert!((f64::from(*c) - exact).abs() <= bound, "element {at}: {c}, {exact} within {bound}");
        let in_order = products.iter().fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum));
        differs += usize::from(*c != in_order);
    }
    assert!(differs > m * n / 2, "{differs} of {} sums", m * n);
    // Each rounding is to the nearest of 24 bits, which errs by no more than cutting at 25.
    assert_eq!((terms, bits), (32, 25));
}

#[test]
fn sums_by_threads_differ_unless_the_knob_forbids() {
    let (pre_padding, post_padding) = (vec![1, 1], vec![1, 1]);
    let (stride, dilation) = (vec![1, 1], vec![1, 1]);
    let conv_mode = ConvMode::CrossCorrelation;
    let operation = ConvolutionBackwardFilter {
        x: 1,
        dy: 2,
        dw: 3,
        pre_padding,
        post_padding,
        stride,
        dilation,
        conv_mode,
    };
    // So few weights that threads divide the images.
    let graph = graph(operation, DataType::Float, &[&[16, 2, 24, 24], &[16, 2, 24, 24], &[2, 2, 3, 3]]);
    let results = |deterministic: i64| {
        [1, 3].map(|threads| {
            let knobs = [set("threads", threads), set("deterministic", deterministic)];
            let notes = notes(FAST, &graph, &knobs);
            assert_eq!(notes.contains(&note::NONDETERMINISTIC), deterministic == 0);
            assert!(notes.contains(&note::SPLIT_SUMS));
            bits(&result(FAST, &graph, &knobs, rough))
        })
    };
    let [one, three] = results(0);
    assert_ne!(one, three);
    let [one, three] = results(1);
    assert_eq!(one, three);
}

/// Sums of short rows have another order where there are many of them.
#[test]
fn sums_of_items_depend_on_their_number_unless_the_knob_forbids() {
    let rows = |count| {
        let operation = Reduction { in_: 1, out: 2, mode: ReductionMode::Add, is_deterministic: false };
        graph(operation, DataType::Float, &[&[count, 31], &[count, 1]])
    };
    let from =
        |first: usize| move |_, place: usize| ((first * 31 + place) * 7919 % 1009) as f32 / 997.0 - 0.4;
    let found = |first, count, invariant| {
        let knobs = [set("batch_invariant", invariant)];
        let notes = notes(FAST, &rows(count), &knobs);
        assert_eq!(notes.contains(&note::BATCH_DEPENDENT), invariant == 0, "{count} rows");
        bits(&result(FAST, &rows(count), &knobs, from(first)))
    };
    let alone = |invariant| (0..64).flat_map(|row| found(row, 1, invariant)).collect::<Vec<_>>();
    assert_eq!(found(0, 64, 1), alone(1));
    // Where vectors are not common, each row is added alone.
    assert_eq!(found(0, 64, 0) != alone(0), is_common(Isa::detect()));
}

#[test]
fn flushed_subnormals_are_noted() {
    let operation = Pointwise::new(PointwiseMode::Mul, 1, Some(2), 3);
    let graph = graph(operation, DataType::Float, &[&[64], &[64], &[64]]);
    let half = |tensor: usize, _: usize| if tensor == 0 { f32::MIN_POSITIVE } else { 0.5 };
    for (value, product) in [(0, f32::MIN_POSITIVE / 2.0), (1, 0.0)] {
        let knobs = [set("flush_subnormals", value)];
        assert_eq!(notes(FAST, &graph, &knobs).contains(&note::FLUSH_SUBNORMALS), value == 1);
        assert!(result(FAST, &graph, &knobs, half).iter().all(|found| *found == product));
    }
}

#[test]
fn approximated_functions_are_off_by_no_more_than_they_say() {
    let graph = graph(Pointwise::new(PointwiseMode::Exp, 1, None, 2), DataType::Float, &[&[4096], &[4096]]);
    let said = CpuPlugin::numerics(&Handle::default(), FAST, &graph, &[]).unwrap().unwrap().numerics;
    let most = said.functions["exp"].unwrap();
    assert!(said.notes.contains(&note::APPROXIMATE_FUNCTIONS));
    assert!(notes(REFERENCE, &graph, &[]).is_empty());
    let x = |_, place| rough(0, place) * 80.0;
    let y = result(FAST, &graph, &[], x);
    let units = y.iter().enumerate().map(|(place, y)| {
        let exact = f64::from(x(0, place)).exp();
        let unit = f64::from((exact as f32).to_bits()) - f64::from(y.to_bits());
        unit.abs()
    });
    let worst = units.fold(0.0, f64::max);
    assert!((1.0..=f64::from(most)).contains(&worst), "{worst} units, {most} are said");
}

#[test]
fn the_reference_adds_in_order_and_the_fast_engine_does_not() {
    let operation = Reduction { in_: 1, out: 2, mode: ReductionMode::Add, is_deterministic: false };
    let sum = graph(operation, DataType::Float, &[&[1, 5000], &[1, 1]]);
    for (graph, accumulator) in [(&convolution(), "float"), (&sum, "double")] {
        let said = CpuPlugin::numerics(&Handle::default(), REFERENCE, graph, &[]).unwrap().unwrap();
        assert_eq!(said.numerics.accumulators, [accumulator].into());
        assert!(said.numerics.notes.is_empty() && said.numerics.order.is_empty() && said.knobs.is_empty());
        let fast = CpuPlugin::numerics(&Handle::default(), FAST, graph, &[]).unwrap().unwrap();
        assert!(fast.numerics.order.contains(&OrderBy::Shapes));
        let by_threads = fast.numerics.notes.contains(&note::NONDETERMINISTIC);
        assert_eq!(by_threads, graph.nodes[0].operation.spec().name != "Reduction");
    }
    // Rows and columns of the window, and for each the channels, one after the other.
    let graph = convolution();
    let expected = result(REFERENCE, &graph, &[], rough);
    let mut at_3_4 = 0.0_f32;
    for r in 0..3 {
        for s in 0..3 {
            for c in 0..16 {
                at_3_4 += rough(0, (c * 12 + 2 + r) * 12 + 3 + s) * rough(1, (c * 3 + r) * 3 + s);
            }
        }
    }
    assert_eq!(expected[3 * 12 + 4].to_bits(), at_3_4.to_bits());
}

#[test]
fn integers_are_exact_and_maxima_keep_nan() {
    let bytes = graph(Matmul { a: 1, b: 2, c: 3 }, DataType::Int8, &[&[8, 8], &[8, 8], &[8, 8]]);
    let said = CpuPlugin::numerics(&Handle::default(), FAST, &bytes, &[]).unwrap().unwrap().numerics;
    assert!(said.order.is_empty() && !said.notes.contains(&note::NONDETERMINISTIC));
    let maximum =
        graph(Pointwise::new(PointwiseMode::Max, 1, Some(2), 3), DataType::Float, &[&[4], &[4], &[4]]);
    for engine in [FAST, REFERENCE] {
        assert_eq!(notes(engine, &maximum, &[]), [note::STRICT_NAN_PROP]);
        let of = |_, place: usize| if place == 2 { f32::NAN } else { place as f32 };
        assert!(result(engine, &maximum, &[], of)[2].is_nan());
    }
}

#[test]
fn the_knobs_that_change_notes_exist() {
    let said = CpuPlugin::numerics(&Handle::default(), FAST, &convolution(), &[]).unwrap().unwrap();
    assert!(said.knobs.len() > 3);
    for knob in said.knobs {
        wire::check_settings(fast_knobs(), &[set(knob.knob, knob.value)]).unwrap();
    }
}
