//! What comes between int8 products in quantized networks: scales, residuals and functions of a byte.

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode as M};

use super::common::{Case, Random, tensor};
use super::integers::{BYTES, fill_bytes, node, parts};
use super::quantized::{NO_FRACTION, Product, between, constant, is_fast, one, run_nearly, stored, two};

/// Values minus a zero point, times a scale.
fn dequantize(case: &mut Case, random: &mut Random, bytes: i64, dims: &[i64], scale: f32) -> i64 {
    let zero = constant(case, random.int(-3, 3) as f32);
    let value = two(case, M::Sub, bytes, zero, dims);
    let scale = constant(case, scale);
    two(case, M::Mul, value, scale, dims)
}

/// Values divided by a scale and rounded to bytes, around a zero point.
fn quantize(case: &mut Case, value: i64, dims: &[i64], scale: f32, out: i64, of: DataType) {
    let scale = constant(case, scale);
    let value = two(case, M::Div, value, scale, dims);
    let magic = constant(case, NO_FRACTION);
    let value = two(case, M::Add, value, magic, dims);
    let value = two(case, M::Sub, value, magic, dims);
    let zero = constant(case, if of == DataType::Int8 { -3.0 } else { 120.0 });
    node(case, DataType::Float, Pointwise::new(M::Add, value, Some(zero), out));
}

/// A function with a slope of at most about one.
fn function(case: &mut Case, random: &mut Random, value: i64, dims: &[i64]) -> i64 {
    let mode = random.one_of(&[M::SigmoidFwd, M::ReluFwd, M::TanhFwd, M::SwishFwd, M::GeluFwd, M::Abs]);
    let out = between(case, DataType::Float, dims);
    node(case, DataType::Float, Pointwise::new(mode, value, None, out));
    out
}

/// A product, its bytes, and up to three more rounds or functions of bytes, in one part.
#[test]
fn rounds_after_a_product_are_one_part() {
    let mut counts = [0, 0];
    for round in 0..80 {
        let random = &mut Random(12_000 + round);
        let product = Product::random(random);
        let mut case = Case::new();
        let [of_w, of_columns] = product.of_columns();
        let (_, x) = stored(&mut case, random, &product.x, &vec![1; product.x.len()], 0.02);
        let (_, w) = stored(&mut case, random, &product.w, &of_w, 0.003);
        let dims = product.y.clone();
        let mut value = between(&mut case, DataType::Float, &dims);
        product.node(&mut case, DataType::Float, [x, w, value]);
        let (mut scale, mut adds) = (0.05, false);
        let rounds = random.int(1, 3);
        for at in 0..=rounds {
            let of = random.one_of(&BYTES);
            let is_last = at == rounds;
            let bytes =
                if is_last { tensor(random, &mut case, of, &dims) } else { between(&mut case, of, &dims) };
            quantize(&mut case, value, &dims, scale, bytes, of);
            if is_last {
                let [equal, apart] = run_nearly(&case, bytes, &format!("round {round}"));
                counts = [counts[0] + equal, counts[1] + apart];
                break;
            }
            value = dequantize(&mut case, random, bytes, &dims, scale);
            // A step of the previous bytes must be less than one of the next.
            scale *= 3.0;
            let has_columns = of_columns.iter().any(|dim| *dim > 1);
            match random.one_of(&[0, 1, 1, 2, 2]) {
                // With one column, the factor could be a quantization factor.
                0 if has_columns => {
                    let [factor, shift] = [(0.5, 1.0), (-2.0, 2.0)].map(|(low, high)| {
                        let uid = case.tensor(DataType::Float, &of_columns);
                        case.memory(uid).fill(|| random.real(low, high));
                        uid
                    });
                    value = two(&mut case, M::Mul, value, factor, &dims);
                    value = two(&mut case, M::Add, value, shift, &dims);
                }
                1 if !adds => {
                    adds = true;
                    let (_, residual) = stored(&mut case, random, &dims, &vec![1; dims.len()], 0.05);
                    value = two(&mut case, M::Add, residual, value, &dims);
                    if random.chance(50) {
                        let out = between(&mut case, DataType::Float, &dims);
                        node(&mut case, DataType::Float, Pointwise::new(M::ReluFwd, value, None, out));
                        value = out;
                    }
                }
                _ => value = function(&mut case, random, value, &dims),
            }
        }
        assert!(!is_fast() || parts(&case) == 1, "round {round}: {} parts", parts(&case));
    }
    assert!(counts[1] * 50 < counts[0], "{counts:?}");
}

/// Functions of stored bytes become tables: several nodes that read the same byte, and all 256 values.
#[test]
fn functions_of_bytes_are_one_part() {
    for round in 0..60 {
        let random = &mut Random(15_000 + round);
        let mut case = Case::new();
        let dims = [random.int(1, 3), random.int(1, 5), random.int(1, 40), random.int(1, 40)];
        let types = [random.one_of(&BYTES), random.one_of(&BYTES)];
        let bytes = case.tensor(types[0], &dims);
        fill_bytes(&mut case, random, bytes);
        if round % 2 == 0 {
            let mut next = if types[0] == DataType::Int8 { -129.0 } else { -1.0 };
            let last = next + 256.0;
            case.memory(bytes).fill(|| {
                next = if next == last { last - 255.0 } else { next + 1.0 };
                next
            });
        }
        let value = dequantize(&mut case, random, bytes, &dims, 0.03);
        let gate = function(&mut case, random, value, &dims);
        let hidden = between(&mut case, types[1], &dims);
        quantize(&mut case, gate, &dims, 0.05, hidden, types[1]);
        let gate = dequantize(&mut case, random, hidden, &dims, 0.05);
        let again = dequantize(&mut case, random, bytes, &dims, 0.03);
        let value = two(&mut case, M::Add, gate, again, &dims);
        let out = case.tensor(types[1], &dims);
        quantize(&mut case, value, &dims, 0.2, out, types[1]);
        assert_eq!(parts(&case), 1, "round {round}");
        run_nearly(&case, out, &format!("round {round}"));
    }
}

/// If an operand is in memory, or something else reads an intermediate result, nodes are computed one by one.
#[test]
fn other_functions_are_computed_one_by_one() {
    for round in 0..20 {
        let random = &mut Random(16_000 + round);
        let mut case = Case::new();
        let dims = [2, 3, 8, 9];
        let bytes = case.tensor(DataType::Uint8, &dims);
        fill_bytes(&mut case, random, bytes);
        let value = dequantize(&mut case, random, bytes, &dims, 0.05);
        let value = if round % 2 == 0 {
            let factor = one(&mut case, DataType::Float, 0.7);
            two(&mut case, M::Mul, value, factor, &dims)
        } else {
            let out = case.tensor(DataType::Float, &dims);
            node(&mut case, DataType::Float, Pointwise::new(M::Neg, value, None, out));
            value
        };
        let out = case.tensor(DataType::Int8, &dims);
        quantize(&mut case, value, &dims, 0.1, out, DataType::Int8);
        run_nearly(&case, out, &format!("round {round}"));
    }
}
