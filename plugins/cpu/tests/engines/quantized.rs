//! Int8 convolutions and matrix multiplications with everything around them, from bytes to bytes in one part.

use hipdnn_plugin_sdk::graph::operation::{BlockScaleDequantize, ConvolutionForward, Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode, TensorValue};

use super::common::{Case, Random, packed, tensor};
use super::in_place;
use super::integers::{BYTES, fill_bytes, node, parts, run_everywhere};
use super::limits::assert_engines_agree;
use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_plugin_planner::prepare::prepare;

/// 3 · 2²²: adding it to a single-precision value rounds that to an integer.
pub const NO_FRACTION: f32 = 12_582_912.0;

/// Whether int8 products are used; elsewhere single precision is faster.
pub fn is_fast() -> bool {
    Isa::detect() != Isa::Portable
}

/// A random product: its dims, and the axes of columns in the weights and in the result.
pub struct Product {
    convolution: Option<ConvolutionForward>,
    pub x: Vec<i64>,
    pub w: Vec<i64>,
    pub y: Vec<i64>,
}

impl Product {
    pub fn random(random: &mut Random) -> Self {
        if random.chance(40) {
            let [m, n] = [(); 2].map(|()| random.int(1, 70));
            let k = random.one_of(&[1, 5, 64, 130]);
            return Self { convolution: None, x: vec![m, k], w: vec![k, n], y: vec![m, n] };
        }
        let mut groups = random.one_of(&[1, 1, 1, 2]);
        let [mut c, mut k] = [random.one_of(&[2, 4, 16, 33]), random.one_of(&[1, 3, 20, 40])];
        let (mut side, mut most) = (random.one_of(&[1, 1, 3]), 9);
        let mut dilation = 1;
        if random.chance(30) {
            // Depthwise convolutions.
            (groups, most) = random.one_of(&[(2, 40), (9, 9), (9, 40), (17, 9), (40, 9)]);
            (c, k) = (1, random.one_of(&[1, 1, 2]));
            (side, dilation) = (random.one_of(&[3, 5, 7]), random.one_of(&[1, 1, 2]));
        }
        let reach = (side - 1) * dilation + 1;
        let (padding, stride) = (random.int(0, side / 2), random.one_of(&[1, 1, 2, 3]));
        let size = random.int(reach, reach.max(most));
        let output = (size + 2 * padding - reach) / stride + 1;
        Self {
            convolution: Some(ConvolutionForward {
                x: 0,
                w: 0,
                y: 0,
                pre_padding: vec![padding; 2],
                post_padding: vec![padding; 2],
                stride: vec![stride; 2],
                dilation: vec![dilation; 2],
                conv_mode: random.one_of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]),
            }),
            x: vec![2, c * groups, size, size],
            w: vec![k * groups, c, side, side],
            y: vec![2, k * groups, output, output],
        }
    }

    /// The dims of a tensor with one value per column, for the weights and for the result.
    pub fn of_columns(&self) -> [Vec<i64>; 2] {
        let (mut w, mut y) = (vec![1; self.w.len()], vec![1; self.y.len()]);
        match self.convolution {
            None => (w[1], y[1]) = (self.w[1], self.y[1]),
            Some(_) => (w[0], y[1]) = (self.w[0], self.y[1]),
        }
        [w, y]
    }

    pub fn node(&self, case: &mut Case, compute: DataType, [x, w, y]: [i64; 3]) {
        match &self.convolution {
            None => node(case, compute, Matmul { a: x, b: w, c: y }),
            Some(convolution) => node(case, compute, ConvolutionForward { x, w, y, ..convolution.clone() }),
        }
    }
}

pub fn between(case: &mut Case, of: DataType, dims: &[i64]) -> i64 {
    case.virtual_tensor(of, dims, &packed(dims))
}

/// A single-precision node with two operands and a virtual result.
pub fn two(case: &mut Case, mode: PointwiseMode, a: i64, b: i64, dims: &[i64]) -> i64 {
    let out = between(case, DataType::Float, dims);
    node(case, DataType::Float, Pointwise::new(mode, a, Some(b), out));
    out
}

pub fn constant(case: &mut Case, value: f32) -> i64 {
    case.value(DataType::Float, TensorValue::Float32(value))
}

/// A tensor with one element.
pub fn one(case: &mut Case, of: DataType, value: f64) -> i64 {
    let uid = case.tensor(of, &[1]);
    case.memory(uid).fill(|| value);
    uid
}

/// A zero point, in memory or constant.
fn zero_point(case: &mut Case, random: &mut Random, of: DataType) -> i64 {
    let value = if of == DataType::Int8 { random.int(-128, 127) } else { random.int(0, 255) };
    match random.one_of(&[0, 0, 1]) {
        0 => one(case, of, value as f64),
        _ => constant(case, value as f32),
    }
}

/// Nodes that quantize a single-precision value to bytes, in one of the recognized forms.
fn quantize(case: &mut Case, random: &mut Random, value: i64, dims: &[i64], out: i64, of: DataType) {
    use PointwiseMode as M;
    let mut value = value;
    if random.chance(30) {
        let out = between(case, DataType::Float, dims);
        let mut relu = Pointwise::new(M::ReluFwd, value, None, out);
        relu.relu_upper_clip = random.one_of(&[None, Some(6.0)]);
        node(case, DataType::Float, relu);
        value = out;
    }
    let scale = random.real(0.02, 0.3);
    value = match random.one_of(&[0, 1]) {
        0 => {
            let scale = one(case, DataType::Float, scale);
            two(case, M::Div, value, scale, dims)
        }
        _ => {
            let factor = constant(case, (1.0 / scale) as f32);
            two(case, M::Mul, factor, value, dims)
        }
    };
    match random.one_of(&[0, 0, 1, 2]) {
        0 => {
            let magic = constant(case, NO_FRACTION);
            value = two(case, M::Add, value, magic, dims);
            value = two(case, M::Sub, value, magic, dims);
        }
        1 => {
            let half = constant(case, 0.5);
            value = two(case, M::Add, value, half, dims);
            let out = between(case, DataType::Float, dims);
            node(case, DataType::Float, Pointwise::new(M::Floor, value, None, out));
            value = out;
        }
        _ => {}
    }
    if random.chance(70) {
        let zero = zero_point(case, random, of);
        value = two(case, M::Add, value, zero, dims);
    }
    if random.chance(30) {
        let least = constant(case, random.int(-100, 50) as f32);
        value = two(case, M::Max, value, least, dims);
    }
    node(case, DataType::Float, Pointwise::new(M::Identity, value, None, out));
}

/// Integer sums, a bias, a scale and everything after: bit-identical to the reference.
#[test]
fn integers_to_bytes_are_one_part_with_the_references_bits() {
    use PointwiseMode as M;
    for round in 0..80 {
        let random = &mut Random(500 + round);
        let product = Product::random(random);
        let mut case = Case::new();
        let types = [random.one_of(&BYTES), random.one_of(&BYTES)];
        let x = tensor(random, &mut case, types[0], &product.x);
        let w = tensor(random, &mut case, types[1], &product.w);
        [x, w].into_iter().for_each(|uid| fill_bytes(&mut case, random, uid));
        let [_, of_columns] = product.of_columns();
        let dims = product.y.clone();
        let mut value = between(&mut case, DataType::Int32, &dims);
        product.node(&mut case, DataType::Int32, [x, w, value]);
        if random.chance(60) {
            let bias = case.tensor(DataType::Int32, &of_columns);
            let most = random.one_of(&[20_000, 2_147_483_647]);
            case.memory(bias).fill(|| random.int(-most, most) as f64);
            let sum = between(&mut case, DataType::Int32, &dims);
            node(&mut case, DataType::Int32, Pointwise::new(M::Add, value, Some(bias), sum));
            value = sum;
        }
        let scale = case.tensor(DataType::Float, &of_columns);
        case.memory(scale).fill(|| random.real(1e-5, 1e-3));
        value = two(&mut case, M::Mul, value, scale, &dims);
        if random.chance(50) {
            let shift = case.tensor(DataType::Float, &of_columns);
            case.memory(shift).fill(|| random.real(-3.0, 3.0));
            value = two(&mut case, M::Add, value, shift, &dims);
        }
        if random.chance(30) {
            let residual = tensor(random, &mut case, DataType::Float, &dims);
            case.memory(residual).fill(|| random.real(-3.0, 3.0));
            value = two(&mut case, M::Add, residual, value, &dims);
        }
        let of = random.one_of(&[DataType::Int8, DataType::Uint8]);
        let out = tensor(random, &mut case, of, &dims);
        quantize(&mut case, random, value, &dims, out, of);
        assert!(!is_fast() || parts(&case) == 1, "round {round}");
        run_everywhere(&case, &[out], &format!("round {round}"));
    }
}

/// A tensor of bytes, and the single-precision tensor that the graph dequantizes from it.
pub fn stored(case: &mut Case, random: &mut Random, dims: &[i64], of_scale: &[i64], low: f64) -> (i64, i64) {
    let of = random.one_of(&BYTES);
    let bytes = tensor(random, case, of, dims);
    fill_bytes(case, random, bytes);
    let scale = case.tensor(DataType::Float, of_scale);
    case.memory(scale).fill(|| random.real(low, 2.0 * low));
    let out = between(case, DataType::Float, dims);
    match random.one_of(&[0, 0, 1, 2]) {
        0 => {
            let zero = zero_point(case, random, of);
            let shifted = two(case, PointwiseMode::Sub, bytes, zero, dims);
            node(case, DataType::Float, Pointwise::new(PointwiseMode::Mul, shifted, Some(scale), out));
        }
        1 => node(case, DataType::Float, Pointwise::new(PointwiseMode::Mul, scale, Some(bytes), out)),
        _ => {
            let block_size = dims.iter().zip(of_scale).map(|(dim, of)| if dim == of { 1 } else { *dim });
            let block_size = block_size.map(|size| size as i32).collect();
            let dequantize =
                BlockScaleDequantize { x: bytes, scale, y: out, block_size, is_negative_scale: false };
            node(case, DataType::Float, dequantize);
        }
    }
    (bytes, out)
}

/// Runs a case on the reference and on every instruction set: results are equal, or rarely one step apart.
pub fn run_nearly(case: &Case, out: i64, what: &str) -> [usize; 2] {
    in_place::check(case, &mut Random(out as u64), what);
    let mut reference = case.clone();
    reference.run(planner(1));
    let mut counts = [0, 0];
    for isa in Isa::available() {
        let mut fast = case.clone();
        let plan = Plan::in_parts(&prepare(&case.graph).unwrap(), |prepared| {
            parts_at(prepared, *isa, Settings::default())
        });
        fast.execute(&plan.unwrap());
        for (at, (got, expected)) in fast.values(out).iter().zip(reference.values(out)).enumerate() {
            let apart = (got - expected).abs();
            assert!(apart <= 1.0, "{what} at {isa:?}: element {at} is {got}, expected {expected}");
            counts[usize::from(apart > 0.0)] += 1;
        }
    }
    counts
}

/// A graph as quantizers of trained networks write it: dequantize, compute in single precision, quantize.
#[test]
fn dequantized_operands_are_multiplied_as_bytes() {
    use PointwiseMode as M;
    let mut counts = [0, 0];
    for round in 0..80 {
        let random = &mut Random(9000 + round);
        let product = Product::random(random);
        let mut case = Case::new();
        let [of_w, of_columns] = product.of_columns();
        let of_w = if random.chance(50) { of_w } else { vec![1; of_w.len()] };
        let (_, x) = stored(&mut case, random, &product.x, &vec![1; product.x.len()], 0.02);
        let (_, w) = stored(&mut case, random, &product.w, &of_w, 0.003);
        let dims = product.y.clone();
        let mut value = between(&mut case, DataType::Float, &dims);
        product.node(&mut case, DataType::Float, [x, w, value]);
        if random.chance(60) {
            let bias = case.tensor(DataType::Int32, &of_columns);
            case.memory(bias).fill(|| random.int(-20_000, 20_000) as f64);
            let scale = one(&mut case, DataType::Float, 1e-4);
            let shift = two(&mut case, M::Mul, bias, scale, &of_columns);
            value = two(&mut case, M::Add, value, shift, &dims);
        }
        if random.chance(40) {
            let (_, residual) = stored(&mut case, random, &dims, &vec![1; dims.len()], 0.05);
            value = two(&mut case, M::Add, value, residual, &dims);
        }
        let of = random.one_of(&[DataType::Int8, DataType::Uint8]);
        let out = tensor(random, &mut case, of, &dims);
        quantize(&mut case, random, value, &dims, out, of);
        assert!(!is_fast() || parts(&case) == 1, "round {round}: {:#?}", case.graph);
        let [equal, apart] = run_nearly(&case, out, &format!("round {round}"));
        counts = [counts[0] + equal, counts[1] + apart];
    }
    assert!(counts[1] * 100 < counts[0], "{counts:?}");
}

/// Integer zero points, as in MatMulInteger and ConvInteger, with the sums as result.
#[test]
fn products_of_differences_of_bytes_are_exact() {
    for round in 0..60 {
        let random = &mut Random(700 + round);
        let product = Product::random(random);
        let mut case = Case::new();
        let differences = [&product.x, &product.w].map(|dims| {
            let of = random.one_of(&BYTES);
            let bytes = tensor(random, &mut case, of, dims);
            fill_bytes(&mut case, random, bytes);
            let zero = one(&mut case, of, if of == DataType::Int8 { -128.0 } else { 255.0 });
            let out = between(&mut case, DataType::Int32, dims);
            node(&mut case, DataType::Int32, Pointwise::new(PointwiseMode::Sub, bytes, Some(zero), out));
            out
        });
        let out = tensor(random, &mut case, DataType::Int32, &product.y);
        product.node(&mut case, DataType::Int32, [differences[0], differences[1], out]);
        assert_eq!(parts(&case), 1, "round {round}");
        run_everywhere(&case, &[out], &format!("round {round}"));
    }
}

/// Two convolutions that read a tensor need no dequantization; another reader does.
#[test]
fn a_dequantized_tensor_with_several_readers() {
    for with_other in [false, true] {
        let random = &mut Random(77);
        let mut case = Case::new();
        let dims = [1, 4, 5, 5];
        let (_, x) = stored(&mut case, random, &dims, &[1; 4], 0.1);
        let results = [0, 1].map(|_| {
            let (_, w) = stored(&mut case, random, &[3, 4, 1, 1], &[3, 1, 1, 1], 0.1);
            let y = case.tensor(DataType::Float, &[1, 3, 5, 5]);
            let none = vec![0, 0];
            node(
                &mut case,
                DataType::Float,
                ConvolutionForward {
                    x,
                    w,
                    y,
                    pre_padding: none.clone(),
                    post_padding: none,
                    stride: vec![1, 1],
                    dilation: vec![1, 1],
                    conv_mode: ConvMode::CrossCorrelation,
                },
            );
            y
        });
        let mut outputs = results.to_vec();
        if with_other {
            let out = case.tensor(DataType::Float, &dims);
            node(&mut case, DataType::Float, Pointwise::new(PointwiseMode::Neg, x, None, out));
            outputs.push(out);
        }
        // With only the convolutions, nothing is left to dequantize.
        assert!(!is_fast() || (parts(&case) > 2) == with_other);
        let mut reference = case.clone();
        reference.run(planner(1));
        case.run(planner(0));
        assert_engines_agree("dequantized", &case, &reference);
    }
}

/// Zero points that do not fit in a byte are left to the single-precision kernels.
#[test]
fn other_zero_points_are_supported() {
    for zero in [0.5, 300.0, -1.0] {
        let random = &mut Random(78);
        let mut case = Case::new();
        let a = case.tensor(DataType::Uint8, &[5, 7]);
        let b = case.tensor(DataType::Int8, &[7, 6]);
        [a, b].into_iter().for_each(|uid| fill_bytes(&mut case, random, uid));
        let zero = constant(&mut case, zero);
        let shifted = two(&mut case, PointwiseMode::Sub, a, zero, &[5, 7]);
        let scale = constant(&mut case, 0.01);
        let scaled = two(&mut case, PointwiseMode::Mul, b, scale, &[7, 6]);
        let c = case.tensor(DataType::Float, &[5, 6]);
        node(&mut case, DataType::Float, Matmul { a: shifted, b: scaled, c });
        assert!(parts(&case) > 1);
        let mut reference = case.clone();
        reference.run(planner(1));
        case.run(planner(0));
        assert_engines_agree("other zero points", &case, &reference);
    }
}
