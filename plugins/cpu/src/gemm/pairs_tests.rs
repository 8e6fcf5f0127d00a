use hipdnn_plugin_sdk::graph::{DataType, operation};

use crate::dtype::element::Compute;
use crate::gemm::pairs::Pairs;
use crate::matmul::plan_with;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, run_planned, same, strides};

fn matmul(arrays: &[Array; 3], pairs: Pairs) -> Vec<f64> {
    let mut arrays = arrays.clone();
    run_planned(
        operation::Matmul { a: 1, b: 2, c: 3 }.into(),
        DataType::Float,
        &mut arrays,
        |graph, node| {
            let matmul = crate::testing::matmul_of(graph, &node.node.operation);
            plan_with(&matmul, Compute::Single, Isa::detect(), pairs, Settings::default(), None)
        },
    )
    .unwrap();
    arrays[2].values()
}

/// Operands and a result of these types in random layouts, with up to two batch dimensions, some of which
/// operand B may lack.
fn case(random: &mut Random, types: [DataType; 3], mut value: impl FnMut(&mut Random) -> f64) -> [Array; 3] {
    let [m, n, k] = [60, 70, 90].map(|most| random.within(1, most) as i64);
    // More than one K block.
    let k = if random.within(0, 9) == 0 { 3100 + k } else { k };
    let batch = random.of(&[0, 0, 1, 2]);
    let outer: Vec<i64> = (0..batch).map(|_| random.within(1, 3) as i64).collect();
    let of_b: Vec<i64> = outer.iter().map(|dim| random.of(&[1, *dim])).collect();
    let dims = [(&outer, [m, k]), (&of_b, [k, n]), (&outer, [m, n])]
        .map(|(outer, last)| [outer.as_slice(), &last].concat());
    [0, 1, 2].map(|at| {
        let mut order: Vec<usize> = (0..dims[at].len()).collect();
        match random.within(0, 3) {
            0 => order.swap(batch, batch + 1),
            1 => (1..order.len()).rev().for_each(|i| order.swap(i, random.within(0, i))),
            _ => {}
        }
        let strides = strides(&dims[at], &order, random.of(&[0, 0, 1, 2]));
        Array::new(at as i64 + 1, types[at], &dims[at], &strides).filled(|| value(random))
    })
}

#[test]
fn integer_sums_in_pairs_match_single_terms() {
    for seed in 0..300 {
        let random = &mut Random::new(seed + 6000);
        let bytes = [DataType::Int8, DataType::Uint8];
        let results = [DataType::Float, DataType::Double, DataType::Int32, DataType::Half];
        let types = if random.within(0, 1) == 0 {
            [random.of(&bytes), random.of(&bytes), random.of(&results)]
        } else {
            [DataType::Bfloat16, DataType::Bfloat16, random.of(&[results[0], results[1], DataType::Bfloat16])]
        };
        let value = |random: &mut Random| {
            random.within(0, if types[0] == DataType::Bfloat16 { 5 } else { 127 }) as f64
        };
        let mut arrays = case(random, types, value);
        for array in &mut arrays[..2] {
            if array.tensor.data_type != DataType::Uint8 {
                for index in array.indices() {
                    let negative = random.within(0, 1) == 0;
                    let value = array.get(&index);
                    array.set(&index, if negative { -value } else { value });
                }
            }
        }
        let [single, pairs] =
            [Pairs::default(), Pairs::of(Isa::detect())].map(|pairs| matmul(&arrays, pairs));
        for (at, (single, pairs)) in single.iter().zip(&pairs).enumerate() {
            assert!(
                same(*single, *pairs),
                "seed {seed}: element {at} is {pairs}, expected {single}, {types:?}"
            );
        }
    }
}

/// Sums of up to 32768 products of the largest bytes.
#[test]
fn the_largest_sums_of_bytes() {
    for (a, b, k, expected) in [
        (255.0, 255.0, 32_768, 2_130_739_200.0),
        (-128.0, 255.0, 32_768, -1_069_547_520.0),
        (-128.0, -128.0, 40_000, 655_360_000.0),
    ] {
        let array = |uid, value: f64, dims: [i64; 2]| {
            let data_type = if value < 0.0 { DataType::Int8 } else { DataType::Uint8 };
            Array::new(uid, data_type, &dims, &[dims[1], 1]).filled(|| value)
        };
        let c = Array::new(3, DataType::Int32, &[2, 3], &[3, 1]);
        let arrays = [array(1, a, [2, k]), array(2, b, [k, 3]), c];
        assert_eq!(matmul(&arrays, Pairs::of(Isa::detect())), [expected; 6]);
    }
}

#[test]
fn bfloat16_sums_stay_within_the_reordering_bound() {
    for seed in 0..100 {
        let random = &mut Random::new(seed + 7000);
        let types = [DataType::Bfloat16, DataType::Bfloat16, DataType::Double];
        let mut arrays = case(random, types, Random::real);
        let got = matmul(&arrays, Pairs::of(Isa::detect()));
        let [expected, magnitudes] = [false, true].map(|magnitudes| {
            for array in &mut arrays[..2] {
                array.tensor.data_type = DataType::Bfloat16;
                if magnitudes {
                    for index in array.indices() {
                        let value = array.get(&index);
                        array.set(&index, value.abs());
                    }
                }
            }
            let [a, b, c] = arrays.clone();
            let wide = |array: Array| {
                let tensor = &array.tensor;
                let mut values = array.values().into_iter();
                Array::new(tensor.uid, DataType::Double, &tensor.dims, &tensor.strides)
                    .filled(|| values.next().unwrap())
            };
            product_in_double(&[wide(a), wide(b), c])
        });
        let k = *arrays[0].tensor.dims.last().unwrap() as f64;
        for (at, ((got, expected), magnitude)) in got.iter().zip(&expected).zip(&magnitudes).enumerate() {
            let bound = 2.0 * k * f64::from(f32::EPSILON) / 2.0 * magnitude;
            assert!(
                (got - expected).abs() <= bound,
                "seed {seed}: element {at} is {got}, expected {expected} within {bound}"
            );
        }
    }
}

fn product_in_double(arrays: &[Array; 3]) -> Vec<f64> {
    let mut arrays = arrays.clone();
    run_planned(
        operation::Matmul { a: 1, b: 2, c: 3 }.into(),
        DataType::Double,
        &mut arrays,
        |graph, node| {
            let matmul = crate::testing::matmul_of(graph, &node.node.operation);
            plan_with(&matmul, Compute::Double, Isa::detect(), Pairs::default(), Settings::default(), None)
        },
    )
    .unwrap();
    arrays[2].values()
}

/// The instructions treat subnormal values as zero.
#[test]
fn subnormal_operands_count_as_zero() {
    let small = 2.0_f64.powi(-130);
    let array = |uid, value: f64| Array::new(uid, DataType::Bfloat16, &[1, 1], &[1, 1]).filled(|| value);
    let arrays = [array(1, small), array(2, 2.0_f64.powi(100)), array(3, 0.0)];
    assert_eq!(matmul(&arrays, Pairs::default()), [2.0_f64.powi(-30)]);
    let pairs = Pairs::of(Isa::detect());
    assert_eq!(matmul(&arrays, pairs), [if pairs.bfloat16 { 0.0 } else { 2.0_f64.powi(-30) }]);
}
