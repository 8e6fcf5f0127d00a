//! Attention.

use hipdnn::graph::PointwiseMode;

use super::Cost::Heavy;
use super::matmul::product;
use super::reduce::{guarded_softmax, softmax_of};
use super::scores::{LONGEST_ROW, Scores, attend, fitting, four, heads, narrowed, shared_heads};
use super::{Operator, floats, onnx, same_type};
use crate::lowering::{Integer, Lowered, Lowering, View};
use crate::model::{Element, Node};
use crate::rewrite::DOMAIN;

pub const OPERATORS: &[Operator] = &[
    onnx("Attention", (23, 25), Heavy, attention),
    Operator { domain: DOMAIN, name: "ScaledAttention", since: (1, 1), cost: Heavy, build: scaled },
];

/// softmax(q · kᵀ · scale + mask) · v, with transposed keys: made by [`rewrite`](crate::rewrite).
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
            // The model had zeros in place of the NaN of a query that sees no key.
            let weights = match node.int("is_guarded", 0) {
                0 => softmax_of(lowering, &scores, &[last])?,
                _ => guarded_softmax(lowering, &scores, last)?,
            };
            product(lowering, &node.name, &weights, &v)?
        }
    };
    lowering.set(node, 0, y)
}

/// The attention as one operation; none if the shapes do not fit.
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
    // Heads side by side, as later nodes like to read them.
    let whole = lowering.fresh(q.element, &[batch, queries, count, v_size]);
    let Some(o) = whole.permuted(&[0, 2, 1, 3]) else { return Ok(None) };
    let scores = Scores { mask, ..Scores::new(scale) };
    let before = lowering.program.steps.len();
    attend(lowering, &node.name, [&q, &k, &v, &o], &scores)?;
    if !lowering.keeps_attention(before) {
        return Ok(None);
    }
    let dims: Vec<i64> = o.dims.iter().skip(4 - rank).copied().collect();
    lowering.reshape(&o, &dims).map(Some)
}

fn attention(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (q, k, v) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    floats(&[&q, &k, &v])?;
    same_type(&[&q, &k, &v])?;
    let is_flat = q.rank() == 3;
    let (query_heads, key_heads) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
    let (q, mut k, mut v) = (heads(&q, query_heads)?, heads(&k, key_heads)?, heads(&v, key_heads)?);
    let mut past = 0;
    for (at, to, new) in [(4, 1, &mut k), (5, 2, &mut v)] {
        if let Some(before) = lowering.optional(node, at) {
            past = before.dims.get(2).copied().unwrap_or(0);
            *new = super::layout::joined(lowering, &[before, new.clone()], 2)?;
        }
        if Lowering::has_output(node, to) {
            lowering.set(node, to, new.clone())?;
        }
    }
    let [batch, count, queries, size] = four(&q)?;
    let [_, _, keys, v_size] = four(&v)?;
    let mut scores = Scores::new(match node.float("scale", 0.0) {
        scale if scale != 0.0 => scale,
        _ => 1.0 / (size as f32).sqrt(),
    });
    if let Some(mask) = lowering.optional(node, 3) {
        scores.mask = Some(fitting(&mask, [batch, count, queries, keys], q.element)?);
    }
    scores.softcap = node.float("softcap", 0.0);
    let bound = |name: &str| Some(node.int(name, -1)).filter(|bound| *bound >= 0);
    (scores.left, scores.right) = (bound("left_window_size"), bound("right_window_size"));
    if node.int("is_causal", 0) != 0 {
        scores.right = Some(0);
    }
    scores.past = past;
    if let Some(lengths) = lowering.optional(node, 6) {
        let lengths = lowering.on_integers(Integer::Cast, &[&lengths], Element::Int32)?;
        let own = i32::try_from(queries).unwrap_or(i32::MAX);
        let all = lowering.int32s(&[batch], (0..batch).map(|_| own))?;
        scores.lengths = Some([all, lengths]);
        scores.is_from_the_end = true;
    }
    if Lowering::has_output(node, 3) {
        scores.wanted = Some(node.int("qk_matmul_output_mode", 0));
    }
    shared_heads(&q, &k, &v)?;
    let (whole, o) = narrowed(lowering, q.element, [batch, count, queries, v_size], is_flat)?;
    let wanted = attend(lowering, &node.name, [&q, &k, &v, &o], &scores)?;
    if let Some(wanted) = wanted {
        lowering.set(node, 3, wanted)?;
    }
    lowering.set(node, 0, whole)
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::{Graph, Operation};

    use super::*;
    use crate::lowering::Step;
    use crate::model::{Attribute, Model, Value};

    /// The operations of softmax(q · kᵀ + mask) · v, where GPU engines take an attention that `attends` accepts.
    fn operations(mask: [i64; 4], is_guarded: bool, attends: &dyn Fn(&Graph) -> bool) -> Vec<String> {
        let value = || Value { element: Some(Element::Half), ..Value::default() };
        let model = Model { values: (0..5).map(|_| value()).collect(), ..Model::default() };
        let mut lowering = Lowering::whole(&model);
        for (id, dims) in [[2, 3, 5, 8], [2, 3, 8, 7], [2, 3, 7, 4], mask].iter().enumerate() {
            lowering.bind_input(id, Element::Half, dims, false);
        }
        lowering.attends = Some(attends);
        let inputs = (0..4).map(Some).collect();
        let attributes = [("is_guarded".to_owned(), Attribute::Int(i64::from(is_guarded)))].into();
        let node = Node { inputs, outputs: vec![Some(4)], attributes, ..Node::default() };
        scaled(&node, &mut lowering).unwrap();
        assert_eq!(lowering.of(4).unwrap().dims, [2, 3, 5, 4]);
        let name = |step: &Step| match step {
            Step::Node { operation: Operation::Sdpa(of), .. } => {
                format!("sdpa, mask {}", of.attn_mask.is_some())
            }
            Step::Node { label, .. } => label.name.clone(),
            Step::Host { host, .. } => format!("{host:?}"),
        };
        lowering.program.steps.iter().map(name).collect()
    }

    #[test]
    fn attention_is_one_operation_only_where_an_engine_takes_it() {
        let of_sdpa = |graph: &Graph| {
            let [Operation::Sdpa(of)] = [&graph.nodes[0].operation] else { return false };
            let dims = [of.q, of.k, of.v, of.attn_mask.unwrap()].map(|uid| &graph.tensor(uid).unwrap().dims);
            assert_eq!(dims, [&[2, 3, 5, 8], &[2, 3, 7, 8], &[2, 3, 7, 4], &[2, 1, 1, 7]]);
            graph.nodes.len() == 1
        };
        assert_eq!(operations([2, 1, 1, 7], false, &of_sdpa), ["sdpa, mask true"]);
        let one_by_one = operations([2, 1, 1, 7], false, &|_| false);
        assert_eq!(one_by_one, ["scores", "add", "max", "sub", "exp", "add", "div", ""]);
        // Neither the largest score nor the sum is one of no key.
        let guarded = operations([2, 1, 1, 7], true, &|_| false);
        assert_eq!(guarded, ["scores", "add", "max", "max_op", "sub", "exp", "add", "max_op", "div", ""]);
    }
}
