//! The reference attention against hand-computed results and a second computation.

mod eight_bits;
mod forward;
mod places;
mod refusals;

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::Sdpa;

use super::common::{Case, Random};

/// The sizes of a test's shapes.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub batch: i64,
    pub heads: i64,
    pub key_heads: i64,
    pub value_heads: i64,
    pub queries: i64,
    pub keys: i64,
    pub depth: i64,
    pub value_depth: i64,
}

pub const SMALL: Sizes =
    Sizes { batch: 2, heads: 2, key_heads: 2, value_heads: 2, queries: 3, keys: 4, depth: 2, value_depth: 3 };

impl Sizes {
    pub fn q(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, self.depth]
    }

    pub fn k(&self) -> [i64; 4] {
        [self.batch, self.key_heads, self.keys, self.depth]
    }

    pub fn v(&self) -> [i64; 4] {
        [self.batch, self.value_heads, self.keys, self.value_depth]
    }

    pub fn o(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, self.value_depth]
    }

    pub fn rows(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, 1]
    }

    pub fn scores(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }
}

/// A case in double precision with random q, k and v, and an attention on these that is not yet a node.
pub fn random_case(sizes: &Sizes, random: &mut Random) -> (Case, Sdpa) {
    let mut case = Case::new();
    case.graph.compute_type = DataType::Double;
    let [q, k, v, o] =
        [sizes.q(), sizes.k(), sizes.v(), sizes.o()].map(|dims| case.tensor(DataType::Double, &dims));
    for uid in [q, k, v] {
        case.memory(uid).fill(|| random.real(-1.0, 1.0));
    }
    (case, Sdpa::new(q, k, v, o))
}

/// A tensor of any dtype filled with these values.
pub fn filled(case: &mut Case, data_type: DataType, dims: &[i64], values: &[f64]) -> i64 {
    let uid = case.tensor(data_type, dims);
    case.fill(uid, values);
    uid
}
