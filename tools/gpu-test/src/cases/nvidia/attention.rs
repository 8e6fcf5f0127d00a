use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};

use crate::case::{Case, Order, strides};
use crate::cases::TYPES;

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-1.0, 1.0];

/// The options of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Option {
    Plain,
    Causal,
    BottomRight,
    Window,
    Bias,
    Padding,
    /// Two heads of queries for each of keys.
    Shared,
    /// Heads inside sequences.
    HeadsInside,
    Stats,
    CausalStats,
    /// Causal, with ALiBi.
    Alibi,
    /// An attention sink: one more score for each head, without a value.
    Sink,
}

const OPTIONS: [Option; 12] = [
    Option::Plain,
    Option::Causal,
    Option::BottomRight,
    Option::Window,
    Option::Bias,
    Option::Padding,
    Option::Shared,
    Option::HeadsInside,
    Option::Stats,
    Option::CausalStats,
    Option::Alibi,
    Option::Sink,
];

/// Batch, heads, queries, keys, depth.
#[derive(Clone, Copy)]
struct Shape([i64; 5]);

const SHAPES: [Shape; 2] = [Shape([2, 4, 128, 128, 64]), Shape([1, 2, 72, 136, 128])];

/// Few queries of many keys, which workgroups share.
const DECODING: [Shape; 2] = [Shape([2, 2, 1, 1000, 64]), Shape([1, 4, 5, 777, 128])];
/// What they are tested with.
const OF_DECODING: [Option; 6] =
    [Option::Padding, Option::BottomRight, Option::Sink, Option::Bias, Option::Shared, Option::HeadsInside];

struct Parts {
    case: Case,
    data_type: DataType,
    option: Option,
    shape: Shape,
}

impl Parts {
    fn new(name: &str, option: Option, shape: Shape, data_type: DataType) -> Self {
        let case = Case::new(format!("{name} {option:?} {:?} {}", shape.0, data_type.name()));
        Self { case, data_type, option, shape }
    }

    fn dims(&self, of_keys: bool) -> [i64; 4] {
        let [batch, heads, queries, keys, depth] = self.shape.0;
        let shares = of_keys && self.option == Option::Shared;
        [batch, if shares { heads / 2 } else { heads }, if of_keys { keys } else { queries }, depth]
    }

    fn strides(&self, dims: [i64; 4]) -> Vec<i64> {
        if self.option == Option::HeadsInside {
            let [_, heads, sequence, depth] = dims;
            vec![sequence * heads * depth, depth, heads * depth, 1]
        } else {
            strides(&dims, FIRST)
        }
    }

    fn input(&mut self, of_keys: bool) -> i64 {
        let dims = self.dims(of_keys);
        let strides = self.strides(dims);
        self.case.input_with_strides(self.data_type, &dims, &strides, RANGE)
    }

    fn output(&mut self, of_keys: bool) -> i64 {
        let dims = self.dims(of_keys);
        let strides = self.strides(dims);
        self.case.output_with_strides(self.data_type, &dims, &strides)
    }

    fn bias(&mut self) -> std::option::Option<i64> {
        let [_, heads, queries, keys, _] = self.shape.0;
        (self.option == Option::Bias)
            .then(|| self.case.input(self.data_type, &[1, heads, queries, keys], FIRST, RANGE))
    }

    fn length(&mut self, most: i64) -> std::option::Option<i64> {
        let dims = [self.shape.0[0], 1, 1, 1];
        let range = [most as f32 / 2.0, most as f32];
        (self.option == Option::Padding).then(|| self.case.input(DataType::Int32, &dims, FIRST, range))
    }
}

fn forward(option: Option, shape: Shape, data_type: DataType) -> Case {
    let mut p = Parts::new("sdpa", option, shape, data_type);
    let [batch, heads, queries, keys, depth] = shape.0;
    let (q, k, v, o) = (p.input(false), p.input(true), p.input(true), p.output(false));
    let has_stats = matches!(option, Option::Stats | Option::CausalStats | Option::Sink);
    let node = Sdpa {
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: matches!(option, Option::Causal | Option::CausalStats | Option::Alibi),
        alibi_mask: option == Option::Alibi,
        causal_mask_bottom_right: option == Option::BottomRight,
        left_bound: (option == Option::Window).then_some(20),
        right_bound: (option == Option::Window).then_some(0),
        attn_mask: p.bias(),
        padding_mask: option == Option::Padding,
        // Full query sequences, since padding rows are not compared.
        seq_len_q: (option == Option::Padding).then(|| {
            p.case.input(DataType::Int32, &[batch, 1, 1, 1], FIRST, [queries as f32, queries as f32])
        }),
        seq_len_kv: p.length(keys),
        sink_token: (option == Option::Sink)
            .then(|| p.case.input(DataType::Float, &[1, heads, 1, 1], FIRST, RANGE)),
        stats: has_stats.then(|| p.case.output(DataType::Float, &[batch, heads, queries, 1], FIRST)),
        generate_stats: has_stats.then_some(true),
        ..Sdpa::new(q, k, v, o)
    };
    p.case.node(node);
    p.case
}

fn backward(option: Option, shape: Shape, data_type: DataType) -> Case {
    let mut p = Parts::new("sdpa backward", option, shape, data_type);
    let [batch, heads, queries, keys, depth] = shape.0;
    let (q, k, v) = (p.input(false), p.input(true), p.input(true));
    let (o, do_) = (p.input(false), p.input(false));
    // About the log-sum-exp of the scores.
    let about = (keys as f32).ln();
    let stats = p.case.input(DataType::Float, &[batch, heads, queries, 1], FIRST, [about, about + 0.5]);
    let (dq, dk, dv) = (p.output(false), p.output(true), p.output(true));
    let node = SdpaBackward {
        attn_mask: p.bias(),
        seq_len_q: (option == Option::Padding).then(|| {
            p.case.input(DataType::Int32, &[batch, 1, 1, 1], FIRST, [queries as f32, queries as f32])
        }),
        seq_len_kv: p.length(keys),
        padding_mask: option == Option::Padding,
        causal_mask: matches!(option, Option::Causal | Option::Alibi),
        alibi_mask: option == Option::Alibi,
        causal_mask_bottom_right: option == Option::BottomRight,
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        left_bound: (option == Option::Window).then_some(20),
        right_bound: (option == Option::Window).then_some(0),
        ..SdpaBackward::new([q, k, v, o, do_, stats], [dq, dk, dv])
    };
    p.case.node(node);
    p.case
}

fn has_gradients(option: Option) -> bool {
    !matches!(option, Option::Stats | Option::CausalStats | Option::Sink)
}

/// Attention and its gradients for generated kernels.
pub fn generated() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for option in OPTIONS {
            cases.extend(SHAPES.map(|shape| forward(option, shape, data_type)));
            if has_gradients(option) {
                cases.extend(SHAPES.map(|shape| backward(option, shape, data_type)));
            }
        }
    }
    for (place, option) in OF_DECODING.into_iter().enumerate() {
        let data_type = TYPES.into_iter().cycle().nth(place).unwrap_or(DataType::Half);
        cases.extend(DECODING.map(|shape| forward(option, shape, data_type)));
    }
    for case in &mut cases {
        case.name.push_str(", generated");
    }
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for shape in SHAPES {
            for option in OPTIONS {
                cases.push(forward(option, shape, data_type));
                if has_gradients(option) {
                    cases.push(backward(option, shape, data_type));
                }
            }
        }
    }
    cases
}
