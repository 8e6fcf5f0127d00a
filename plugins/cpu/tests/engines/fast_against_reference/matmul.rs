//! Matrix multiplications, alone and with usual epilogues.

use std::ops::Range;

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::{FAST, REFERENCE, both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, EIGHT_BITS, Random};

/// The dims of a, b and c, with up to about a million products.
fn shape(random: &mut Random) -> [Vec<i64>; 3] {
    loop {
        let mut dims: [Vec<i64>; 3] = Default::default();
        let mut products = 1;
        for _ in 0..random.one_of(&[0, 0, 1, 1, 2, 3]) {
            let of_c = random.one_of(&[1, 2, 3, 4, 6]);
            let divisors: Vec<i64> = (1..=of_c).filter(|divisor| of_c % divisor == 0).collect();
            // Mostly the same number of matrices, or one shared by all.
            let usual = random.chance(70);
            for of_factor in &mut dims[..2] {
                of_factor.push(if usual {
                    random.one_of(&[1, of_c, of_c])
                } else {
                    random.one_of(&divisors)
                });
            }
            dims[2].push(of_c);
            products *= of_c;
        }
        let mut size = || match random.int(0, 9) {
            0 => 1,
            1 => random.int(1, 2000),
            2..6 => random.int(1, 20),
            _ => random.int(20, 130),
        };
        let (m, n, k) = (size(), size(), size());
        if products * m * n * k <= 1_000_000 {
            for (dims, last) in dims.iter_mut().zip([[m, k], [k, n], [m, n]]) {
                dims.extend(last);
            }
            return dims;
        }
    }
}

fn node(random: &mut Random, case: &mut Case, types: [DataType; 3], shape: &[Vec<i64>; 3]) -> [i64; 3] {
    let [a, b, c] = [0, 1, 2].map(|at| tensor(random, case, types[at], &shape[at]));
    case.node(Matmul { a, b, c });
    [a, b, c]
}

fn terms(shape: &[Vec<i64>; 3]) -> f64 {
    shape[0].last().map_or(0.0, |k| *k as f64)
}

/// Both engines' products of random shapes for each seed, with chosen dtypes.
fn check(seeds: Range<u64>, mut types: impl FnMut(&mut Random, &mut Case) -> [DataType; 3]) {
    for seed in seeds {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let types = types(random, &mut case);
        let shape = shape(random);
        let [a, b, c] = node(random, &mut case, types, &shape);
        for uid in [a, b] {
            fill(random, &mut case, uid, -1.0, 1.0);
        }
        let (fast, reference) = both(&case);

        // Σ|t|, which the reference computes in double precision from the operands' magnitudes.
        let mut sizes = Case::new();
        sizes.graph.compute_type = DataType::Double;
        let of_sizes = node(&mut Random(seed), &mut sizes, [DataType::Double; 3], &shape);
        for (to, from) in of_sizes.into_iter().zip([a, b]) {
            let magnitudes: Vec<f64> = case.values(from).iter().map(|value| value.abs()).collect();
            sizes.fill(to, &magnitudes);
        }
        sizes.run(planner(REFERENCE));
        let sums = sizes.values(of_sizes[2]);
        let (eps, _) = roundoff(compute(&case));
        compare(seed, "product", &fast, &reference, c, |at| 2.0 * terms(&shape) * eps * sums[at]);
    }
}

#[test]
fn products() {
    check(20_000..20_300, types);
}

#[test]
fn products_of_8_bit_floats() {
    check(22_000..22_100, |random, case| {
        case.graph.compute_type = random.one_of(&[DataType::Float, DataType::Float, DataType::Double]);
        let of_result = random.one_of(&EIGHT_BITS);
        [random.one_of(&EIGHT_BITS), random.one_of(&EIGHT_BITS), random.one_of(&[DataType::Float, of_result])]
    });
}

/// A product's epilogue is computed with it: intermediate tensors need no workspace.
#[test]
fn intermediate_tensors_are_never_stored() {
    let mut case = Case::new();
    let float = DataType::Float;
    let whole = [512, 512];
    let [a, b] = [[512, 8], [8, 512]].map(|dims| case.tensor(float, &dims));
    let [c, summed] = [(); 2].map(|()| case.virtual_tensor(float, &whole, &[512, 1]));
    let [bias, out] = [[1, 512], whole].map(|dims| case.tensor(float, &dims));
    case.node(Matmul { a, b, c });
    case.node(Pointwise::new(PointwiseMode::Add, c, Some(bias), summed));
    case.node(Pointwise::new(PointwiseMode::GeluFwd, summed, None, out));
    let plan = planner(FAST).plan(&case.graph).unwrap();
    assert!(plan.workspace_size() < 512 * 512 * 4, "{} bytes", plan.workspace_size());
}

/// A column bias and an activation, with virtual intermediate tensors.
#[test]
fn bias_and_activation_epilogue() {
    for seed in 21_000..21_150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let types: [DataType; 3] = types(random, &mut case);
        let shape = shape(random);
        let [a, b, c] = node(random, &mut case, types, &shape);
        for uid in [a, b] {
            fill(random, &mut case, uid, -1.0, 1.0);
        }
        case.memory.retain(|memory| memory.tensor.uid != c);
        let made = case.graph.tensors.iter_mut().find(|tensor| tensor.uid == c).unwrap();
        made.is_virtual = true;
        let steps = made.strides.clone();
        let summed = case.virtual_tensor(types[2], &shape[2], &steps);
        let mut dims = vec![1; shape[2].len()];
        *dims.last_mut().unwrap() = *shape[2].last().unwrap();
        let bias = tensor(random, &mut case, types[0], &dims);
        fill(random, &mut case, bias, -1.0, 1.0);
        let out = tensor(random, &mut case, types[2], &shape[2]);
        case.node(Pointwise::new(PointwiseMode::Add, c, Some(bias), summed));
        let mode = random.one_of(&[PointwiseMode::ReluFwd, PointwiseMode::TanhFwd]);
        case.node(Pointwise::new(mode, summed, None, out));
        let (fast, reference) = both(&case);
        // The product's bound with Σ|t| at most k, which no activation here increases, plus the rounding to
        // storage at each step.
        let eps = roundoff(compute(&case)).0;
        let unit = roundoff(types[2]).0;
        let k = terms(&shape);
        let bound = 2.0 * eps * (k * k + 8.0 * k + 32.0) + 4.0 * unit * (k + 1.0);
        compare(seed, "product, bias, activation", &fast, &reference, out, |_| bound);
    }
}
