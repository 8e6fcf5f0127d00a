//! Attention operators of ONNX Runtime's optimizers and of language models.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Heavy;
use super::layout::joined;
use super::matmul::product;
use super::rotary::{Pairs, rotate, rows};
use super::scores::{Scores, attend, fitting, four, heads, narrowed, shared_heads};
use super::{Operator, floats, microsoft, same_type};
use crate::lowering::{Host, Integer, Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] = &[
    microsoft("Attention", Heavy, of_input),
    microsoft("MultiHeadAttention", Heavy, multi_head),
    microsoft("GroupQueryAttention", Heavy, group_query),
];

fn scale(node: &Node, size: i64) -> f32 {
    match node.float("scale", 0.0) {
        scale if scale != 0.0 => scale,
        _ => 1.0 / (size as f32).sqrt(),
    }
}

/// Equal parts of the last dimension.
fn parts<const N: usize>(view: &View, sizes: [i64; N]) -> Lowered<[View; N]> {
    let last = view.rank().saturating_sub(1);
    let mut from = 0;
    let made = sizes.map(|size| {
        let part = view.sliced(last, from, 1, size);
        from += size;
        part
    });
    if view.dims.last() != Some(&from) || made.iter().any(Option::is_none) {
        return refuse(format!("dims {:?} in parts of {sizes:?}", view.dims));
    }
    Ok(made.map(|part| part.unwrap_or_else(|| view.clone())))
}

/// An integer mask, one per key of each sequence, that tells which keys count.
fn by_key(lowering: &mut Lowering<'_>, mask: &View, batch: i64, keys: i64) -> Lowered<View> {
    if mask.dims != [batch, keys] || mask.element != Element::Int32 {
        return refuse(format!("a mask of keys of dims {:?}, expected {batch} × {keys}", mask.dims));
    }
    let counts = lowering.map(Mode::Identity, &[mask], Element::Bool)?;
    lowering.reshape(&counts, &[batch, 1, 1, keys])
}

/// Past keys or values followed by new ones, returned as output `to`.
fn behind(node: &Node, lowering: &mut Lowering<'_>, at: usize, to: usize, new: View) -> Lowered<View> {
    let whole = match lowering.optional(node, at) {
        Some(past) => joined(lowering, &[past, new], 2)?,
        None => new,
    };
    if Lowering::has_output(node, to) {
        lowering.set(node, to, whole.clone())?;
    }
    Ok(whole)
}

fn of_input(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, w) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&x, &w])?;
    same_type(&[&x, &w])?;
    let count = node.int("num_heads", 0);
    let asks = [4, 6].iter().any(|at| Lowering::has_input(node, *at)) || Lowering::has_output(node, 1);
    if asks || node.int("do_rotary", 0) != 0 || node.int("past_present_share_buffer", 0) != 0 {
        return refuse("a past is wanted, or positions");
    }
    let [batch, length, _] = x.dims.as_slice() else { return refuse(format!("dims {:?}", x.dims)) };
    let (batch, length) = (*batch, *length);
    let mut all = product(lowering, "projection", &x, &w)?;
    if let Some(bias) = lowering.optional(node, 2) {
        all = lowering.binary(Mode::Add, &all, &bias)?;
    }
    let whole = all.dims.last().copied().unwrap_or(0);
    let sizes = match node.ints("qkv_hidden_sizes") {
        Some([q, k, v]) => [*q, *k, *v],
        _ => [whole / 3; 3],
    };
    let [q, k, v] = parts(&all, sizes)?;
    let (q, k, v) = (heads(&q, count)?, heads(&k, count)?, heads(&v, count)?);
    let mut scores = Scores::new(scale(node, four(&q)?[3]));
    if let Some(mask) = lowering.optional(node, 3) {
        scores.mask = Some(by_key(lowering, &mask, batch, length)?);
    }
    with_bias(node, lowering, 5, [batch, count, length, length], &mut scores)?;
    if node.int("unidirectional", 0) != 0 {
        scores.right = Some(0);
    }
    finish(node, lowering, [&q, &k, &v], &scores)
}

/// Adds an input to the scores.
fn with_bias(
    node: &Node,
    lowering: &Lowering<'_>,
    at: usize,
    dims: [i64; 4],
    scores: &mut Scores,
) -> Lowered<()> {
    let Some(bias) = lowering.optional(node, at) else { return Ok(()) };
    if scores.mask.is_some() {
        return refuse("a mask of keys and a bias of scores");
    }
    scores.mask = Some(fitting(&bias, dims, bias.element)?);
    Ok(())
}

fn finish(node: &Node, lowering: &mut Lowering<'_>, [q, k, v]: [&View; 3], scores: &Scores) -> Lowered<()> {
    shared_heads(q, k, v)?;
    let ([batch, count, length, _], [_, _, _, size]) = (four(q)?, four(v)?);
    let (whole, o) = narrowed(lowering, q.element, [batch, count, length, size], true)?;
    attend(lowering, &node.name, [q, k, v, &o], scores)?;
    lowering.set(node, 0, whole)
}

fn multi_head(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let count = node.int("num_heads", 0);
    let q = lowering.input(node, 0)?;
    if (8..10).any(|at| Lowering::has_input(node, at)) || Lowering::has_output(node, 3) {
        return refuse("lengths of the past, or scores are wanted");
    }
    let (q, k, v) = match (lowering.optional(node, 1), lowering.optional(node, 2), q.dims.as_slice()) {
        (Some(k), Some(v), [_, _, _]) => (q, k, v),
        // Queries, keys and values interleaved: [B, S, H, 3, D].
        (None, None, [batch, length, heads, 3, size]) => {
            let part = |at: i64| {
                let part = q.sliced(3, at, 1, 1)?.reshaped(&[*batch, *length, *heads, *size])?;
                part.permuted(&[0, 2, 1, 3])
            };
            match (part(0), part(1), part(2)) {
                (Some(q), Some(k), Some(v)) => (q, k, v),
                _ => return refuse("packed heads with gaps"),
            }
        }
        _ => return refuse(format!("queries {:?} without keys and values", q.dims)),
    };
    floats(&[&q, &k, &v])?;
    same_type(&[&q, &k, &v])?;
    let mut all = [q, k, v];
    if let Some(bias) = lowering.optional(node, 3) {
        if all.iter().any(|view| view.rank() != 3) {
            return refuse("a bias of keys and values that are heads already");
        }
        let sizes =
            [0, 1, 2].map(|at: usize| all.get(at).and_then(|view| view.dims.last()).copied().unwrap_or(0));
        let biases = parts(&bias, sizes)?;
        for (view, bias) in all.iter_mut().zip(&biases) {
            *view = lowering.binary(Mode::Add, view, bias)?;
        }
    }
    let [q, k, v] = all;
    let q = heads(&q, count)?;
    let k = heads(&k, count)?;
    let k = behind(node, lowering, 6, 1, k)?;
    let v = heads(&v, count)?;
    let v = behind(node, lowering, 7, 2, v)?;
    let ([batch, _, length, size], [_, _, keys, _]) = (four(&q)?, four(&k)?);
    let mut scores = Scores::new(scale(node, size));
    if let Some(mask) = lowering.optional(node, 4) {
        scores.mask = Some(by_key(lowering, &mask, batch, keys)?);
    }
    with_bias(node, lowering, 5, [batch, count, length, keys], &mut scores)?;
    if node.int("unidirectional", 0) != 0 {
        scores.right = Some(0);
        scores.past = keys - length;
    }
    finish(node, lowering, [&q, &k, &v], &scores)
}

/// Attention with a key or value cache that has room for more, and may be the application's.
fn group_query(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (count, shared) = (node.int("num_heads", 0), node.int("kv_num_heads", 0));
    if count < 1 || shared < 1 || count % shared != 0 {
        return refuse(format!("{count} heads that share {shared}"));
    }
    if node.float("softcap", 0.0) != 0.0 || node.int("smooth_softmax", 0) > 0 || Lowering::has_output(node, 3)
    {
        return refuse("capped or smoothed scores, or scores are wanted");
    }
    if node.text("k_quant_type", "NONE") != "NONE" || node.text("v_quant_type", "NONE") != "NONE" {
        return refuse("a quantized cache");
    }
    let q = lowering.input(node, 0)?;
    let (q, k, v) = match (lowering.optional(node, 1), lowering.optional(node, 2)) {
        (Some(k), Some(v)) => (q, k, v),
        _ => {
            let size = q.dims.last().copied().unwrap_or(0) / (count + 2 * shared);
            let [q, k, v] = parts(&q, [count * size, shared * size, shared * size])?;
            (q, k, v)
        }
    };
    floats(&[&q, &k, &v])?;
    same_type(&[&q, &k, &v])?;
    let (q, k, v) = (heads(&q, count)?, heads(&k, shared)?, heads(&v, shared)?);
    shared_heads(&q, &k, &v)?;
    let [batch, _, length, size] = four(&q)?;
    let (past_k, past_v) = (lowering.input(node, 3)?, lowering.input(node, 4)?);
    let [_, _, room, _] = four(&past_k)?;
    let total = lowering.parameter(node, 6, "the number of keys", |_| vec![room.max(length)])?;
    let Some([total]) = total.as_deref() else { return refuse("the number of keys is not one") };
    if let (Some(Some(value)), Some(Some(past))) = (node.inputs.get(6), node.inputs.get(3)) {
        lowering.floors.push((*value, *past, 2));
    }
    let room = room.max(*total);
    if room < length {
        return refuse(format!("{length} queries and room for {room} keys"));
    }
    // The index of a sequence's last key is one less than its number of keys. In a padded prompt, only that many queries count.
    let last = lowering.input(node, 5)?;
    if last.element != Element::Int32 || last.elements() != batch {
        return refuse(format!("lengths of dims {:?} for {batch} sequences", last.dims));
    }
    let last = lowering.reshape(&last, &[batch, 1])?;
    let number = |lowering: &mut Lowering<'_>, number: i64| {
        lowering.int32s(&[1, 1], [i32::try_from(number).unwrap_or(i32::MAX)])
    };
    let (one, most) = (number(lowering, 1)?, number(lowering, length)?);
    let keys = lowering.on_integers(Integer::Add, &[&last, &one], Element::Int32)?;
    let queries = lowering.on_integers(Integer::Min, &[&keys, &most], Element::Int32)?;
    let before = lowering.on_integers(Integer::Sub, &[&keys, &queries], Element::Int32)?;
    let (q, k) =
        if node.int("do_rotary", 0) == 0 { (q, k) } else { turned(node, lowering, &q, &k, &before)? };
    let mut cache = Vec::with_capacity(2);
    for (past, new, to) in [(past_k, k, 1), (past_v, v, 2)] {
        let dims = [batch, shared, room, size];
        same_type(&[&past, &new])?;
        let whole = lowering.host(Host::Append, &[&past, &new, &before], new.element, &dims);
        if Lowering::has_output(node, to) {
            lowering.set(node, to, whole.clone())?;
        }
        cache.push(whole);
    }
    let [k, v] = cache.as_slice() else { return refuse("no cache") };
    let mut scores = Scores::new(scale(node, size));
    (scores.right, scores.is_from_the_end) = (Some(0), true);
    let window = node.int("local_window_size", -1);
    if window >= 0 {
        scores.left = Some(window - 1);
    }
    scores.lengths = Some([queries, keys]);
    with_bias(node, lowering, 10, [batch, count, length, room], &mut scores)?;
    scores.sink = lowering.optional(node, 11);
    finish(node, lowering, [&q, k, v], &scores)
}

/// Rotates queries and keys by their positions: given ones, or those after the past.
fn turned(
    node: &Node,
    lowering: &mut Lowering<'_>,
    q: &View,
    k: &View,
    before: &View,
) -> Lowered<(View, View)> {
    let (cos, sin) = (lowering.input(node, 7)?, lowering.input(node, 8)?);
    let [batch, count, length, size] = four(q)?;
    let positions = match lowering.optional(node, 9) {
        Some(positions) => positions,
        None => {
            let own = lowering.int32s(&[1, length], (0..length).filter_map(|at| i32::try_from(at).ok()))?;
            lowering.on_integers(Integer::Add, &[before, &own], Element::Int32)?
        }
    };
    if positions.dims != [batch, length] {
        return refuse(format!("positions of dims {:?}, expected {batch} × {length}", positions.dims));
    }
    let (cos, sin) = (rows(lowering, &cos, &positions), rows(lowering, &sin, &positions));
    let half = cos.dims.last().copied().unwrap_or(0);
    let pairs = Pairs { interleaved: node.int("rotary_interleaved", 0) != 0, size: 2 * half };
    let shared = k.dims.get(1).copied().unwrap_or(1);
    let mut all = Vec::with_capacity(2);
    for (view, heads) in [(q, count), (k, shared)] {
        let (_, to) = narrowed(lowering, view.element, [batch, heads, length, size], true)?;
        rotate(lowering, view, [&cos, &sin], pairs, &to)?;
        all.push(to);
    }
    let [q, k] = <[View; 2]>::try_from(all).map_err(|_| Reason("no queries and keys".to_owned()))?;
    Ok((q, k))
}
