//! Compute types `int32` and `boolean`, and exact sums of integers, in both engines.

use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionForward, Matmul, Pointwise, Reduction, ResampleBackward, ResampleForward,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, Operation, PaddingMode, PointwiseMode, ReductionMode, ResampleMode, TensorValue,
};

use super::common::{Case, Random, packed, tensor};
use super::in_place;
use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_plugin_planner::prepare::prepare;

/// Adds a node with its own compute type.
pub fn node(case: &mut Case, compute: DataType, operation: impl Into<Operation>) {
    case.node(operation);
    case.graph.nodes.last_mut().unwrap().compute_type = compute;
}

/// The number of parts that CPU_ENGINE divides a graph into.
pub fn parts(case: &Case) -> usize {
    let prepared = prepare(&case.graph).unwrap();
    parts_at(&prepared, Isa::detect(), Settings::default()).unwrap().len()
}

/// Runs a case on the reference and on every instruction set, also in place; all must agree.
pub fn run_everywhere(case: &Case, results: &[i64], what: &str) -> Case {
    in_place::check(case, &mut Random(results.len() as u64), what);
    let mut reference = case.clone();
    reference.run(planner(1));
    for isa in Isa::available() {
        let mut fast = case.clone();
        let plan = Plan::in_parts(&prepare(&case.graph).unwrap(), |prepared| {
            parts_at(prepared, *isa, Settings::default())
        });
        fast.execute(&plan.unwrap());
        for uid in results {
            let (got, expected) = (fast.values(*uid), reference.values(*uid));
            for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert!(
                    got == expected,
                    "{what} at {isa:?}: tensor {uid} element {at} is {got}, expected {expected}\n{:#?}",
                    case.graph
                );
            }
        }
    }
    reference
}

pub const BYTES: [DataType; 2] = [DataType::Int8, DataType::Uint8];

/// Bytes, with the ends of their range more frequent.
pub fn fill_bytes(case: &mut Case, random: &mut Random, uid: i64) {
    case.memory(uid).fill(|| {
        let number = random.int(-50, 50) as f64;
        random.one_of(&[-128.0, -127.0, 127.0, 200.0, 255.0, number])
    });
}

#[test]
fn sums_of_bytes_over_2_to_the_24() {
    for compute in [DataType::Float, DataType::Int32] {
        let mut case = Case::new();
        let x = case.tensor(DataType::Int8, &[1, 4096, 2, 2]);
        let w = case.tensor(DataType::Int8, &[3, 4096, 1, 1]);
        let y = case.tensor(DataType::Int32, &[1, 3, 2, 2]);
        // One product fewer than the maximum, so that the sum is odd.
        let mut at = 0;
        case.memory(x).fill(|| {
            at += 1;
            if at > 4 { 127.0 } else { 0.0 }
        });
        case.memory(w).fill(|| -127.0);
        let padding = vec![0, 0];
        node(
            &mut case,
            compute,
            ConvolutionForward {
                x,
                w,
                y,
                pre_padding: padding.clone(),
                post_padding: padding,
                stride: vec![1, 1],
                dilation: vec![1, 1],
                conv_mode: ConvMode::CrossCorrelation,
            },
        );
        let result = run_everywhere(&case, &[y], "convolution");
        assert_eq!(result.values(y), [-127.0 * 127.0 * 4095.0; 12], "{compute:?}");
    }
}

#[test]
fn products_of_bytes_in_compute_type_int32() {
    let random = &mut Random(41);
    for round in 0..60 {
        let [m, n] = [(); 2].map(|()| random.int(1, 40));
        let k = random.one_of(&[1, 3, 64, 700, 3000]);
        let mut case = Case::new();
        let (a_type, b_type) = (random.one_of(&BYTES), random.one_of(&BYTES));
        let c_type = random.one_of(&[
            DataType::Int32,
            DataType::Int8,
            DataType::Uint8,
            DataType::Float,
            DataType::Int64,
        ]);
        let a = tensor(random, &mut case, a_type, &[2, m, k]);
        let b = tensor(random, &mut case, b_type, &[2, k, n]);
        let c = tensor(random, &mut case, c_type, &[2, m, n]);
        for uid in [a, b] {
            fill_bytes(&mut case, random, uid);
        }
        node(&mut case, DataType::Int32, Matmul { a, b, c });
        let result = run_everywhere(&case, &[c], &format!("round {round}"));
        let (a, b) = (result.values(a), result.values(b));
        let (m, n, k) = (m as usize, n as usize, k as usize);
        for (at, got) in result.values(c).iter().enumerate() {
            let (batch, i, j) = (at / (m * n), at / n % m, at % n);
            let sum: i64 =
                (0..k).map(|l| a[(batch * m + i) * k + l] as i64 * b[(batch * k + l) * n + j] as i64).sum();
            let expected = match c_type {
                DataType::Int8 => sum.clamp(-128, 127) as f64,
                DataType::Uint8 => sum.clamp(0, 255) as f64,
                DataType::Float => f64::from(sum as f32),
                _ => sum as f64,
            };
            assert_eq!(*got, expected, "round {round}: element {at}");
        }
    }
}

#[test]
fn sums_beyond_int32_saturate() {
    let mut case = Case::new();
    let a = case.tensor(DataType::Uint8, &[1, 40_000]);
    let b = case.tensor(DataType::Uint8, &[40_000, 1]);
    let [c, wide] = [DataType::Int32, DataType::Int64].map(|of| case.tensor(of, &[1, 1]));
    for uid in [a, b] {
        case.memory(uid).fill(|| 255.0);
    }
    node(&mut case, DataType::Int32, Matmul { a, b, c });
    node(&mut case, DataType::Int32, Matmul { a, b, c: wide });
    let result = run_everywhere(&case, &[c, wide], "large sums");
    assert_eq!(result.values(c), [2_147_483_647.0]);
    assert_eq!(result.values(wide), [65_025.0 * 40_000.0]);
}

/// The result of a mode in compute type int32.
fn expected(mode: PointwiseMode, [x, y, z]: [i64; 3]) -> i64 {
    use PointwiseMode as M;
    match mode {
        M::Add => x + y,
        M::Sub => x - y,
        M::Mul => x * y,
        M::Div if y == 0 => x.signum() * i64::MAX,
        M::Div => x / y,
        M::AddSquare => x.saturating_add(y * y),
        M::Max => x.max(y),
        M::Min => x.min(y),
        M::Abs => x.abs(),
        M::Neg => -x,
        M::Identity | M::Ceil | M::Floor => x,
        M::ReluFwd => x.max(0),
        M::CmpEq => i64::from(x == y),
        M::CmpGt => i64::from(x > y),
        M::CmpLe => i64::from(x <= y),
        M::LogicalAnd => i64::from(x != 0 && y != 0),
        M::LogicalOr => i64::from(x != 0 || y != 0),
        M::LogicalNot => i64::from(x == 0),
        M::BinarySelect => {
            if z != 0 {
                x
            } else {
                y
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn pointwise_in_compute_type_int32() {
    use PointwiseMode as M;
    let random = &mut Random(42);
    let numbers = [DataType::Int32, DataType::Int8, DataType::Uint8];
    for mode in [
        M::Add,
        M::Sub,
        M::Mul,
        M::Div,
        M::AddSquare,
        M::Max,
        M::Min,
        M::Abs,
        M::Neg,
        M::Identity,
        M::Ceil,
        M::Floor,
        M::ReluFwd,
        M::CmpEq,
        M::CmpGt,
        M::CmpLe,
        M::LogicalAnd,
        M::LogicalOr,
        M::LogicalNot,
        M::BinarySelect,
    ] {
        let outputs = [&numbers[..], &[DataType::Boolean]].concat();
        for output in outputs.iter().chain(&outputs) {
            let mut case = Case::new();
            let dims = [random.int(1, 9), random.int(1, 80)];
            let inputs: Vec<i64> = (0..mode.operands())
                .map(|_| {
                    let of = random.one_of(&numbers);
                    let uid = tensor(random, &mut case, of, &dims);
                    case.memory(uid).fill(|| match random.int(0, 5) {
                        0 => 2_147_483_647.0,
                        1 => -2_147_483_648.0,
                        2 => 0.0,
                        3 => random.int(-3, 3) as f64,
                        _ => random.int(-100_000_000, 100_000_000) as f64,
                    });
                    uid
                })
                .collect();
            let out = tensor(random, &mut case, *output, &dims);
            let mut pointwise = Pointwise::new(mode, inputs[0], inputs.get(1).copied(), out);
            pointwise.in_2 = inputs.get(2).copied();
            node(&mut case, DataType::Int32, pointwise);
            let result = run_everywhere(&case, &[out], mode.name());
            let operands: Vec<Vec<f64>> = inputs.iter().map(|uid| result.values(*uid)).collect();
            for (at, got) in result.values(out).iter().enumerate() {
                let of = |which: usize| operands.get(which).map_or(0, |values| values[at] as i64);
                let whole = expected(mode, [of(0), of(1), of(2)]);
                let expected = match output {
                    DataType::Boolean => i64::from(whole != 0),
                    DataType::Int8 => whole.clamp(-128, 127),
                    DataType::Uint8 => whole.clamp(0, 255),
                    _ => whole.clamp(i64::from(i32::MIN), i64::from(i32::MAX)),
                };
                assert_eq!(*got, expected as f64, "{mode:?}: element {at} of {operands:?}");
            }
        }
    }
}

#[test]
fn modes_without_an_exact_result_are_refused() {
    for (mode, compute) in [
        (PointwiseMode::Exp, DataType::Int32),
        (PointwiseMode::SigmoidFwd, DataType::Int32),
        (PointwiseMode::Sub, DataType::Boolean),
    ] {
        let mut case = Case::new();
        let [a, b, c] = [0; 3].map(|_| case.tensor(DataType::Int32, &[4]));
        let second = (mode.operands() > 1).then_some(b);
        node(&mut case, compute, Pointwise::new(mode, a, second, c));
        for engine in 0..2 {
            let refusal = planner(engine).plan(&case.graph).err().unwrap();
            assert!(refusal.contains(mode.name()) && refusal.contains(compute.name()), "{refusal}");
        }
    }
}

#[test]
fn comparisons_and_logic_in_compute_type_boolean_are_one_part() {
    let random = &mut Random(43);
    let mut case = Case::new();
    let dims = [4, 8, 17];
    let [a, b] = [DataType::Half, DataType::Float].map(|of| tensor(random, &mut case, of, &dims));
    let mask = tensor(random, &mut case, DataType::Boolean, &dims);
    let greater = case.virtual_tensor(DataType::Boolean, &dims, &packed(&dims));
    let out = tensor(random, &mut case, DataType::Boolean, &dims);
    for uid in [a, b] {
        case.memory(uid).fill(|| random.int(-2, 2) as f64);
    }
    case.memory(mask).fill(|| random.int(0, 1) as f64);
    case.node(Pointwise::new(PointwiseMode::CmpGt, a, Some(b), greater));
    node(&mut case, DataType::Boolean, Pointwise::new(PointwiseMode::LogicalAnd, greater, Some(mask), out));
    let result = run_everywhere(&case, &[out], "boolean");
    let [a, b, mask] = [a, b, mask].map(|uid| result.values(uid));
    for (at, got) in result.values(out).iter().enumerate() {
        assert_eq!(*got, f64::from(u8::from(a[at] > b[at] && mask[at] != 0.0)));
    }
    assert_eq!(parts(&case), 1);
}

/// An int8 product, an integer bias, a scale and a shift to a byte, as in quantized networks.
#[test]
fn a_quantized_matmul_with_its_epilogue() {
    let random = &mut Random(44);
    for round in 0..30 {
        let [m, n, k] = [random.int(1, 70), random.int(1, 90), random.one_of(&[5, 64, 1500])];
        let mut case = Case::new();
        let (a_type, b_type) = (random.one_of(&BYTES), random.one_of(&BYTES));
        let a = tensor(random, &mut case, a_type, &[m, k]);
        let b = tensor(random, &mut case, b_type, &[k, n]);
        for uid in [a, b] {
            fill_bytes(&mut case, random, uid);
        }
        let bias = case.tensor(DataType::Int32, &[1, n]);
        case.memory(bias).fill(|| random.int(-20_000_000, 20_000_000) as f64);
        let scale = case.tensor(DataType::Float, &[1, n]);
        case.memory(scale).fill(|| random.real(1e-7, 1e-4));
        let dims = [m, n];
        let virtually = |case: &mut Case, of| case.virtual_tensor(of, &dims, &packed(&dims));
        let [product, sum] = [0; 2].map(|_| virtually(&mut case, DataType::Int32));
        let scaled = virtually(&mut case, DataType::Float);
        let zero = case.value(DataType::Float, TensorValue::Float32(3.5));
        let result = random.one_of(&[DataType::Int32, DataType::Int8, DataType::Uint8, DataType::Float]);
        let out = tensor(random, &mut case, result, &dims);
        node(&mut case, DataType::Int32, Matmul { a, b, c: product });
        node(&mut case, DataType::Int32, Pointwise::new(PointwiseMode::Add, product, Some(bias), sum));
        case.node(Pointwise::new(PointwiseMode::Mul, sum, Some(scale), scaled));
        case.node(Pointwise::new(PointwiseMode::Add, scaled, Some(zero), out));
        run_everywhere(&case, &[out], &format!("round {round}"));
        // The product is one part with the rest if the result has its type.
        assert!(parts(&case) <= 2, "round {round}");
        if matches!(result, DataType::Int32 | DataType::Float) {
            assert_eq!(parts(&case), 1, "round {round}");
        }
    }
}

/// An int8 convolution with an integer bias and a scale: implicit GEMM, 1 × 1, whole images, depthwise.
#[test]
fn a_quantized_convolution_with_its_epilogue() {
    let random = &mut Random(45);
    for round in 0..40 {
        let groups = random.one_of(&[1, 1, 2, 8]);
        let [c, k] = [random.one_of(&[1, 4, 16]), random.one_of(&[1, 3, 20])];
        let side = random.one_of(&[1, 3]);
        let size = random.one_of(&[side, 6, 9]);
        let output = size - side + 1;
        let mut case = Case::new();
        let (x_type, w_type) = (random.one_of(&BYTES), random.one_of(&BYTES));
        let x = tensor(random, &mut case, x_type, &[2, c * groups, size, size]);
        let w = tensor(random, &mut case, w_type, &[k * groups, c, side, side]);
        for uid in [x, w] {
            fill_bytes(&mut case, random, uid);
        }
        let dims = [2, k * groups, output, output];
        let channels = [1, k * groups, 1, 1];
        let bias = case.tensor(DataType::Int32, &channels);
        case.memory(bias).fill(|| random.int(-30_000_000, 30_000_000) as f64);
        let scale = case.tensor(DataType::Float, &channels);
        case.memory(scale).fill(|| random.real(1e-7, 1e-4));
        let virtually = |case: &mut Case, of| case.virtual_tensor(of, &dims, &packed(&dims));
        let [sums, biased] = [0; 2].map(|_| virtually(&mut case, DataType::Int32));
        let scaled = virtually(&mut case, DataType::Float);
        let result = random.one_of(&[DataType::Float, DataType::Int8]);
        let out = tensor(random, &mut case, result, &dims);
        let none = vec![0, 0];
        node(
            &mut case,
            DataType::Int32,
            ConvolutionForward {
                x,
                w,
                y: sums,
                pre_padding: none.clone(),
                post_padding: none,
                stride: vec![1, 1],
                dilation: vec![1, 1],
                conv_mode: ConvMode::CrossCorrelation,
            },
        );
        node(&mut case, DataType::Int32, Pointwise::new(PointwiseMode::Add, sums, Some(bias), biased));
        case.node(Pointwise::new(PointwiseMode::Mul, biased, Some(scale), scaled));
        case.node(Pointwise::new(PointwiseMode::ReluFwd, scaled, None, out));
        run_everywhere(&case, &[out], &format!("round {round}"));
        assert!(parts(&case) <= 2, "round {round}");
    }
}

#[test]
fn reductions_of_integers_are_exact() {
    let mut case = Case::new();
    let x = case.tensor(DataType::Int64, &[1, 3]);
    let large = (1_i64 << 53) as f64;
    case.fill(x, &[large, 2.0, 4.0]);
    let [sum, largest] = [0; 2].map(|_| case.tensor(DataType::Int64, &[1, 1]));
    let bytes = case.tensor(DataType::Int8, &[1, 200_000]);
    case.memory(bytes).fill(|| 127.0);
    let of_bytes = case.tensor(DataType::Int32, &[1, 1]);
    let mean = case.tensor(DataType::Float, &[1, 1]);
    let reduced = |in_, out, mode| Reduction { in_, out, mode, is_deterministic: false };
    case.node(reduced(x, sum, ReductionMode::Add));
    case.node(reduced(x, largest, ReductionMode::Max));
    node(&mut case, DataType::Int32, reduced(bytes, of_bytes, ReductionMode::Add));
    case.node(reduced(bytes, mean, ReductionMode::Avg));
    let result = run_everywhere(&case, &[of_bytes, mean], "reductions");
    assert_eq!(result.values(sum), [large + 6.0]);
    assert_eq!(result.values(largest), [large]);
    assert_eq!(result.values(of_bytes), [127.0 * 200_000.0]);
    assert_eq!(result.values(mean), [127.0]);
}

/// The graph of a maximum with an index, and of the gradient by that index.
fn pooling(index_type: DataType, padding: PaddingMode) -> (Case, [i64; 4]) {
    let mut case = Case::new();
    let (dims, pooled) = ([1, 1, 4, 5], [1, 1, 3, 3]);
    let x = case.tensor(DataType::Float, &dims);
    let y = case.tensor(DataType::Float, &pooled);
    let index = case.tensor(index_type, &pooled);
    let dx = case.tensor(DataType::Float, &dims);
    let (pre, post) = (vec![1, 1], vec![1, 1]);
    let (stride, window, resample_mode) = (vec![2, 2], vec![2, 3], ResampleMode::Maxpool);
    case.node(ResampleForward {
        x,
        y,
        index: Some(index),
        pre_padding: pre.clone(),
        post_padding: post.clone(),
        stride: stride.clone(),
        window: window.clone(),
        resample_mode,
        padding_mode: padding,
        generate_index: Some(true),
    });
    case.node(ResampleBackward {
        dy: y,
        dx,
        index: Some(index),
        pre_padding: pre,
        post_padding: post,
        stride,
        window,
        resample_mode,
        padding_mode: padding,
    });
    (case, [x, y, index, dx])
}

#[test]
fn byte_indices_count_positions_of_the_window() {
    let values: Vec<f64> = (0..20).map(|at| f64::from(at * 7 % 20) - 10.0).collect();
    for (padding, none) in [(PaddingMode::NegInfPad, None), (PaddingMode::ZeroPad, Some(()))] {
        let run = |index_type, engine| {
            let (mut case, uids) = pooling(index_type, padding);
            case.fill(uids[0], &values);
            case.run(planner(engine));
            (case, uids)
        };
        let (of_plane, [_, y, index, dx]) = run(DataType::Int32, 1);
        for engine in 0..2 {
            for index_type in [DataType::Int8, DataType::Uint8, DataType::Int64] {
                let (case, _) = run(index_type, engine);
                assert_eq!(case.values(y), of_plane.values(y));
                assert_eq!(case.values(dx), of_plane.values(dx), "{index_type:?}");
                for (at, (got, plane)) in case.values(index).iter().zip(of_plane.values(index)).enumerate() {
                    // Row and column of the element, and from these its position in the window.
                    let [row, column] = [plane as i64 / 5, plane as i64 % 5];
                    let [top, left] = [at as i64 / 3 * 2 - 1, at as i64 % 3 * 2 - 1];
                    let expected = match index_type {
                        DataType::Int64 => plane as i64,
                        DataType::Uint8 if plane < 0.0 => 255,
                        _ if plane < 0.0 => -1,
                        _ => (row - top) * 3 + column - left,
                    };
                    assert_eq!(*got as i64, expected, "{index_type:?}, window {at}, engine {engine}");
                }
            }
        }
        let some_are_outside = of_plane.values(index).contains(&-1.0);
        assert_eq!(some_are_outside, none.is_some());
    }
}

#[test]
fn windows_too_large_for_byte_indices_are_refused() {
    let (mut case, _) = pooling(DataType::Int8, PaddingMode::NegInfPad);
    for node in &mut case.graph.nodes {
        if let Operation::ResampleForward(forward) = &mut node.operation {
            forward.window = vec![12, 12];
            forward.pre_padding = vec![8, 8];
            forward.post_padding = vec![4, 3];
        }
    }
    let refusal = planner(1).plan(&case.graph).err().unwrap();
    assert!(refusal.contains("int8 can count them"), "{refusal}");
    let (case, _) = pooling(DataType::Float, PaddingMode::NegInfPad);
    let refusal = planner(1).plan(&case.graph).err().unwrap();
    assert!(refusal.contains("expected int32, int64, int8 or uint8"), "{refusal}");
}
