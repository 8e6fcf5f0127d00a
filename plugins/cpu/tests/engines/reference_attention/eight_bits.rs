//! Attention on 8-bit floats.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::Sdpa;

use super::filled;
use crate::engines::common::{Case, EIGHT_BITS, Random};
use crate::engines::limits::assert_near;

/// The same result as with the elements' values times their factors.
#[test]
fn elements_are_read_as_their_values() {
    let mut random = Random(31);
    for data_type in EIGHT_BITS {
        for engine in 0..2 {
            let dims: [&[i64]; 3] = [&[2, 4, 3, 5], &[2, 2, 6, 5], &[2, 2, 6, 4]];
            let factors = [2.0, 0.5, 4.0];
            let mut case = Case::new();
            case.graph.compute_type = DataType::Double;
            let small = dims.map(|dims| {
                let values: Vec<f64> = (0..dims.iter().product()).map(|_| random.real(-2.0, 2.0)).collect();
                filled(&mut case, data_type, dims, &values)
            });
            let o = case.tensor(DataType::Double, &[2, 4, 3, 4]);
            let mut node = Sdpa::new(small[0], small[1], small[2], o);
            let [q, k, v] =
                factors.map(|factor| Some(filled(&mut case, DataType::Float, &[1, 1, 1, 1], &[factor])));
            (node.descale_q, node.descale_k, node.descale_v) = (q, k, v);
            case.node(node);
            case.run(planner(engine));

            let mut wide = Case::new();
            wide.graph.compute_type = DataType::Double;
            let [q, k, v] = [0, 1, 2].map(|place| {
                let values: Vec<f64> = case.values(small[place]).iter().map(|n| n * factors[place]).collect();
                filled(&mut wide, DataType::Double, dims[place], &values)
            });
            let wide_o = wide.tensor(DataType::Double, &[2, 4, 3, 4]);
            wide.node(Sdpa::new(q, k, v, wide_o));
            wide.run(planner(engine));
            // Held to the limits of `double`: the notes of attention allow for probabilities in 8 bits.
            let expected = wide.values(wide_o);
            wide.fill(wide_o, &case.values(o));
            assert_near(&wide, engine, &[(wide_o, &expected)]);
        }
    }
}

/// If the values have another dtype, probabilities are scaled but not rounded.
#[test]
fn probabilities_of_wider_values_are_not_rounded() {
    let run = |engine, data_type| {
        let mut case = Case::new();
        let q = filled(&mut case, data_type, &[1, 1, 1, 1], &[0.0]);
        let k = filled(&mut case, data_type, &[1, 1, 3, 1], &[1.0, 2.0, 3.0]);
        let v = filled(&mut case, DataType::Double, &[1, 1, 3, 1], &[3.0, 5.0, 4.0]);
        let [o, amax_s, amax_o] = [(); 3].map(|()| case.tensor(DataType::Double, &[1, 1, 1, 1]));
        let mut node = Sdpa::new(q, k, v, o);
        (node.amax_s, node.amax_o) = (Some(amax_s), Some(amax_o));
        let mut one = |factor| Some(filled(&mut case, DataType::Float, &[1, 1, 1, 1], &[factor]));
        (node.scale_s, node.descale_s, node.scale_o) = (one(1.125), one(4.0), one(0.5));
        case.graph.compute_type = DataType::Double;
        case.node(node);
        case.run(planner(engine));
        (case, [o, amax_s, amax_o])
    };
    for engine in 0..2 {
        let (case, results) = run(engine, DataType::Fp8E4m3);
        // Held to the limits of `double`, too.
        let (mut wide, _) = run(engine, DataType::Double);
        for (uid, expected) in results.into_iter().zip([9.0, 1.0 / 3.0, 18.0]) {
            wide.fill(uid, &case.values(uid));
            assert_near(&wide, engine, &[(uid, &[expected])]);
        }
    }
}

/// Two equal scores give weights of 0.5; times 1.125 that is 0.5625, which needs 3 bits of mantissa.
#[test]
fn scaled_probabilities_are_rounded_to_the_type_of_v() {
    for (data_type, rounded) in EIGHT_BITS.into_iter().zip([0.5625, 0.5, 0.5625, 0.5]) {
        for engine in 0..2 {
            let mut case = Case::new();
            let q = filled(&mut case, data_type, &[1, 1, 1, 1], &[0.0]);
            let k = filled(&mut case, data_type, &[1, 1, 2, 1], &[1.0, 2.0]);
            let v = filled(&mut case, data_type, &[1, 1, 2, 1], &[3.0, 5.0]);
            let o = case.tensor(DataType::Double, &[1, 1, 1, 1]);
            let mut node = Sdpa::new(q, k, v, o);
            node.scale_s = Some(filled(&mut case, DataType::Float, &[1, 1, 1, 1], &[1.125]));
            case.node(node);
            case.run(planner(engine));
            assert_eq!(case.values(o), [rounded * 8.0], "{}", data_type.name());
        }
    }
}
