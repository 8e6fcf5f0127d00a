//! The reference matmul against sums over plain arrays, and its refusals.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::Matmul;

use super::common::{Case, Random, packed, strides};

fn product(a: &[i64], b: &[i64], c: &[i64]) -> Case {
    let mut case = Case::new();
    let [a, b, c] = [a, b, c].map(|dims| case.tensor(DataType::Float, dims));
    case.node(Matmul { a, b, c });
    case
}

#[test]
fn rows_meet_columns() {
    for engine in 0..2 {
        let mut case = product(&[2, 3], &[3, 2], &[2, 2]);
        case.fill(1, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        case.fill(2, &[7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
        case.run(planner(engine));
        assert_eq!(case.values(3), [58.0, 64.0, 139.0, 154.0]);
    }
}

#[test]
fn neighbours_share_a_matrix() {
    // Four products, two matrices of a, one of b: 0 and 1 share the first of a, 2 and 3 the second.
    let mut case = product(&[2, 1, 1], &[1, 1, 1], &[4, 1, 1]);
    case.fill(1, &[2.0, 3.0]);
    case.fill(2, &[10.0]);
    case.run(planner(1));
    assert_eq!(case.values(3), [20.0, 20.0, 30.0, 30.0]);
}

#[test]
fn random_products_are_sums() {
    let mut random = Random(11);
    for _ in 0..200 {
        let batch = random.int(0, 3) as usize;
        let [m, n, k] = [(); 3].map(|()| random.int(1, 5));
        let (mut a, mut b, mut c) = (vec![], vec![], vec![]);
        for _ in 0..batch {
            let of_c = random.one_of(&[1, 2, 4, 6]);
            let divisors: Vec<i64> = (1..=of_c).filter(|d| of_c % d == 0).collect();
            a.push(random.one_of(&divisors));
            b.push(random.one_of(&divisors));
            c.push(of_c);
        }
        a.extend([m, k]);
        b.extend([k, n]);
        c.extend([m, n]);
        let mut case = Case::new();
        let types = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16, DataType::Int8];
        let mut tensor = |dims: &[i64], types: &[DataType], case: &mut Case| {
            let mut order: Vec<usize> = (0..dims.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.int(0, i as i64) as usize);
            }
            case.tensor_with(random.one_of(types), dims, &strides(dims, &order))
        };
        let (at, bt) = (tensor(&a, &types, &mut case), tensor(&b, &types, &mut case));
        let ct = tensor(&c, &[DataType::Float, DataType::Double, DataType::Int32], &mut case);
        // Small integers, so that every type holds them and every sum.
        let mut integers = |dims: &[i64]| -> Vec<f64> {
            (0..dims.iter().product()).map(|_| random.int(-8, 8) as f64).collect()
        };
        let (av, bv) = (integers(&a), integers(&b));
        case.fill(at, &av);
        case.fill(bt, &bv);
        case.node(Matmul { a: at, b: bt, c: ct });
        case.run(planner(1));
        let got = case.values(ct);
        let (a_steps, b_steps) = (packed(&a), packed(&b));
        for (place, got) in got.iter().enumerate() {
            let mut rest = place as i64;
            let mut index = vec![0; c.len()];
            for axis in (0..c.len()).rev() {
                (index[axis], rest) = (rest % c[axis], rest / c[axis]);
            }
            let base = |dims: &[i64], steps: &[i64]| -> i64 {
                (0..batch).map(|axis| index[axis] * dims[axis] / c[axis] * steps[axis]).sum()
            };
            let (a_base, b_base) = (base(&a, &a_steps), base(&b, &b_steps));
            let expected: f64 = (0..k)
                .map(|l| {
                    let (a_at, b_at) = (a_base + index[batch] * k + l, b_base + l * n + index[batch + 1]);
                    av[a_at as usize] * bv[b_at as usize]
                })
                .sum();
            assert_eq!(*got, expected, "{a:?} · {b:?} = {c:?} at {index:?}");
        }
    }
}

#[test]
fn mismatched_shapes_are_refused() {
    for (a, b, c, parts) in [
        (vec![2, 3], vec![3, 2], vec![2], ["c:", "two or more"]),
        (vec![1, 2, 3], vec![3, 2], vec![2, 2], ["a:", "has 3 entries, expected 2"]),
        (vec![2, 3], vec![1, 3, 2], vec![2, 2], ["b:", "has 3 entries, expected 2"]),
        (vec![3, 3], vec![3, 2], vec![2, 2], ["a: dims[0] is 3", "expected 2"]),
        (vec![2, 4], vec![3, 2], vec![2, 2], ["b: dims[0] is 3", "expected 4"]),
        (vec![2, 3], vec![3, 3], vec![2, 2], ["b: dims[1] is 3", "expected 2"]),
        (vec![3, 2, 3], vec![1, 3, 2], vec![4, 2, 2], ["a: dims[0] is 3", "divisor"]),
        (vec![4, 2, 3], vec![8, 3, 2], vec![4, 2, 2], ["b: dims[0] is 8", "divisor"]),
    ] {
        let refusal = planner(0).plan(&product(&a, &b, &c).graph).err().unwrap();
        assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
}
