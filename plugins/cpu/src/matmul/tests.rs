use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Operation, PointwiseMode, Tensor, operation};

use crate::dtype::element::Compute;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::has_special_cases;
use crate::testing::{
    Array, EIGHT_BITS, Random, cases, matmul_of, run, run_planned, run_together, run_together_for, same,
    strides,
};

const TYPES: [DataType; 4] = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

/// A matmul of random shape with its three tensors a, b and c, in one of many layouts.
fn case(random: &mut Random, [m, n, k]: [usize; 3]) -> (DataType, [Array; 3]) {
    let batch = random.of(&[0, 0, 0, 1, 1, 2]);
    let mut dims: [Vec<i64>; 3] = Default::default();
    for _ in 0..batch {
        let of_c = random.of(&[1, 2, 3, 4]);
        let divisors: Vec<i64> = (1..=of_c).filter(|divisor| of_c % divisor == 0).collect();
        dims[0].push(random.of(&divisors));
        dims[1].push(random.of(&divisors));
        dims[2].push(of_c);
    }
    for (dims, last) in dims.iter_mut().zip([[m, k], [k, n], [m, n]]) {
        dims.extend(last.map(|dim| dim as i64));
    }
    let one_type = random.of(&[true, true, false]).then(|| random.of(&TYPES));
    let mut array = |uid: i64, dims: &[i64]| {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if random.within(0, 2) == 0 {
            (1..order.len()).rev().for_each(|i| order.swap(i, random.within(0, i)));
        } else if random.within(0, 1) == 0 {
            order.swap(batch, batch + 1);
        }
        let data_type = one_type.unwrap_or_else(|| random.of(&TYPES));
        Array::new(uid, data_type, dims, &strides(dims, &order, random.of(&[0, 0, 3])))
            .filled(|| random.whole())
    };
    let arrays = [array(1, &dims[0]), array(2, &dims[1]), array(3, &dims[2])];
    (random.of(&[DataType::Float, DataType::Float, DataType::Double]), arrays)
}

fn product() -> Operation {
    operation::Matmul { a: 1, b: 2, c: 3 }.into()
}

/// The elements of c by the formula, in double precision.
fn expected([a, b, c]: &[Array; 3]) -> Vec<f64> {
    let rank = c.tensor.dims.len();
    let k = *a.tensor.dims.last().unwrap() as usize;
    let shared = |index: &[usize], array: &Array| -> Vec<usize> {
        let dims = array.tensor.dims.iter().zip(&c.tensor.dims).take(rank - 2);
        dims.zip(index).map(|((dim, of_c), index)| index / (of_c / dim) as usize).collect()
    };
    let indices = c.indices().into_iter();
    indices
        .map(|index| {
            let (mut of_a, mut of_b) = (shared(&index, a), shared(&index, b));
            of_a.extend([index[rank - 2], 0]);
            of_b.extend([0, index[rank - 1]]);
            let terms = (0..k).map(|l| {
                (of_a[rank - 1], of_b[rank - 2]) = (l, l);
                a.get(&of_a) * b.get(&of_b)
            });
            c.rounded(terms.sum())
        })
        .collect()
}

fn check(case: &str, compute: DataType, arrays: &[Array; 3]) {
    let expected = expected(arrays);
    for isa in Isa::available() {
        let mut arrays = arrays.clone();
        run(product(), compute, *isa, &mut arrays).unwrap();
        for (at, (got, expected)) in arrays[2].values().iter().zip(&expected).enumerate() {
            assert!(
                same(*got, *expected),
                "{case} at {isa:?}: element {at} is {got}, expected {expected}\n{:#?}",
                arrays.each_ref().map(|array| &array.tensor)
            );
        }
    }
}

/// Sums of integers are exact in any order.
#[test]
fn integers_in_any_shape_and_layout() {
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        let most = random.of(&[1, 9, 40, 100]);
        let shape = [(); 3].map(|()| random.within(1, most));
        let (compute, arrays) = case(random, shape);
        check(&format!("seed {seed}"), compute, &arrays);
    }
}

/// Few rows times weights whose terms are contiguous.
#[test]
fn few_rows_read_contiguous_columns_in_place() {
    for seed in 0..200 {
        let random = &mut Random::new(seed + 400);
        let [m, n, k] =
            [random.within(1, 18), random.within(2, 130), random.within(32, 300)].map(|n| n as i64);
        let mut array = |uid, dims: [i64; 2], order: [usize; 2]| {
            let layout = strides(&dims, &order, random.of(&[0, 0, 3]));
            Array::new(uid, random.of(&TYPES), &dims, &layout).filled(|| random.whole())
        };
        let arrays = [array(1, [m, k], [0, 1]), array(2, [k, n], [1, 0]), array(3, [m, n], [0, 1])];
        let compute = random.of(&[DataType::Float, DataType::Double]);
        let is_read_in_place = arrays[1].tensor.data_type != DataType::Double && compute == DataType::Float;
        let mut planned = arrays.clone();
        run_planned(product(), compute, &mut planned, |graph, node| {
            let matmul = matmul_of(graph, &node.node.operation);
            let kind = if compute == DataType::Double { Compute::Double } else { Compute::Single };
            let kernel = super::plan(&matmul, kind, Isa::detect(), Settings::default(), None)?;
            let is_dots = kernel.facts().algorithm == "dot products";
            let has_dots = has_special_cases::<f32>(Isa::detect());
            assert_eq!(is_dots, has_dots && m <= 8 && is_read_in_place, "seed {seed}: {m} x {n} x {k}");
            Ok(kernel)
        })
        .unwrap();
        check(&format!("seed {seed}"), compute, &arrays);
    }
}

/// 8-bit operands and results: sums of few terms exceed their largest values.
#[test]
fn floats_of_eight_bits() {
    for seed in 0..80 {
        let random = &mut Random::new(seed);
        let most = random.of(&[1, 9, 40, 100]);
        let shape = [(); 3].map(|()| random.within(1, most));
        let (compute, arrays) = case(random, shape);
        let operands = [(); 2].map(|()| random.of(&EIGHT_BITS));
        let types = [operands[0], operands[1], random.of(&[DataType::Float, DataType::Half, operands[0]])];
        let mut of = 0;
        let arrays = arrays.map(|array| {
            let Tensor { uid, dims, strides, .. } = &array.tensor;
            of += 1;
            Array::new(*uid, types[of - 1], dims, strides).filled(|| random.whole())
        });
        check(&format!("seed {seed}"), compute, &arrays);
    }
}

/// Only one dimension is large: blocks of rows, of terms, many panels.
#[test]
fn long_dimensions() {
    for (seed, shape) in [
        [1100, 5, 3],
        [5, 1100, 3],
        [9, 50, 4000],
        [1, 70, 1700],
        [530, 17, 1600],
        [70, 1, 90],
        [3, 60, 1024],
        [1, 1500, 37],
        [1, 2100, 1540],
        [2, 900, 11],
    ]
    .into_iter()
    .cycle()
    .take(cases(100).min(40) as usize)
    .enumerate()
    {
        let (compute, mut arrays) = case(&mut Random::new(seed as u64 + 1000), shape);
        // Sums that fit in 11 bits, so that no result is rounded.
        for array in &mut arrays[..2] {
            let mut i = 0;
            let indices = array.indices();
            indices.iter().for_each(|index| {
                i += 1;
                array.set(index, f64::from(u8::from(i % 7 == 0)));
            });
        }
        check(&format!("case {seed}"), compute, &arrays);
    }
}

/// Blocks of fewer rows, and panels in large pages.
#[test]
fn many_rows_with_constant_weights() {
    // Every night with as many terms as ever: the plain sums are not optimised.
    for [m, n, k] in [[700, 100, 30], [300, 1100, cases(600).max(100) as usize]] {
        let mut i = 0;
        let mut array = |uid, dims: [usize; 2]| {
            let dims = dims.map(|dim| dim as i64);
            Array::new(uid, DataType::Float, &dims, &[dims[1], 1]).filled(|| {
                i += 1;
                f64::from(u8::from(i % 7 == 0))
            })
        };
        let mut arrays = [array(1, [m, k]), array(2, [k, n]), array(3, [m, n])];
        let expected = expected(&arrays);
        for isa in Isa::available() {
            let settings = Settings { constant_weights: true, ..Settings::default() };
            run_together_for(&[product()], DataType::Float, (*isa, settings), &mut arrays, &[]);
            assert!(arrays[2].values() == expected, "{m} × {n} × {k} at {isa:?}");
        }
    }
}

/// NaN and infinity appear exactly where the formula has them.
#[test]
fn infinities_and_nan() {
    for seed in 0..60 {
        let random = &mut Random::new(seed + 2000);
        let shape = [(); 3].map(|()| random.within(1, 60));
        let (compute, mut arrays) = case(random, shape);
        for array in &mut arrays[..2] {
            let indices = array.indices();
            for _ in 0..2 {
                let index = &indices[random.within(0, indices.len() - 1)];
                array.set(index, random.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]));
            }
        }
        check(&format!("seed {seed}"), compute, &arrays);
    }
}

/// 8-bit operands have exact sums of 32 bits.
#[test]
fn bytes_have_exact_sums() {
    for seed in 0..40 {
        let random = &mut Random::new(seed + 3000);
        let [m, n] = [(); 2].map(|()| random.within(1, 50) as i64);
        // Sums of many large products have more digits than a float.
        let few = random.within(1, 50) as i64;
        let (k, least) = random.of(&[(few, 0), (2500, 200)]);
        let mut array = |uid, data_type, dims: [i64; 2]| {
            let order = random.of(&[[0, 1], [1, 0]]);
            Array::new(uid, data_type, &dims, &strides(&dims, &order, 0))
                .filled(|| random.within(least, 255) as f64 - 128.0)
        };
        let arrays = [
            array(1, DataType::Int8, [m, k]),
            array(2, DataType::Int8, [k, n]),
            array(3, DataType::Int32, [m, n]),
        ];
        check(&format!("seed {seed}"), DataType::Float, &arrays);
    }
}

/// The epilogue of a matmul: adding a row, a column or a whole matrix, then other operations.
#[test]
fn epilogues_of_a_product() {
    for seed in 0..300 {
        let random = &mut Random::new(seed + 4000);
        let few = [random.within(1, 60), random.within(1, 200)];
        let [m, n] = random.of(&[few, few, few, [1, 30 * few[0]]]);
        let shape = [m, n, random.of(&[1, 5, 20])];
        let (compute, mut arrays) = case(random, shape);
        let result = arrays[2].tensor.clone();
        let rank = result.dims.len();
        // Usually the compute type, of which a row can be added in registers.
        let data_type = random.of(&[compute, compute, DataType::Half]);
        let like = |uid| Tensor { uid, data_type, is_virtual: true, ..result.clone() };
        let mut dims = vec![1; rank];
        let shape = random.within(0, 3);
        if shape != 1 {
            dims[rank - 1] = result.dims[rank - 1];
        }
        if shape == 1 || shape == 3 {
            dims[rank - 2] = result.dims[rank - 2];
        }
        let gap = random.of(&[0, 2]);
        let order: Vec<usize> = (0..rank).collect();
        let row_type = random.of(&[compute, compute, DataType::Half]);
        let row = Array::new(4, row_type, &dims, &strides(&dims, &order, gap)).filled(|| random.whole());
        arrays[2] = Array::new(3, data_type, &result.dims, &result.strides);
        let whole = Array::new(5, DataType::Float, &result.dims, &strides(&result.dims, &order, 0))
            .filled(|| random.whole());
        let products = expected(&arrays);

        let sum = if random.within(0, 1) == 0 { (6, 4) } else { (4, 6) };
        let then = random.of(&[None, Some(PointwiseMode::ReluFwd), Some(PointwiseMode::Sub)]);
        let with_product = random.within(0, 4) == 0;
        let mut operations: Vec<Operation> = vec![operation::Matmul { a: 1, b: 2, c: 6 }.into()];
        let mut between = vec![like(6)];
        let mut last = 6;
        let mut step = |mode, first: i64, second: Option<i64>| {
            between.push(like(last + 1));
            operations.push(Pointwise::new(mode, first, second, last + 1).into());
            last += 1;
        };
        step(PointwiseMode::Add, sum.0, Some(sum.1));
        match then {
            Some(PointwiseMode::Sub) => step(PointwiseMode::Sub, 7, Some(5)),
            Some(mode) => step(mode, 7, None),
            None => {}
        }
        if with_product {
            let at = if then.is_some() { 8 } else { 7 };
            step(PointwiseMode::Max, at, Some(6));
        }
        between.pop();
        match operations.last_mut() {
            Some(Operation::Pointwise(last)) => last.out_0 = 3,
            _ => unreachable!(),
        }

        let expected: Vec<f64> = arrays[2]
            .indices()
            .iter()
            .zip(&products)
            .map(|(index, product)| {
                let place: Vec<usize> = index.iter().zip(&dims).map(|(at, dim)| at % *dim as usize).collect();
                let sum = product + row.get(&place);
                let then = match then {
                    Some(PointwiseMode::Sub) => sum - whole.get(index),
                    Some(_) => sum.max(0.0),
                    None => sum,
                };
                if with_product { then.max(*product) } else { then }
            })
            .collect();
        for isa in Isa::available() {
            let [a, b, c] = arrays.clone();
            let mut arrays = [a, b, c, row.clone(), whole.clone()];
            run_together(&operations, compute, *isa, &mut arrays, &between);
            for (at, (got, expected)) in arrays[2].values().iter().zip(&expected).enumerate() {
                assert!(
                    same(*got, *expected),
                    "seed {seed} at {isa:?}: element {at} is {got}, expected {expected}\n{operations:#?}"
                );
            }
        }
    }
}

#[test]
fn many_products_of_narrow_matrices() {
    let mut random = Random::new(77);
    for seed in 0..40 {
        let [m, n, k] = [random.within(1, 19), random.within(1, 17), random.within(1, 20)];
        let data_type = random.of(&[DataType::Float, DataType::Double]);
        let (first, second) = (random.within(1, 5) as i64, random.within(1, 5) as i64);
        let mut array = |uid: i64, [rows, columns]: [usize; 2]| {
            let shared = uid < 3 && random.within(0, 1) == 0;
            let dims = [first, if shared { 1 } else { second }, rows as i64, columns as i64];
            let order: [usize; 4] =
                if uid == 1 && random.within(0, 1) == 0 { [0, 1, 3, 2] } else { [0, 1, 2, 3] };
            Array::new(uid, data_type, &dims, &strides(&dims, &order, random.of(&[0, 3])))
                .filled(|| random.whole())
        };
        let arrays = [array(1, [m, k]), array(2, [k, n]), array(3, [m, n])];
        check(&format!("seed {seed}"), data_type, &arrays);
    }
}
