//! Products and convolutions of integers and of elements that are converted before multiplication. Sums of
//! integers are exact, so they equal the reference's.

use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Matmul};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

use super::{EIGHT_BITS, equals_reference, tensor};
use crate::engines::common::{Case, Random};
use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_plugin_planner::prepare::{Prepared, prepare};

const CONVERTED: [DataType; 8] = [
    DataType::Int4,
    DataType::Fp4E2m1,
    DataType::Fp6E2m3,
    DataType::Fp6E3m2,
    DataType::Fp8E8m0,
    DataType::Int64,
    DataType::Int32,
    DataType::Boolean,
];

const OTHERS: [DataType; 6] =
    [DataType::Float, DataType::Half, DataType::Double, DataType::Int8, DataType::Uint8, DataType::Bfloat16];

/// Three dtypes; one of the operands' is always converted.
fn types(random: &mut Random, case: &mut Case) -> [DataType; 3] {
    case.graph.compute_type = random.one_of(&[DataType::Float, DataType::Float, DataType::Double]);
    let all = [CONVERTED.as_slice(), &OTHERS, &EIGHT_BITS].concat();
    let mut types = [random.one_of(&CONVERTED), random.one_of(&all), random.one_of(&all)];
    if random.chance(50) {
        types.swap(0, 1);
    }
    types
}

/// Integers from -3 to 3, sometimes without negative ones; from 1 on in the type that has no others.
fn whole(random: &mut Random, case: &mut Case, uid: i64) {
    let is_power = case.graph.tensor(uid).unwrap().data_type == DataType::Fp8E8m0;
    let least = if is_power { 1 } else { random.one_of(&[-3, -3, 0]) };
    case.memory(uid).fill(|| random.int(least, 3) as f64);
}

#[test]
fn products() {
    for seed in 32_000..32_200 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let types = types(random, &mut case);
        let most = random.one_of(&[5, 40, 90]);
        let [m, n, k] = [(); 3].map(|()| random.int(1, most));
        let batch = random.one_of(&[&[][..], &[3], &[2, 3]]);
        let dims = |last: [i64; 2]| [batch, &last].concat();
        let [a, b, c] = [(0, dims([m, k])), (1, dims([k, n])), (2, dims([m, n]))]
            .map(|(at, dims)| tensor(random, &mut case, types[at], &dims));
        whole(random, &mut case, a);
        whole(random, &mut case, b);
        case.node(Matmul { a, b, c });
        equals_reference(&case, &[c], &format!("seed {seed}"));
    }
}

#[test]
fn convolutions() {
    for seed in 33_000..33_200 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let mut types = types(random, &mut case);
        let spatial = random.one_of(&[1, 2, 2, 2, 3]);
        let side = |random: &mut Random| random.int(3, [40, 14, 6][spatial - 1]);
        let (groups, c, k) = (random.one_of(&[1, 1, 2]), random.int(1, 20), random.int(1, 20));
        // Also depthwise ones, and those for which Winograd would be chosen.
        let (groups, c, k) = random.one_of(&[(groups, c, k), (groups, c, k), (5, 1, 1), (1, 16, 16)]);
        if c >= 16 && k >= 16 {
            // It stays exact only for integers.
            types[..2].copy_from_slice(&[random.one_of(&[DataType::Int8, DataType::Int4]), DataType::Int32]);
        }
        let (window, stride) = (random.one_of(&[1, 2, 3, 3, 3]), random.one_of(&[1, 1, 2]));
        let n = random.int(1, 2);
        let (mut x, mut w, mut y) = (vec![n, groups * c], vec![groups * k, c], vec![n, groups * k]);
        let padding = random.int(0, 1);
        for _ in 0..spatial {
            let input = side(random);
            x.push(input);
            w.push(window);
            y.push((input + 2 * padding - window) / stride + 1);
        }
        let [x, w, y] =
            [(0, x), (1, w), (2, y)].map(|(at, dims)| tensor(random, &mut case, types[at], &dims));
        whole(random, &mut case, x);
        whole(random, &mut case, w);
        case.node(ConvolutionForward {
            x,
            w,
            y,
            pre_padding: vec![padding; spatial],
            post_padding: vec![padding; spatial],
            stride: vec![stride; spatial],
            dilation: vec![1; spatial],
            conv_mode: random.one_of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]),
        });
        equals_reference(&case, &[y], &format!("seed {seed}"));
    }
}

/// Sums of bytes with more digits than single precision has.
#[test]
fn sums_of_bytes_are_exact_in_a_converted_result() {
    const TERMS: i64 = 2001;
    let random = &mut Random(34_000);
    let mut case = Case::new();
    let [a, b, c] = [(DataType::Int8, [1, TERMS]), (DataType::Int8, [TERMS, 1]), (DataType::Int64, [1, 1])]
        .map(|(data_type, dims)| tensor(random, &mut case, data_type, &dims));
    case.memory(a).fill(|| 127.0);
    case.memory(b).fill(|| 127.0);
    case.node(Matmul { a, b, c });
    for isa in Isa::available() {
        let mut fast = case.clone();
        let parts = |prepared: &Prepared| parts_at(prepared, *isa, Settings::default());
        let plan = Plan::in_parts(&prepare(&case.graph).unwrap(), parts).unwrap();
        fast.execute(&plan);
        assert_eq!(fast.values(c), [(127 * 127 * TERMS) as f64], "{isa:?}");
    }
}
