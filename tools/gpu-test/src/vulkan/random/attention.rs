//! Random attention and its gradients.

use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment};

use super::Random;
use crate::case::{Case, Order};

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-1.0, 1.0];

/// What both directions have in common.
struct Attention {
    data_type: DataType,
    batch: i64,
    heads: i64,
    key_heads: i64,
    value_heads: i64,
    queries: i64,
    keys: i64,
    depth: i64,
    value_depth: i64,
}

/// The options of scores.
struct Scores {
    scale: Option<i64>,
    scale_value: Option<f32>,
    mask: Option<i64>,
    mask_dims: [i64; 4],
    lengths: Option<[i64; 2]>,
    alibi: bool,
    causal: [bool; 2],
    bounds: [Option<i64>; 2],
    alignment: DiagonalAlignment,
}

/// The tensor's strides: heads outside or inside sequences, or elements outside both, with gaps for inputs.
fn strides(random: &mut Random, dims: [i64; 4], is_input: bool) -> [i64; 4] {
    let [_, heads, sequence, elements] = dims;
    let gap = if is_input && random.next(4) == 0 { random.size(3) } else { 0 };
    let all = heads * sequence * elements;
    match random.next(4) {
        0 => [all + gap, elements, heads * elements, 1],
        1 => [all + gap, sequence * elements, 1, sequence],
        2 if is_input => {
            let line = elements + gap;
            [heads * sequence * line, sequence * line, line, 1]
        }
        _ => [all + gap, sequence * elements, elements, 1],
    }
}

impl Attention {
    fn new(case: &mut Case, random: &mut Random) -> Self {
        let types = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];
        let data_type = random.of(&types, DataType::Float);
        if data_type == DataType::Double {
            case.graph.compute_type = DataType::Double;
        }
        let heads = random.of(&[1, 2, 4, 6], 1);
        let divisor = |random: &mut Random| heads / random.of(&[1, 1, 2, heads], 1).min(heads);
        let long = random.next(6) == 0;
        let mut depth = || if long { 8 * random.size(12) } else { random.size(40) };
        let (depth, value_depth) = (depth(), depth());
        let (key_heads, value_heads) = (divisor(random), divisor(random));
        Self {
            data_type,
            batch: random.size(3),
            heads,
            key_heads,
            value_heads: if random.next(3) > 0 { key_heads } else { value_heads },
            queries: random.size(70),
            keys: random.size(70),
            depth,
            value_depth,
        }
    }

    fn dims(&self) -> [[i64; 4]; 4] {
        let Self { batch, heads, key_heads, value_heads, queries, keys, depth, value_depth, .. } = *self;
        [
            [batch, heads, queries, depth],
            [batch, key_heads, keys, depth],
            [batch, value_heads, keys, value_depth],
            [batch, heads, queries, value_depth],
        ]
    }

    fn input(&self, case: &mut Case, random: &mut Random, dims: [i64; 4]) -> i64 {
        let strides = strides(random, dims, true);
        case.input_with_strides(self.data_type, &dims, &strides, RANGE)
    }

    fn output(&self, case: &mut Case, random: &mut Random, dims: [i64; 4]) -> i64 {
        let strides = strides(random, dims, false);
        case.output_with_strides(self.data_type, &dims, &strides)
    }

    /// Lengths from 0 on.
    fn lengths(&self, case: &mut Case, random: &mut Random, most: i64) -> i64 {
        let values = (0..self.batch).map(|_| random.next(most as u64 + 1) as f32).collect();
        case.input_of(DataType::Int32, &[self.batch, 1, 1, 1], values)
    }

    fn scores(&self, case: &mut Case, random: &mut Random) -> Scores {
        let Self { batch, heads, queries, keys, data_type, .. } = *self;
        let mask_dims = [batch, heads, queries, keys].map(|dim| if random.next(3) == 0 { 1 } else { dim });
        let of_mask = random.of(&[data_type, DataType::Float, DataType::Boolean], data_type);
        let mask = (random.next(3) == 0).then(|| case.input(of_mask, &mask_dims, FIRST, RANGE));
        let mut causal = [false; 2];
        let (mut bounds, mut alignment) = ([None; 2], DiagonalAlignment::TopLeft);
        match random.next(5) {
            0 => causal[0] = true,
            1 => causal[1] = true,
            2 => {
                bounds = [(); 2].map(|()| (random.next(3) > 0).then(|| random.next(30) as i64));
                alignment = random.of(
                    &[DiagonalAlignment::TopLeft, DiagonalAlignment::BottomRight],
                    DiagonalAlignment::TopLeft,
                );
            }
            _ => {}
        }
        let by_tensor = random.next(4) == 0;
        let has_lengths = random.next(3) == 0;
        Scores {
            scale: by_tensor.then(|| case.input_of(DataType::Float, &[1], vec![0.3])),
            scale_value: (!by_tensor && random.next(4) > 0).then_some(0.25),
            mask,
            mask_dims,
            lengths: has_lengths
                .then(|| [self.lengths(case, random, queries), self.lengths(case, random, keys)]),
            alibi: random.next(4) == 0,
            causal,
            bounds,
            alignment,
        }
    }
}

impl Scores {
    /// An attention with these scores.
    fn of(&self, [q, k, v, o]: [i64; 4]) -> Sdpa {
        Sdpa {
            scale: self.scale,
            attn_scale_value: self.scale_value,
            attn_mask: self.mask,
            padding_mask: self.lengths.is_some(),
            seq_len_q: self.lengths.map(|[queries, _]| queries),
            seq_len_kv: self.lengths.map(|[_, keys]| keys),
            alibi_mask: self.alibi,
            causal_mask: self.causal[0],
            causal_mask_bottom_right: self.causal[1],
            left_bound: self.bounds[0],
            right_bound: self.bounds[1],
            diagonal_alignment: self.alignment,
            ..Sdpa::new(q, k, v, o)
        }
    }
}

/// An attention forward.
pub fn forward(case: &mut Case, random: &mut Random) {
    let own = Attention::new(case, random);
    let [q, k, v] = [0, 1, 2].map(|place: usize| {
        let dims = own.dims().get(place).copied().unwrap_or([1; 4]);
        own.input(case, random, dims)
    });
    let [.., dims] = own.dims();
    let o = own.output(case, random, dims);
    let scores = own.scores(case, random);
    let rows = [own.batch, own.heads, own.queries, 1];
    let sink =
        (random.next(4) == 0).then(|| case.input(DataType::Float, &[1, own.heads, 1, 1], FIRST, RANGE));
    let [stats, max, sum_exp] =
        [(); 3].map(|()| (random.next(2) == 0).then(|| case.output(DataType::Float, &rows, FIRST)));
    case.node(Sdpa { sink_token: sink, stats, max, sum_exp, ..scores.of([q, k, v, o]) });
}

/// The gradients of an attention.
pub fn backward(case: &mut Case, random: &mut Random) {
    let own = Attention::new(case, random);
    let [of_q, of_k, of_v, of_o] = own.dims();
    let [q, k, v, o, d_o] = [of_q, of_k, of_v, of_o, of_o].map(|dims| own.input(case, random, dims));
    let rows = [own.batch, own.heads, own.queries, 1];
    let about = (own.keys as f32).ln();
    let stats = (0..rows.iter().product::<i64>()).map(|_| match random.next(20) {
        0 => f32::NEG_INFINITY,
        more => about + more as f32 / 40.0,
    });
    let stats = stats.collect();
    let stats = case.input_of(DataType::Float, &rows, stats);
    let [dq, dk, dv] = [of_q, of_k, of_v].map(|dims| own.output(case, random, dims));
    let scores = own.scores(case, random);
    let has_bias = scores.mask.is_some_and(|uid| {
        case.graph.tensor(uid).is_some_and(|tensor| tensor.data_type != DataType::Boolean)
    });
    let dbias =
        (has_bias && random.next(2) == 0).then(|| case.output(own.data_type, &scores.mask_dims, FIRST));
    let forward = scores.of([q, k, v, o]);
    case.node(SdpaBackward { dbias, ..SdpaBackward::of(&forward, [d_o, stats], [dq, dk, dv]) });
}
