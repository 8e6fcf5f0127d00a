//! Queries, keys and values in attention's layout, and attention with all of its options.

use hipdnn::graph::operation::{Pointwise, Sdpa};
use hipdnn::graph::{DiagonalAlignment, PointwiseMode};

use super::matmul::product;
use super::reduce::guarded_softmax;
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::Element;

/// How scores become weights.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// The factor of the scores.
    pub scale: f32,
    /// The soft cap; 0 means none.
    pub softcap: f32,
    /// What is added to the scores, or which of them count.
    pub mask: Option<View>,
    /// How many keys before the query's own count.
    pub left: Option<i64>,
    /// How many keys after it count.
    pub right: Option<i64>,
    /// The number of keys before the first query's own.
    pub past: i64,
    /// The numbers of queries and keys of each sequence, `int32` \[B\].
    pub lengths: Option<[View; 2]>,
    /// Whether a sequence's last query is aligned with its last key; else the first query with the key after the past.
    pub is_from_the_end: bool,
    /// An additional score per head that takes weight and contributes nothing.
    pub sink: Option<View>,
    /// Which scores to return: 0 products, 1 capped, 2 masked, 3 weights.
    pub wanted: Option<i64>,
}

impl Scores {
    /// Scores that are only scaled.
    pub fn new(scale: f32) -> Self {
        Self { scale, ..Self::default() }
    }
}

/// Longer rows are computed operation by operation.
pub const LONGEST_ROW: i64 = 2048;

/// [B, H, S, D], from four dimensions or from three with the heads side by side.
pub fn heads(view: &View, count: i64) -> Lowered<View> {
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

/// A new result of dims [B, H, S, D]: as returned, with heads side by side if it is flat, and as written.
pub fn narrowed(
    lowering: &mut Lowering<'_>,
    element: Element,
    [batch, count, queries, size]: [i64; 4],
    is_flat: bool,
) -> Lowered<(View, View)> {
    if !is_flat {
        let whole = lowering.fresh(element, &[batch, count, queries, size]);
        return Ok((whole.clone(), whole));
    }
    let whole = lowering.fresh(element, &[batch, queries, count * size]);
    let o = heads(&whole, count)?;
    Ok((whole, o))
}

/// Four dimensions.
pub fn four(view: &View) -> Lowered<[i64; 4]> {
    match view.dims.as_slice() {
        [a, b, c, d] => Ok([*a, *b, *c, *d]),
        dims => refuse(format!("dims {dims:?}, expected four")),
    }
}

/// Rejects queries, keys and values that do not fit.
pub fn shared_heads(q: &View, k: &View, v: &View) -> Lowered<()> {
    let ([batch, count, _, size], [of_k, k_count, keys, k_size], [of_v, v_count, v_keys, _]) =
        (four(q)?, four(k)?, four(v)?);
    let fits = of_k == batch && of_v == batch && k_size == size && v_keys == keys && k_count == v_count;
    if !fits || k_count < 1 || count % k_count != 0 {
        return refuse(format!("queries {:?}, keys {:?}, values {:?}", q.dims, k.dims, v.dims));
    }
    Ok(())
}

/// A mask broadcast over the scores, in four dimensions.
pub fn fitting(mask: &View, scores: [i64; 4], element: Element) -> Lowered<View> {
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

/// softmax(q · kᵀ) · v into `o`, all [B, H, S, D]; returns the requested scores.
pub fn attend(
    lowering: &mut Lowering<'_>,
    name: &str,
    [q, k, v, o]: [&View; 4],
    scores: &Scores,
) -> Lowered<Option<View>> {
    let ([_, _, queries, size], [_, _, keys, v_size]) = (four(q)?, four(v)?);
    let is_long = size > LONGEST_ROW || v_size > LONGEST_ROW;
    if scores.softcap != 0.0 || scores.wanted.is_some() || is_long {
        return by_hand(lowering, name, [q, k, v, o], scores);
    }
    let [q_id, k_id, v_id, o_id] = [q, k, v, o].map(|view| lowering.tensor(view));
    let mut operation = Sdpa::new(q_id, k_id, v_id, o_id);
    operation.attn_mask = scores.mask.as_ref().map(|mask| lowering.tensor(mask));
    operation.attn_scale_value = Some(scores.scale);
    operation.generate_stats = Some(false);
    if let Some(sink) = &scores.sink {
        let count = sink.elements();
        let sink = lowering.reshape(sink, &[1, count, 1, 1])?;
        operation.sink_token = Some(lowering.tensor(&sink));
    }
    if let Some([of_queries, of_keys]) = &scores.lengths {
        let mut own = |view: &View| {
            let view = lowering.reshape(view, &[view.elements(), 1, 1, 1])?;
            Ok(lowering.tensor(&view))
        };
        operation.seq_len_q = Some(own(of_queries)?);
        operation.seq_len_kv = Some(own(of_keys)?);
        operation.padding_mask = true;
    }
    let is_bounded = scores.left.is_some() || scores.right.is_some();
    if is_bounded && (scores.is_from_the_end || (scores.past > 0 && keys - queries == scores.past)) {
        operation.diagonal_alignment = DiagonalAlignment::BottomRight;
        (operation.left_bound, operation.right_bound) = (scores.left, scores.right);
    } else if scores.left.is_none() && scores.right == Some(0) && scores.past == 0 {
        operation.causal_mask = true;
    } else if is_bounded {
        let left = scores.left.map(|left| left - scores.past);
        if left.is_some_and(|left| left < 0) {
            return refuse(format!("a window of {:?} keys behind {} of the past", scores.left, scores.past));
        }
        (operation.left_bound, operation.right_bound) = (left, scores.right.map(|right| right + scores.past));
    }
    lowering.op(name, operation)?;
    Ok(None)
}

/// The same, operation by operation.
fn by_hand(
    lowering: &mut Lowering<'_>,
    name: &str,
    [q, k, v, o]: [&View; 4],
    scores: &Scores,
) -> Lowered<Option<View>> {
    let ([batch, count, queries, size], [_, shared, keys, v_size]) = (four(q)?, four(v)?);
    if scores.lengths.is_some() || scores.sink.is_some() {
        return refuse("capped or wanted scores beside lengths or a sink");
    }
    // Heads that share keys, side by side.
    let apart = |view: &View, of: i64, rows: i64, size: i64| {
        let apart = view.reshaped(&[batch, shared, of, rows, size]);
        apart.ok_or_else(|| Reason("heads lie with gaps".to_owned()))
    };
    let group = count / shared;
    let (q, k, v) =
        (apart(q, group, queries, size)?, apart(k, 1, keys, size)?.transposed(), apart(v, 1, keys, v_size)?);
    let k = k.ok_or_else(|| Reason("keys have no dimensions".to_owned()))?;
    let whole = [batch, count, queries, keys];
    let wide = [batch, shared, group, queries, keys];
    let mut kept = None;
    let mut keep = |lowering: &mut Lowering<'_>, mode: i64, view: &View| -> Lowered<()> {
        if scores.wanted == Some(mode) {
            kept = Some(lowering.reshape(view, &whole)?);
        }
        Ok(())
    };
    let mut all = product(lowering, "scores", &q, &k)?;
    all = lowering.with_number(PointwiseMode::Mul, &all, f64::from(scores.scale))?;
    keep(lowering, 0, &all)?;
    if scores.softcap != 0.0 {
        let cap = f64::from(scores.softcap);
        all = lowering.with_number(PointwiseMode::Div, &all, cap)?;
        all = lowering.unary(PointwiseMode::TanhFwd, &all)?;
        all = lowering.with_number(PointwiseMode::Mul, &all, cap)?;
    }
    keep(lowering, 1, &all)?;
    let is_seen = seen(queries, keys, scores);
    let band = match is_seen {
        Some(bytes) => Some(lowering.data(Element::Bool, &[1, 1, 1, queries, keys], &bytes)?),
        None => None,
    };
    for mask in [scores.mask.clone(), band].into_iter().flatten() {
        let mask = match mask.dims.as_slice() {
            [a, 1, c, d] => mask.reshaped(&[*a, 1, 1, *c, *d]),
            [a, _, c, d] => mask.reshaped(&[*a, shared, group, *c, *d]),
            _ => Some(mask),
        };
        let mask = mask.ok_or_else(|| Reason("a mask with gaps".to_owned()))?;
        if mask.element != Element::Bool {
            all = lowering.binary(PointwiseMode::Add, &all, &mask)?;
            continue;
        }
        let to = lowering.fresh(all.element, &wide);
        let hidden = lowering.number(f64::NEG_INFINITY, all.element == Element::Double, wide.len());
        let (from, condition, out) = (lowering.tensor(&all), lowering.tensor(&mask), lowering.tensor(&to));
        let mut select = Pointwise::new(PointwiseMode::BinarySelect, from, Some(hidden), out);
        select.in_2 = Some(condition);
        lowering.op("mask", select)?;
        all = to;
    }
    keep(lowering, 2, &all)?;
    let weights = guarded_softmax(lowering, &all, 4)?;
    keep(lowering, 3, &weights)?;
    let y = product(lowering, name, &weights, &v)?;
    let y = lowering.reshape(&y, &[batch, count, queries, v_size])?;
    lowering.copy(&y, o)?;
    Ok(kept)
}

/// Which keys each query sees by the bounds; none if it sees all.
fn seen(queries: i64, keys: i64, scores: &Scores) -> Option<Vec<u8>> {
    if scores.left.is_none() && scores.right.is_none() {
        return None;
    }
    let sees = |query: i64, key: i64| {
        let own = query + scores.past;
        scores.left.is_none_or(|left| key >= own - left)
            && scores.right.is_none_or(|right| key <= own + right)
    };
    Some((0..queries).flat_map(|query| (0..keys).map(move |key| u8::from(sees(query, key)))).collect())
}
