//! Reductions.

use hipdnn_plugin_sdk::graph::operation::Reduction;
use hipdnn_plugin_sdk::graph::{DataType, ReductionMode};

use super::{both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, Random};

#[test]
fn every_mode() {
    for seed in 13000..13400 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [x_type, y_type] = types(random, &mut case);
        let mode = random.one_of(ReductionMode::ALL);
        if mode == ReductionMode::NotSet {
            continue;
        }
        let rank = random.int(1, 5) as usize;
        let most = [3000, 90, 20, 9, 6][rank - 1];
        let dims: Vec<i64> = (0..rank).map(|_| random.int(2, most)).collect();
        let mut kept: Vec<i64> = dims.iter().map(|dim| if random.chance(50) { 1 } else { *dim }).collect();
        kept[random.int(0, rank as i64 - 1) as usize] = 1;
        let count = dims.iter().product::<i64>() / kept.iter().product::<i64>();
        let x = tensor(random, &mut case, x_type, &dims);
        let y = tensor(random, &mut case, y_type, &kept);
        fill(random, &mut case, x, -1.5, 1.5);
        case.node(Reduction { in_: x, out: y, mode, is_deterministic: false });
        let (fast, reference) = both(&case);
        let terms = match mode {
            ReductionMode::Max | ReductionMode::Min | ReductionMode::Amax => 0.0,
            ReductionMode::Avg => 1.5,
            // Factors of at most 1.5 with varying signs and sizes: the product has one rounding per factor.
            ReductionMode::Mul | ReductionMode::MulNoZeros => {
                let expected = reference.values(y);
                expected.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()))
            }
            _ => 2.25 * count as f64,
        };
        let single = if compute(&case) == DataType::Double { DataType::Double } else { DataType::Float };
        let bound = 2.0 * count as f64 * roundoff(single).0 * terms;
        compare(seed, mode.name(), &fast, &reference, y, |_| bound);
    }
}
