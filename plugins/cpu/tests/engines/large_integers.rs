//! Sums of integers that single precision does not hold, in a floating-point compute type and in `int32`.

use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Matmul, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode, ReductionMode};

use super::common::{Case, Random, tensor};
use super::integers::{node, run_everywhere};

const WHOLE: [DataType; 6] =
    [DataType::Int64, DataType::Int32, DataType::Int8, DataType::Uint8, DataType::Int4, DataType::Boolean];

/// Integers of a type: usually small, sometimes of any size.
fn fill(random: &mut Random, case: &mut Case, uid: i64, of: DataType) {
    let most = match of {
        DataType::Boolean => 1,
        DataType::Int4 => 7,
        DataType::Int8 => 127,
        DataType::Uint8 => 255,
        // Double precision, in which tests write values, holds no larger odd numbers.
        DataType::Int32 => random.one_of(&[3000, 100_000, 2_147_483_647]),
        _ => random.one_of(&[3000, 1 << 40, (1 << 53) - 1]),
    };
    let least = if matches!(of, DataType::Boolean | DataType::Uint8) { 0 } else { -most };
    case.memory(uid).fill(|| random.int(least, most) as f64);
}

/// A result in which every sum shows.
fn result(random: &mut Random) -> DataType {
    random.one_of(&[DataType::Int64, DataType::Int32, DataType::Double, DataType::Float])
}

fn compute(random: &mut Random) -> DataType {
    random.one_of(&[DataType::Float, DataType::Double, DataType::Int32])
}

#[test]
fn products_are_exact() {
    for round in 0..150 {
        let random = &mut Random(round);
        let mut case = Case::new();
        let [m, n] = [(); 2].map(|()| random.int(1, 20));
        let k = random.one_of(&[1, 3, 20, 300]);
        let [a, b] = [[m, k], [k, n]].map(|dims| {
            let of = random.one_of(&WHOLE);
            let uid = tensor(random, &mut case, of, &dims);
            fill(random, &mut case, uid, of);
            uid
        });
        let (of, compute) = (result(random), compute(random));
        let c = tensor(random, &mut case, of, &[m, n]);
        node(&mut case, compute, Matmul { a, b, c });
        run_everywhere(&case, &[c], &format!("product {round}"));
    }
}

/// The fault's size: sums around 2²⁵ in single precision.
#[test]
fn a_product_of_int32_in_compute_type_float_is_exact() {
    let mut case = Case::new();
    let [a, b] = [(); 2].map(|()| case.tensor(DataType::Int32, &[1, 4]));
    let b_of_columns = case.tensor(DataType::Int32, &[4, 1]);
    case.fill(a, &[4097.0, 4099.0, 1.0, 3.0]);
    case.fill(b, &[0.0; 4]);
    case.fill(b_of_columns, &[4097.0, 5.0, 1.0, 7.0]);
    let c = case.tensor(DataType::Int32, &[1, 1]);
    node(&mut case, DataType::Float, Matmul { a, b: b_of_columns, c });
    let result = run_everywhere(&case, &[c], "product");
    assert_eq!(result.values(c), [f64::from(4097 * 4097 + 5 * 4099 + 1 + 21)]);
}

/// Terms and partial sums beyond 64 bits, whose sum is not: it must not depend on the order.
#[test]
fn sums_whose_terms_exceed_64_bits_are_exact() {
    let huge = 9_223_372_036_854_775_808.0;
    let least = -2_147_483_648.0;
    for (of, terms, sum) in [
        (DataType::Int64, [[huge / 2.0, 4.0], [-huge, -2.0], [-huge, 4.0], [3.0, 5.0]], 15.0),
        (DataType::Int64, [[-huge, -huge], [-huge, huge / 2.0], [-huge, huge / 2.0], [7.0, -1.0]], -7.0),
        (DataType::Int64, [[-huge, 3.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], -huge),
        (
            DataType::Int32,
            [[least, least], [least, least], [least, 2_147_483_647.0], [least, 1.0]],
            huge / 2.0,
        ),
    ] {
        for compute in [DataType::Float, DataType::Int32] {
            let mut case = Case::new();
            let [a, b] = [[1, 4], [4, 1]].map(|dims| case.tensor(of, &dims));
            let [x, w] = [[1, 4, 1, 1], [1, 4, 1, 1]].map(|dims| case.tensor(of, &dims));
            for (at, uids) in [[a, x], [b, w]].into_iter().enumerate() {
                uids.into_iter().for_each(|uid| case.fill(uid, &terms.map(|term| term[at])));
            }
            let c = case.tensor(DataType::Int64, &[1, 1]);
            let y = case.tensor(DataType::Int64, &[1, 1, 1, 1]);
            node(&mut case, compute, Matmul { a, b, c });
            let (pre_padding, post_padding) = (vec![0; 2], vec![0; 2]);
            let (stride, dilation, conv_mode) = (vec![1; 2], vec![1; 2], ConvMode::CrossCorrelation);
            let operation =
                ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode };
            node(&mut case, compute, operation);
            let result = run_everywhere(&case, &[c, y], &format!("{terms:?} in {compute:?}"));
            assert_eq!([result.values(c), result.values(y)], [[sum]; 2], "{terms:?} in {compute:?}");
        }
    }
}

#[test]
fn convolutions_are_exact() {
    for round in 0..100 {
        let random = &mut Random(1000 + round);
        let mut case = Case::new();
        let (groups, c, k) = random.one_of(&[(1, 3, 5), (1, 40, 9), (6, 1, 1), (20, 1, 2), (2, 4, 3)]);
        let (side, size) = (random.one_of(&[1, 3]), random.int(3, 9));
        let types = [random.one_of(&WHOLE), random.one_of(&WHOLE)];
        let x = tensor(random, &mut case, types[0], &[2, groups * c, size, size]);
        let w = tensor(random, &mut case, types[1], &[groups * k, c, side, side]);
        [(x, types[0]), (w, types[1])].into_iter().for_each(|(uid, of)| fill(random, &mut case, uid, of));
        let (of, compute) = (result(random), compute(random));
        let y = tensor(random, &mut case, of, &[2, groups * k, size, size]);
        let padding = vec![side / 2; 2];
        let operation = ConvolutionForward {
            x,
            w,
            y,
            pre_padding: padding.clone(),
            post_padding: padding,
            stride: vec![1; 2],
            dilation: vec![1; 2],
            conv_mode: random.one_of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]),
        };
        node(&mut case, compute, operation);
        run_everywhere(&case, &[y], &format!("convolution {round}"));
    }
}

/// A bias and RELU behind a product of large integers.
#[test]
fn what_follows_a_product_reads_exact_sums() {
    for round in 0..60 {
        let random = &mut Random(3000 + round);
        let mut case = Case::new();
        let [m, n] = [(); 2].map(|()| random.int(1, 20));
        let k = random.int(1, 30);
        let [a, b] = [[m, k], [k, n]].map(|dims| {
            let of = random.one_of(&WHOLE);
            let uid = tensor(random, &mut case, of, &dims);
            fill(random, &mut case, uid, of);
            uid
        });
        let of = random.one_of(&[DataType::Float, DataType::Double]);
        let sums = case.virtual_tensor(of, &[m, n], &[n, 1]);
        node(&mut case, DataType::Float, Matmul { a, b, c: sums });
        let bias = case.tensor(DataType::Float, &[1, n]);
        case.memory(bias).fill(|| random.real(-2.0, 2.0));
        let sum = case.virtual_tensor(of, &[m, n], &[n, 1]);
        node(&mut case, DataType::Float, Pointwise::new(PointwiseMode::Add, sums, Some(bias), sum));
        let y = case.tensor(of, &[m, n]);
        node(&mut case, DataType::Float, Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
        run_everywhere(&case, &[y], &format!("product {round}"));
    }
}

#[test]
fn reductions_are_exact() {
    use ReductionMode as R;
    for round in 0..200 {
        let random = &mut Random(2000 + round);
        let mut case = Case::new();
        let of = random.one_of(&WHOLE);
        let mut dims = vec![random.int(1, 5), random.int(2, 400), random.int(1, 20)];
        let in_ = tensor(random, &mut case, of, &dims);
        fill(random, &mut case, in_, of);
        dims[1] = 1;
        let to = result(random);
        let out = tensor(random, &mut case, to, &dims);
        let mode = random.one_of(&[R::Add, R::Mul, R::Min, R::Max, R::Amax, R::Norm1, R::MulNoZeros]);
        let compute = compute(random);
        node(&mut case, compute, Reduction { in_, out, mode, is_deterministic: false });
        run_everywhere(&case, &[out], &format!("{} {round}", mode.name()));
    }
}

/// Bytes whose sum exceeds 2²⁴, and is odd.
#[test]
fn a_sum_of_bytes_is_not_rounded_to_the_compute_type() {
    let mut case = Case::new();
    let in_ = case.tensor(DataType::Uint8, &[1, 70_001]);
    let out = case.tensor(DataType::Int32, &[1, 1]);
    case.memory(in_).fill(|| 255.0);
    let operation = Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: false };
    node(&mut case, DataType::Float, operation);
    let result = run_everywhere(&case, &[out], "sum");
    assert_eq!(result.values(out), [255.0 * 70_001.0]);
}
