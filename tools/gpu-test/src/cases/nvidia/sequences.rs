//! Attention with ragged sequences, paged keys and values, and dropout masks.

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};

use crate::case::{Case, Order};
use crate::memory::half_step;

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-1.0, 1.0];
const TYPES: [DataType; 2] = [DataType::Half, DataType::Bfloat16];

/// Sequences, heads of the queries, most queries, most keys, depth.
const SHAPE: [i64; 5] = [3, 2, 128, 160, 64];
/// Lengths of the sequences: each query has a key, also if aligned at the end.
const QUERIES: [f32; 3] = [128.0, 37.0, 100.0];
const KEYS: [f32; 3] = [130.0, 160.0, 101.0];

/// The options of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    Causal,
    BottomRight,
    /// Two heads of queries for each of keys.
    Shared,
}

const FORMS: [Form; 4] = [Form::Plain, Form::Causal, Form::BottomRight, Form::Shared];

/// The storage of keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Ragged,
    /// In blocks of so many keys.
    Paged(i64),
}

struct Parts {
    case: Case,
    data_type: DataType,
    form: Form,
}

impl Parts {
    fn new(name: &str, form: Form, data_type: DataType) -> Self {
        let case = Case::new(format!("sdpa {name} {form:?} {}", data_type.name()));
        Self { case, data_type, form }
    }

    fn key_heads(&self) -> i64 {
        if self.form == Form::Shared { SHAPE[1] / 2 } else { SHAPE[1] }
    }

    /// Lengths as a tensor.
    fn lengths(&mut self, lengths: [f32; 3]) -> i64 {
        self.case.input_of(DataType::Int32, &[SHAPE[0], 1, 1, 1], lengths.to_vec())
    }

    /// The offsets of consecutive sequences, with so many elements per position.
    fn offsets(&mut self, lengths: [f32; 3], elements: i64) -> i64 {
        let mut offsets = vec![0.0];
        offsets.extend(lengths.iter().scan(0.0, |end, length| {
            *end += length * elements as f32;
            Some(*end)
        }));
        self.case.input_of(DataType::Int32, &[SHAPE[0] + 1, 1, 1, 1], offsets)
    }

    /// A ragged tensor of at most so many positions, with the heads of a position contiguous.
    fn ragged(&mut self, is_input: bool, heads: i64, most: i64, depth: i64, offsets: i64) -> i64 {
        let dims = [SHAPE[0], heads, most, depth];
        let strides = [most * heads * depth, depth, heads * depth, 1];
        let data_type = if depth == 1 { DataType::Float } else { self.data_type };
        let uid = if is_input {
            // About the log-sum-exp of the scores.
            let about = (SHAPE[3] as f32).ln();
            let range = if depth == 1 { [about, about + 0.5] } else { RANGE };
            self.case.input_with_strides(data_type, &dims, &strides, range)
        } else {
            self.case.output_with_strides(data_type, &dims, &strides)
        };
        self.case.ragged(uid, offsets);
        uid
    }

    /// Keys or values in shuffled blocks, with the page table.
    fn paged(&mut self, size: i64, seed: i64) -> (i64, i64) {
        let [sequences, _, _, keys, depth] = SHAPE;
        let columns = (keys + size - 1) / size;
        let blocks = sequences * columns + 1;
        let container =
            self.case.input(self.data_type, &[blocks, self.key_heads(), size, depth], FIRST, RANGE);
        // A step of 5 or 7 visits every block, as neither divides the number of blocks.
        let step = if blocks % seed == 0 { 1 } else { seed };
        let table = (0..sequences * columns).map(|place| ((place + 1) * step % blocks) as f32).collect();
        (container, self.case.input_of(DataType::Int32, &[sequences, 1, columns, 1], table))
    }
}

fn forward(keys: Keys, form: Form, has_stats: bool, data_type: DataType) -> Case {
    let stats = if has_stats { " stats" } else { "" };
    let mut p = Parts::new(&format!("ragged, keys {keys:?}{stats}"), form, data_type);
    let [_, heads, queries, most, depth] = SHAPE;
    let key_heads = p.key_heads();
    let of_queries = p.offsets(QUERIES, heads * depth);
    let q = p.ragged(true, heads, queries, depth, of_queries);
    let o = p.ragged(false, heads, queries, depth, of_queries);
    let mut node = Sdpa::new(q, 0, 0, o);
    match keys {
        Keys::Ragged => {
            let of_keys = p.offsets(KEYS, key_heads * depth);
            node.k = p.ragged(true, key_heads, most, depth, of_keys);
            node.v = p.ragged(true, key_heads, most, depth, of_keys);
        }
        Keys::Paged(size) => {
            let (k, table_k) = p.paged(size, 5);
            let (v, table_v) = p.paged(size, 7);
            (node.k, node.page_table_k) = (k, Some(table_k));
            (node.v, node.page_table_v) = (v, Some(table_v));
            node.max_seq_len_kv = Some(most as i32);
        }
    }
    if has_stats {
        let of_rows = p.offsets(QUERIES, heads);
        node.stats = Some(p.ragged(false, heads, queries, 1, of_rows));
        node.generate_stats = Some(true);
    }
    node.attn_scale_value = Some(1.0 / (depth as f32).sqrt());
    node.causal_mask = form == Form::Causal;
    node.causal_mask_bottom_right = form == Form::BottomRight;
    node.padding_mask = true;
    (node.seq_len_q, node.seq_len_kv) = (Some(p.lengths(QUERIES)), Some(p.lengths(KEYS)));
    p.case.node(node);
    p.case
}

/// Full query sequences with paged keys.
fn paged(size: i64, form: Form, data_type: DataType) -> Case {
    let mut p = Parts::new(&format!("paged {size}"), form, data_type);
    let [sequences, heads, queries, most, depth] = SHAPE;
    let q = p.case.input(data_type, &[sequences, heads, queries, depth], FIRST, RANGE);
    let o = p.case.output(data_type, &[sequences, heads, queries, depth], FIRST);
    let (k, table_k) = p.paged(size, 5);
    let (v, table_v) = p.paged(size, 7);
    let node = Sdpa {
        page_table_k: Some(table_k),
        page_table_v: Some(table_v),
        max_seq_len_kv: Some(most as i32),
        padding_mask: true,
        seq_len_q: Some(p.lengths([queries as f32; 3])),
        seq_len_kv: Some(p.lengths([160.0, 130.0, 131.0])),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: form == Form::Causal,
        causal_mask_bottom_right: form == Form::BottomRight,
        ..Sdpa::new(q, k, v, o)
    };
    p.case.node(node);
    p.case
}

/// The gradients of ragged sequences, with statistics that are ragged, too.
fn backward(form: Form, data_type: DataType) -> Case {
    let mut p = Parts::new("backward ragged", form, data_type);
    let [_, heads, queries, most, depth] = SHAPE;
    let key_heads = p.key_heads();
    let of_queries = p.offsets(QUERIES, heads * depth);
    let of_keys = p.offsets(KEYS, key_heads * depth);
    let of_rows = p.offsets(QUERIES, heads);
    let [q, o, do_] = [(); 3].map(|()| p.ragged(true, heads, queries, depth, of_queries));
    let [k, v] = [(); 2].map(|()| p.ragged(true, key_heads, most, depth, of_keys));
    let stats = p.ragged(true, heads, queries, 1, of_rows);
    let dq = p.ragged(false, heads, queries, depth, of_queries);
    let [dk, dv] = [(); 2].map(|()| p.ragged(false, key_heads, most, depth, of_keys));
    let node = SdpaBackward {
        padding_mask: true,
        seq_len_q: Some(p.lengths(QUERIES)),
        seq_len_kv: Some(p.lengths(KEYS)),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: form == Form::Causal,
        causal_mask_bottom_right: form == Form::BottomRight,
        ..SdpaBackward::new([q, k, v, o, do_, stats], [dq, dk, dv])
    };
    p.case.node(node);
    p.case
}

/// A dropout mask over the scores, and its scale.
fn dropped(p: &mut Parts) -> (i64, f32) {
    let [sequences, heads, queries, keys, _] = SHAPE;
    let count = sequences * heads * queries * keys;
    let ones = (0..count).map(|place| if place % 7 == 0 || place % 5 == 3 { 0.0 } else { 1.0 }).collect();
    (p.case.input_of(p.data_type, &[sequences, heads, queries, keys], ones), 1.5)
}

fn dropout(form: Form, data_type: DataType) -> Case {
    let mut p = Parts::new("dropout_mask", form, data_type);
    let [sequences, heads, queries, keys, depth] = SHAPE;
    let key_heads = p.key_heads();
    let q = p.case.input(data_type, &[sequences, heads, queries, depth], FIRST, RANGE);
    let [k, v] =
        [(); 2].map(|()| p.case.input(data_type, &[sequences, key_heads, keys, depth], FIRST, RANGE));
    let o = p.case.output(data_type, &[sequences, heads, queries, depth], FIRST);
    let (mask, scale) = dropped(&mut p);
    let node = Sdpa {
        dropout_mask: Some(mask),
        dropout_scale: Some(p.case.value(scale)),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: form == Form::Causal,
        ..Sdpa::new(q, k, v, o)
    };
    p.case.node(node);
    p.case
}

/// Dropout by a seed, forward and its gradients.
fn random(form: Form, data_type: DataType) -> [Case; 2] {
    let [sequences, heads, queries, keys, depth] = SHAPE;
    let [mut forward, mut backward] =
        ["dropout", "backward dropout"].map(|name| Parts::new(name, form, data_type));
    let seeded = |p: &mut Parts| {
        let [seed, offset] =
            [12_345.0, 7.0].map(|value| p.case.input_of(DataType::Int64, &[1, 1, 1, 1], vec![value]));
        (Some(seed), Some(offset))
    };
    let of_queries =
        |p: &mut Parts| p.case.input(data_type, &[sequences, heads, queries, depth], FIRST, RANGE);
    let of_keys = |p: &mut Parts| {
        let heads = p.key_heads();
        p.case.input(data_type, &[sequences, heads, keys, depth], FIRST, RANGE)
    };
    let scale = Some(1.0 / (depth as f32).sqrt());
    let p = &mut forward;
    let (q, k, v) = (of_queries(p), of_keys(p), of_keys(p));
    let o = p.case.output(data_type, &[sequences, heads, queries, depth], FIRST);
    let (seed, offset) = seeded(p);
    p.case.node(Sdpa {
        dropout_probability: Some(0.2),
        seed,
        offset,
        attn_scale_value: scale,
        causal_mask: form == Form::Causal,
        causal_mask_bottom_right: form == Form::BottomRight,
        ..Sdpa::new(q, k, v, o)
    });
    let p = &mut backward;
    let (q, k, v, o, do_) = (of_queries(p), of_keys(p), of_keys(p), of_queries(p), of_queries(p));
    let about = (keys as f32).ln();
    let stats = p.case.input(DataType::Float, &[sequences, heads, queries, 1], FIRST, [about, about + 0.5]);
    let dq = p.case.output(data_type, &[sequences, heads, queries, depth], FIRST);
    let key_heads = p.key_heads();
    let [dk, dv] = [(); 2].map(|()| p.case.output(data_type, &[sequences, key_heads, keys, depth], FIRST));
    let (seed, offset) = seeded(p);
    p.case.node(SdpaBackward {
        dropout_probability: Some(0.2),
        seed,
        offset,
        attn_scale_value: scale,
        causal_mask: form == Form::Causal,
        causal_mask_bottom_right: form == Form::BottomRight,
        ..SdpaBackward::new([q, k, v, o, do_, stats], [dq, dk, dv])
    });
    [forward.case, backward.case]
}

/// The gradients of a dropout mask.
fn dropout_gradients(data_type: DataType) -> Case {
    let mut p = Parts::new("backward dropout_mask", Form::Plain, data_type);
    let [sequences, heads, queries, keys, depth] = SHAPE;
    let [q, o, do_] =
        [(); 3].map(|()| p.case.input(data_type, &[sequences, heads, queries, depth], FIRST, RANGE));
    let [k, v] = [(); 2].map(|()| p.case.input(data_type, &[sequences, heads, keys, depth], FIRST, RANGE));
    let about = (keys as f32).ln();
    let stats = p.case.input(DataType::Float, &[sequences, heads, queries, 1], FIRST, [about, about + 0.5]);
    let dq = p.case.output(data_type, &[sequences, heads, queries, depth], FIRST);
    let [dk, dv] = [(); 2].map(|()| p.case.output(data_type, &[sequences, heads, keys, depth], FIRST));
    let (mask, scale) = dropped(&mut p);
    let node = SdpaBackward {
        dropout_mask: Some(mask),
        dropout_scale: Some(p.case.value(scale)),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        ..SdpaBackward::new([q, k, v, o, do_, stats], [dq, dk, dv])
    };
    p.case.node(node);
    p.case
}

/// Queries of all sequences behind each other, and some that belong to none, with paged keys.
fn packed(size: i64, form: Form, data_type: DataType) -> Case {
    let mut p = Parts::new(&format!("packed, pages of {size}"), form, data_type);
    let [_, heads, _, most, depth] = SHAPE;
    let queries = QUERIES.iter().sum::<f32>() as i64 + 3;
    let q = p.case.input(data_type, &[1, heads, queries, depth], FIRST, RANGE);
    let o = p.case.output(data_type, &[1, heads, queries, depth], FIRST);
    let stats = p.case.output(DataType::Float, &[1, heads, queries, 1], FIRST);
    let (k, table_k) = p.paged(size, 5);
    let (v, table_v) = p.paged(size, 7);
    let node = Sdpa {
        page_table_k: Some(table_k),
        page_table_v: Some(table_v),
        max_seq_len_kv: Some(most as i32),
        padding_mask: true,
        seq_len_q: Some(p.lengths(QUERIES)),
        seq_len_kv: Some(p.lengths(KEYS)),
        stats: Some(stats),
        generate_stats: Some(true),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: form == Form::Causal,
        causal_mask_bottom_right: form == Form::BottomRight,
        ..Sdpa::new(q, k, v, o)
    };
    p.case.node(node);
    p.case
}

/// 8-bit floats with factors and the largest magnitudes.
fn bytes(form: Form, data_type: DataType) -> Case {
    let mut p = Parts::new("fp8", form, data_type);
    // With scale_s the reference rounds probabilities to 8 bits, kernels to 16: a step of that type.
    let rounds = form != Form::Plain;
    let result = if rounds { data_type } else { DataType::Float };
    p.case.allowance = if rounds { 2.0 * half_step(data_type) } else { 0.0 };
    let [sequences, heads, queries, keys, depth] = SHAPE;
    let key_heads = p.key_heads();
    let q = p.case.input(data_type, &[sequences, heads, queries, depth], FIRST, RANGE);
    let [k, v] =
        [(); 2].map(|()| p.case.input(data_type, &[sequences, key_heads, keys, depth], FIRST, RANGE));
    let o = p.case.output(result, &[sequences, heads, queries, depth], FIRST);
    let mut one = |value| p.case.input_of(DataType::Float, &[1, 1, 1, 1], vec![value]);
    let (descale_q, descale_k, descale_v) = (one(1.5), one(0.5), one(2.0));
    let scale_s = rounds.then(|| one(256.0));
    let (descale_s, scale_o) = (one(1.0 / 256.0), one(4.0));
    let amax_s = p.case.output(DataType::Float, &[1, 1, 1, 1], FIRST);
    let amax_o = p.case.output(DataType::Float, &[1, 1, 1, 1], FIRST);
    let node = Sdpa {
        descale_q: Some(descale_q),
        descale_k: Some(descale_k),
        descale_v: Some(descale_v),
        descale_s: Some(descale_s),
        scale_s,
        scale_o: Some(scale_o),
        amax_s: Some(amax_s),
        amax_o: Some(amax_o),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: form == Form::Causal,
        causal_mask_bottom_right: form == Form::BottomRight,
        ..Sdpa::new(q, k, v, o)
    };
    p.case.node(node);
    p.case
}

/// Cases for generated kernels.
pub fn generated() -> Vec<Case> {
    let mut cases = cases();
    for (place, data_type) in TYPES.into_iter().enumerate() {
        // Each of them with one of the types.
        let sizes = [1, 4, 48, 128, 256].into_iter().enumerate().filter(|(at, _)| at % 2 == place);
        cases.extend(sizes.map(|(_, size)| paged(size, Form::BottomRight, data_type)));
        let (size, form) = if place == 0 { (16, Form::BottomRight) } else { (64, Form::Shared) };
        cases.push(packed(size, form, data_type));
        cases.push(dropout_gradients(data_type));
    }
    cases.extend(random(Form::Causal, DataType::Half));
    cases.extend(random(Form::Shared, DataType::Bfloat16));
    cases.extend(random(Form::BottomRight, DataType::Float));
    for data_type in [DataType::Fp8E4m3, DataType::Fp8E5m2] {
        cases.extend([Form::Plain, Form::BottomRight].map(|form| bytes(form, data_type)));
    }
    for case in &mut cases {
        case.name.push_str(", generated");
    }
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for form in FORMS {
            cases.push(forward(Keys::Ragged, form, false, data_type));
            cases.push(backward(form, data_type));
        }
        cases.push(forward(Keys::Ragged, Form::Causal, true, data_type));
        cases.push(forward(Keys::Paged(16), Form::Plain, false, data_type));
        cases.push(forward(Keys::Paged(64), Form::BottomRight, false, data_type));
        cases.push(forward(Keys::Paged(16), Form::Shared, false, data_type));
        for form in [Form::Plain, Form::Causal] {
            cases.push(paged(32, form, data_type));
            cases.push(dropout(form, data_type));
        }
    }
    cases
}
