//! Attention.

use hipdnn::graph::PointwiseMode;
use hipdnn::graph::operation::Sdpa;

use super::Cost::Heavy;
use super::matmul::product;
use super::reduce::softmax_of;
use super::{Operator, floats, onnx, same_type};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};
use crate::rewrite::DOMAIN;

pub const OPERATORS: &[Operator] = &[
    onnx("Attention", (23, 24), Heavy, attention),
    Operator { domain: DOMAIN, name: "ScaledAttention", since: (1, 1), cost: Heavy, build: scaled },
];

/// Rows of more elements are computed element by element.
const LONGEST_ROW: i64 = 2048;

/// softmax(q · kᵀ · scale + mask) · v, with the keys transposed already: what [`rewrite`](crate::rewrite) finds.
fn scaled(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (q, k, v) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    let mask = lowering.optional(node, 3);
    let scale = node.float("scale", 1.0);
    let y = match at_once(lowering, node, [&q, &k, &v], mask.as_ref(), scale)? {
        Some(y) => y,
        None => {
            let mut scores = product(lowering, "scores", &q, &k)?;
            if scale != 1.0 {
                scores = lowering.with_number(PointwiseMode::Mul, &scores, f64::from(scale))?;
            }
            if let Some(mask) = mask {
                scores = lowering.binary(PointwiseMode::Add, &scores, &mask)?;
            }
            let last = scores.rank().saturating_sub(1);
            let weights = softmax_of(lowering, &scores, &[last])?;
            product(lowering, &node.name, &weights, &v)?
        }
    };
    lowering.set(node, 0, y)
}

/// The attention as one operation; none where the shapes are not those of one.
fn at_once(
    lowering: &mut Lowering<'_>,
    node: &Node,
    [q, k, v]: [&View; 3],
    mask: Option<&View>,
    scale: f32,
) -> Lowered<Option<View>> {
    let rank = q.rank();
    let wide = |view: &View| {
        let ones = 4_usize.checked_sub(view.rank())?;
        let mut dims = vec![1; ones];
        dims.extend(&view.dims);
        view.reshaped(&dims)
    };
    let is_known = (3..=4).contains(&rank) && k.rank() == rank && v.rank() == rank;
    let (Some(q), Some(k), Some(v)) = (wide(q), wide(k).and_then(|k| k.transposed()), wide(v)) else {
        return Ok(None);
    };
    let ([batch, count, queries, size], [of_k, k_count, keys, k_size], [of_v, v_count, v_keys, v_size]) =
        (four(&q)?, four(&k)?, four(&v)?);
    let same = of_k == batch && of_v == batch && k_count == count && v_count == count;
    let fits = k_size == size && v_keys == keys && size <= LONGEST_ROW && v_size <= LONGEST_ROW;
    let has_elements = [batch, count, queries, keys, size, v_size].iter().all(|dim| *dim > 0);
    if !is_known || !same || !fits || !has_elements {
        return Ok(None);
    }
    let mask = match mask {
        None => None,
        Some(mask) if mask.element == Element::Bool => return Ok(None),
        Some(mask) => match fitting(mask, [batch, count, queries, keys], q.element) {
            Ok(mask) => Some(mask),
            Err(_) => return Ok(None),
        },
    };
    // Heads side by side, as what follows likes to read them.
    let whole = lowering.fresh(q.element, &[batch, queries, count, v_size]);
    let Some(o) = whole.permuted(&[0, 2, 1, 3]) else { return Ok(None) };
    let [q_id, k_id, v_id, o_id] = [&q, &k, &v, &o].map(|view| lowering.tensor(view));
    let mut operation = Sdpa::new(q_id, k_id, v_id, o_id);
    operation.attn_mask = mask.map(|mask| lowering.tensor(&mask));
    operation.attn_scale_value = Some(scale);
    operation.generate_stats = Some(false);
    lowering.op(&node.name, operation)?;
    let dims: Vec<i64> = o.dims.iter().skip(4 - rank).copied().collect();
    lowering.reshape(&o, &dims).map(Some)
}

/// [B, H, S, D], of four dimensions or of three with the heads side by side.
fn heads(view: &View, count: i64) -> Lowered<View> {
    match view.dims.as_slice() {
        [_, _, _, _] => Ok(view.clone()),
        [batch, length, size] if count > 0 && size % count == 0 => {
            let divided = view.reshaped(&[*batch, *length, count, size / count]);
            let ordered = divided.and_then(|view| view.permuted(&[0, 2, 1, 3]));
            ordered.ok_or_else(|| Reason("heads lie with gaps".to_owned()))
        }
        dims => refuse(format!("dims {dims:?} in {count} heads")),
    }
}

fn attention(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (q, k, v) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    floats(&[&q, &k, &v])?;
    same_type(&[&q, &k, &v])?;
    if (4..7).any(|at| Lowering::has_input(node, at)) || (1..4).any(|at| Lowering::has_output(node, at)) {
        return refuse("keys and values of the past, lengths or scores are wanted");
    }
    if node.float("softcap", 0.0) != 0.0 {
        return refuse("scores are capped");
    }
    let is_flat = q.rank() == 3;
    let (query_heads, key_heads) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
    let (q, k, v) = (heads(&q, query_heads)?, heads(&k, key_heads)?, heads(&v, key_heads)?);
    let ([batch, count, queries, size], [of_k, k_count, keys, k_size], [of_v, v_count, v_keys, v_size]) =
        (four(&q)?, four(&k)?, four(&v)?);
    let fits = of_k == batch && of_v == batch && k_size == size && v_keys == keys && k_count == v_count;
    if !fits || k_count < 1 || count % k_count != 0 {
        return refuse(format!("queries {:?}, keys {:?}, values {:?}", q.dims, k.dims, v.dims));
    }
    let mask = match lowering.optional(node, 3) {
        None => None,
        Some(mask) => Some(fitting(&mask, [batch, count, queries, keys], q.element)?),
    };
    let scale = match node.float("scale", 0.0) {
        scale if scale != 0.0 => scale,
        _ => 1.0 / (size as f32).sqrt(),
    };
    let (whole, o) = if is_flat {
        let whole = lowering.fresh(q.element, &[batch, queries, count * v_size]);
        let o = whole.reshaped(&[batch, queries, count, v_size]).and_then(|o| o.permuted(&[0, 2, 1, 3]));
        (whole, o.ok_or_else(|| Reason("heads lie with gaps".to_owned()))?)
    } else {
        let whole = lowering.fresh(q.element, &[batch, count, queries, v_size]);
        (whole.clone(), whole)
    };
    let [q, k, v, o] = [&q, &k, &v, &o].map(|view| lowering.tensor(view));
    let mut operation = Sdpa::new(q, k, v, o);
    operation.attn_mask = mask.map(|mask| lowering.tensor(&mask));
    operation.attn_scale_value = Some(scale);
    operation.causal_mask = node.int("is_causal", 0) != 0;
    operation.generate_stats = Some(false);
    lowering.op(&node.name, operation)?;
    lowering.set(node, 0, whole)
}

fn four(view: &View) -> Lowered<[i64; 4]> {
    match view.dims.as_slice() {
        [a, b, c, d] => Ok([*a, *b, *c, *d]),
        dims => refuse(format!("dims {dims:?}, expected four")),
    }
}

/// A mask as it spreads over the scores, in four dimensions.
fn fitting(mask: &View, scores: [i64; 4], element: Element) -> Lowered<View> {
    if mask.element != Element::Bool && mask.element != element {
        return refuse(format!("a mask of {}", mask.element.name()));
    }
    let mut dims = vec![1; 4_usize.saturating_sub(mask.rank())];
    dims.extend(&mask.dims);
    let spreads = dims.len() == 4 && dims.iter().zip(&scores).all(|(have, want)| *have == 1 || have == want);
    match mask.reshaped(&dims) {
        Some(mask) if spreads => Ok(mask),
        _ => refuse(format!("a mask of dims {:?} for scores of {scores:?}", mask.dims)),
    }
}
