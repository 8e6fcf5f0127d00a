//! Query heads that share keys as the queries of one head: their keys are read once.

use super::Attention;
use super::options::{Band, Spread};
use super::shape::{Sequences, Start};
use crate::layout::Layout;
use crate::problem::Operand;

/// [B, H, 1, …] as [B, H / group, group, …].
fn strides_of([batch, head, _, last]: [usize; 4], group: usize) -> [usize; 4] {
    [batch, group * head, head, last]
}

fn grouped(sequences: &Sequences, group: usize) -> Sequences {
    let [batch, heads, _, last] = sequences.dims();
    let layout =
        Layout::of_axes(&[batch, heads / group, group, last], &strides_of(sequences.strides(), group));
    Sequences { operand: Operand { layout, ..sequences.operand }, ..*sequences }
}

impl Attention {
    /// The same attention of single queries with the query heads of each key head as its queries, but with enough
    /// heads left for as many `parts`; `None` for other attentions, and if an option depends on the head or on the query.
    pub fn grouped(&self, parts: usize) -> Option<Self> {
        let shape = self.shape;
        let all = shape.heads / shape.key_heads;
        let has_enough = |group: &usize| shape.batch * (shape.heads / group) >= parts;
        let group = (1..=all).rev().filter(|group| all.is_multiple_of(*group)).find(has_enough).unwrap_or(1);
        let suits = shape.queries == 1
            && !shape.packed
            && group > 1
            && shape.key_heads == shape.value_heads
            && shape.heads == all * shape.key_heads;
        let results = [&self.stats, &self.max, &self.sum_exp].into_iter().flatten();
        let are_even = [&self.q, &self.o].into_iter().chain(results).all(|of| of.start == Start::Even);
        let options = &self.options;
        // A single query at the end of the diagonal sees all keys.
        let sees_all =
            options.band.left.is_none() && (options.band.right.is_none() || options.band.bottom_right);
        let factors = [&self.factors.descale_q, &self.factors.descale_k, &self.factors.descale_v];
        let differs = options.alibi
            || options.dropout.is_some()
            || self.block_mask.is_some()
            || self.sink.is_some()
            || self.rng_dump.is_some()
            || factors.iter().any(|factor| factor.is_some());
        if !suits || !are_even || !sees_all || differs {
            return None;
        }
        let mut made = *self;
        (made.shape.heads, made.shape.queries) = (shape.heads / group, group);
        made.rows_of_query = group;
        made.options.band = Band::default();
        made.options.mask =
            options.mask.map(|mask| Spread { strides: strides_of(mask.strides, group), ..mask });
        (made.q, made.o) = (grouped(&self.q, group), grouped(&self.o, group));
        for result in [&mut made.stats, &mut made.max, &mut made.sum_exp].into_iter().flatten() {
            *result = grouped(result, group);
        }
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::Sdpa;
    use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, Tensor};

    use super::*;

    /// Eight query heads over two of keys, with statistics and a mask for each head.
    fn attention(queries: i64, change: impl FnOnce(&mut Sdpa)) -> Box<Attention> {
        let tensor = |uid, dims: [i64; 4]| {
            let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
            Tensor::new(uid, DataType::Float, &dims, &strides)
        };
        let mut sdpa = Sdpa { attn_mask: Some(5), stats: Some(6), ..Sdpa::new(1, 2, 3, 4) };
        change(&mut sdpa);
        let sizes = [
            [3, 8, queries, 16],
            [3, 2, 40, 16],
            [3, 2, 40, 12],
            [3, 8, queries, 12],
            [1, 8, queries, 40],
            [3, 8, queries, 1],
        ];
        let tensors = (1..).zip(sizes).map(|(uid, dims)| tensor(uid, dims)).collect();
        let graph = Graph { compute_type: DataType::Float, tensors, ..Graph::default() };
        Attention::of(&graph, &Operation::from(sdpa.clone()), &sdpa).unwrap()
    }

    #[test]
    fn heads_that_share_keys_become_queries() {
        let made = attention(1, |_| {}).grouped(1).unwrap();
        assert_eq!((made.shape.heads, made.shape.queries, made.rows_of_query), (2, 4, 4));
        assert_eq!((made.q.dims(), made.q.strides()), ([3, 2, 4, 16], [128, 64, 16, 1]));
        assert_eq!((made.o.dims(), made.o.strides()), ([3, 2, 4, 12], [96, 48, 12, 1]));
        let stats = made.stats.unwrap();
        assert_eq!((stats.dims(), stats.strides()), ([3, 2, 4, 1], [8, 4, 1, 1]));
        assert_eq!(made.options.mask.unwrap().strides, [0, 160, 40, 1]);
        assert_eq!((made.k, made.v), (attention(1, |_| {}).k, attention(1, |_| {}).v));
        // Eight parts need heads of two queries each.
        let made = attention(1, |_| {}).grouped(8).unwrap();
        assert_eq!((made.shape.heads, made.shape.queries, made.q.strides()), (4, 2, [128, 32, 16, 1]));
        assert!(attention(1, |_| {}).grouped(13).is_none());
    }

    #[test]
    fn options_that_depend_on_the_head_or_the_query_are_left_alone() {
        let is_grouped = |queries, change: fn(&mut Sdpa)| attention(queries, change).grouped(1).is_some();
        assert!(is_grouped(1, |sdpa| sdpa.causal_mask_bottom_right = true));
        assert!(!is_grouped(1, |sdpa| sdpa.causal_mask = true));
        assert!(!is_grouped(1, |sdpa| sdpa.left_bound = Some(7)));
        assert!(!is_grouped(1, |sdpa| sdpa.alibi_mask = true));
        assert!(!is_grouped(2, |_| {}));
    }
}
