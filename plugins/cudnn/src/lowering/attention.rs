//! Scaled dot product attention, as the pattern of matmuls, masks and reductions that cuDNN's attention
//! kernels match.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::Attention;
use hipdnn_plugin_planner::problem::attention::alibi::slope;
use hipdnn_plugin_planner::problem::attention::options::{Options, Scale};
use hipdnn_plugin_planner::problem::attention::shape::{Sequences, Shape as Numbers, Start};
use hipdnn_plugin_sdk::graph::{DataType, Node, operation};

use super::matmul::Counts;
use super::shape::packed;
use super::{Builder, TensorPlace, data_type, dropout};
use crate::names::{
    DATA_BOOLEAN, DATA_FLOAT, DATA_INT32, POINTWISE_ADD, POINTWISE_CMP_GE, POINTWISE_CMP_GT,
    POINTWISE_CMP_LT, POINTWISE_DIV, POINTWISE_EXP, POINTWISE_LOG, POINTWISE_LOGICAL_AND, POINTWISE_MAX,
    POINTWISE_MUL, POINTWISE_SUB, REDUCE_TENSOR_ADD, REDUCE_TENSOR_MAX,
};

/// The inputs of the scores, in both directions.
pub(super) struct Scores {
    /// [batch, heads, queries, keys]
    pub(super) dims: [i64; 4],
    pub(super) compute_type: i32,
    pub(super) scale: Option<TensorPlace>,
    pub(super) bias: Option<TensorPlace>,
    pub(super) queries: Option<TensorPlace>,
    pub(super) keys: Option<TensorPlace>,
    left: Option<i64>,
    right: Option<i64>,
    bottom_right: bool,
    /// ALiBi's slope of each head.
    slopes: Option<TensorPlace>,
}

impl Scores {
    /// The scores of an attention with tensors of these uids: scale, mask, lengths.
    pub(super) fn new(
        builder: &mut Builder<'_>,
        node: &Node,
        shape: &Numbers,
        options: &Options,
        [scale, bias, queries, keys]: [Option<i64>; 4],
    ) -> Result<Self, Refusal> {
        check_band(shape, options)?;
        if let Some(mask) = options.mask.filter(|mask| mask.operand.data_type == DataType::Boolean) {
            return Err(format!(
                "attn_mask: data type is {}, expected floats, which are added to the scores",
                mask.operand.data_type.name()
            ));
        }
        let scale = match (scale, options.scale) {
            (Some(uid), _) => Some(builder.tensor_as(uid, packed(&[1; 4]))?),
            (None, Scale::Value(1.0) | Scale::Tensor(_)) => None,
            (None, Scale::Value(value)) => Some(builder.float(value)),
        };
        let bound = |bound: Option<u64>| {
            let bound = bound.map(|bound| i32::try_from(bound).unwrap_or(i32::MAX / 2));
            bound.map(i64::from)
        };
        let bias = bias.map(|uid| builder.tensor(uid)).transpose()?;
        let [of_queries, of_keys] = match &options.lengths {
            Some(lengths) => lengths.each_ref().map(Some),
            None => [None; 2],
        };
        let mut lengths = |name: &str, uid: Option<i64>, lengths| match (uid, lengths) {
            (Some(uid), Some(lengths)) => builder.lengths(name, uid, lengths).map(Some),
            _ => Ok(None),
        };
        Ok(Self {
            dims: shape.scores().map(|dim| dim as i64),
            compute_type: data_type(node.compute_type)?,
            scale,
            bias,
            queries: lengths("seq_len_q", queries, of_queries)?,
            keys: lengths("seq_len_kv", keys, of_keys)?,
            left: bound(options.band.left),
            right: bound(options.band.right),
            bottom_right: options.band.bottom_right,
            slopes: if options.alibi { Some(slopes(builder, shape.heads)?) } else { None },
        })
    }

    /// A virtual tensor with the scores' dims.
    pub(super) fn between(&self, builder: &mut Builder<'_>) -> TensorPlace {
        builder.between(DATA_FLOAT, &self.dims)
    }

    /// Applies an operation with another tensor to the scores.
    pub(super) fn with(
        &self,
        builder: &mut Builder<'_>,
        mode: i32,
        scores: TensorPlace,
        other: Option<TensorPlace>,
    ) -> TensorPlace {
        let next = self.between(builder);
        builder.pointwise(mode, self.compute_type, scores, other, next);
        next
    }

    /// q · kᵀ · scale + bias + ALiBi
    pub(super) fn begin(
        &self,
        builder: &mut Builder<'_>,
        q: TensorPlace,
        k: TensorPlace,
        pads: bool,
    ) -> TensorPlace {
        let mut last = self.between(builder);
        let counts = Counts { m: self.queries, n: self.keys, k: None, pads: pads && self.queries.is_some() };
        builder.product(self.compute_type, q, k, last, counts);
        for (mode, other) in [(POINTWISE_MUL, self.scale), (POINTWISE_ADD, self.bias)] {
            if other.is_some() {
                last = self.with(builder, mode, last, other);
            }
        }
        if let Some(slopes) = self.slopes {
            let row = self.index(builder, last, 2, DATA_INT32, DATA_INT32);
            let column = self.index(builder, last, 3, DATA_INT32, DATA_INT32);
            let distance = self.shifted(builder, POINTWISE_SUB, column, row);
            let fall = self.with(builder, POINTWISE_MUL, distance, Some(slopes));
            last = self.with(builder, POINTWISE_ADD, last, Some(fall));
        }
        last
    }

    /// The scores with masked elements set to minus infinity.
    pub(super) fn masked(&self, builder: &mut Builder<'_>, scores: TensorPlace) -> TensorPlace {
        let mut last = scores;
        if let (Some(queries), Some(keys)) = (self.queries, self.keys) {
            let row = self.index(builder, last, 2, DATA_INT32, DATA_INT32);
            let column = self.index(builder, last, 3, DATA_INT32, DATA_INT32);
            let in_rows = self.compared(builder, POINTWISE_CMP_LT, row, queries);
            let in_columns = self.compared(builder, POINTWISE_CMP_LT, column, keys);
            let both = self.compared(builder, POINTWISE_LOGICAL_AND, in_rows, in_columns);
            last = self.kept(builder, last, both);
        }
        if let Some(right) = self.right {
            let mut row = self.index(builder, last, 2, self.compute_type, DATA_INT32);
            let column = self.index(builder, last, 3, self.compute_type, DATA_INT32);
            if self.bottom_right {
                let [_, _, rows, columns] = self.dims;
                let columns = self.keys.unwrap_or_else(|| builder.int(whole(columns)));
                row = self.shifted(builder, POINTWISE_ADD, row, columns);
                let rows = self.queries.unwrap_or_else(|| builder.int(whole(rows)));
                row = self.shifted(builder, POINTWISE_SUB, row, rows);
            }
            if right != 0 {
                let right = builder.int(whole(right));
                row = self.shifted(builder, POINTWISE_ADD, row, right);
            }
            let mask = self.compared(builder, POINTWISE_CMP_GE, row, column);
            last = self.kept(builder, last, mask);
        }
        if let Some(left) = self.left {
            // Keeps the diagonal and `left` elements before it.
            let window = left + 1;
            let [_, _, rows, columns] = self.dims;
            let (row, column);
            if let (true, Some(queries), Some(keys)) = (self.bottom_right, self.queries, self.keys) {
                row = self.index(builder, last, 2, self.compute_type, DATA_INT32);
                let begin = self.index(builder, last, 3, self.compute_type, DATA_INT32);
                let window = builder.int(whole(window));
                let shifted = self.shifted(builder, POINTWISE_ADD, begin, window);
                let shifted = self.shifted(builder, POINTWISE_SUB, shifted, keys);
                column = self.shifted(builder, POINTWISE_ADD, shifted, queries);
            } else {
                row = self.index(builder, last, 2, self.compute_type, DATA_FLOAT);
                let begin = self.index(builder, last, 3, self.compute_type, DATA_FLOAT);
                let shift = if self.bottom_right { window - columns + rows } else { window };
                let shift = builder.float(shift as f32);
                column = self.with(builder, POINTWISE_ADD, begin, Some(shift));
            }
            let mask = self.compared(builder, POINTWISE_CMP_GT, column, row);
            last = self.kept(builder, last, mask);
        }
        last
    }

    fn index(
        &self,
        builder: &mut Builder<'_>,
        scores: TensorPlace,
        axis: i64,
        compute_type: i32,
        data_type: i32,
    ) -> TensorPlace {
        let index = builder.between(data_type, &self.dims);
        builder.index(compute_type, scores, axis, index);
        index
    }

    fn shifted(
        &self,
        builder: &mut Builder<'_>,
        mode: i32,
        index: TensorPlace,
        other: TensorPlace,
    ) -> TensorPlace {
        let next = builder.between(DATA_INT32, &self.dims);
        builder.pointwise(mode, DATA_INT32, index, Some(other), next);
        next
    }

    fn compared(&self, builder: &mut Builder<'_>, mode: i32, a: TensorPlace, b: TensorPlace) -> TensorPlace {
        let mask = builder.between(DATA_BOOLEAN, &self.dims);
        builder.pointwise(mode, DATA_BOOLEAN, a, Some(b), mask);
        mask
    }

    fn kept(&self, builder: &mut Builder<'_>, scores: TensorPlace, mask: TensorPlace) -> TensorPlace {
        let low = builder.float(f32::NEG_INFINITY);
        let next = self.between(builder);
        builder.select(self.compute_type, scores, low, mask, next);
        next
    }
}

/// An integer within a tensor's dims, or a bound, which saturates.
fn whole(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// ALiBi's slopes, in device memory that is filled before each execution.
fn slopes(builder: &mut Builder<'_>, heads: usize) -> Result<TensorPlace, Refusal> {
    let slopes: Vec<f32> = (0..heads).map(|head| slope(head, heads) as f32).collect();
    builder.filled(packed(&[1, heads as i64, 1, 1]), &slopes)
}

/// Refuses bands that cuDNN's documentation does not cover, even if a kernel supports them.
fn check_band(shape: &Numbers, options: &Options) -> Result<(), Refusal> {
    let band = &options.band;
    let from_the_end = band.bottom_right && band.right.is_some();
    if (band.left.is_some() || from_the_end) && options.lengths.is_none() && shape.queries > shape.keys {
        return Err(format!(
            "q: has {} queries for {} keys and a band, expected at most as many, or padding_mask",
            shape.queries, shape.keys
        ));
    }
    // cuDNN adds slope · (k - q), which equals -slope · |q + off - k| only if later keys are masked.
    if options.alibi && (band.right != Some(0) || band.bottom_right) {
        return Err("alibi_mask: is true without causal_mask, expected one from the top left".to_owned());
    }
    if from_the_end && (options.mask.is_some() || options.dropout.is_some()) {
        return Err(
            "diagonal_alignment: is BOTTOM_RIGHT, expected TOP_LEFT beside attn_mask or dropout".to_owned()
        );
    }
    Ok(())
}

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::Sdpa,
    problem: &Attention,
) -> Result<(), Refusal> {
    for (is_there, name) in [
        (operation.block_mask.is_some(), "block_mask"),
        (operation.descale_q.is_some() || operation.descale_k.is_some(), "descale_q or descale_k"),
        (operation.descale_v.is_some() || operation.descale_s.is_some(), "descale_v or descale_s"),
        (operation.scale_s.is_some() || operation.scale_o.is_some(), "scale_s or scale_o"),
        (operation.amax_s.is_some() || operation.amax_o.is_some(), "amax_s or amax_o"),
        // Kernels of cuDNN 9.19 always write both.
        (operation.max.is_some() != operation.sum_exp.is_some(), "max or sum_exp without the other"),
    ] {
        if is_there {
            return Err(format!("{name}: given, which this engine does not compute"));
        }
    }
    let shape = &problem.shape;
    builder.check_sequences(
        shape,
        &[
            ("q", operation.q, &problem.q),
            ("k", operation.k, &problem.k),
            ("v", operation.v, &problem.v),
            ("o", operation.o, &problem.o),
        ],
    )?;
    let uids = [operation.scale, operation.attn_mask, operation.seq_len_q, operation.seq_len_kv];
    let scores = Scores::new(builder, node, shape, &problem.options, uids)?;
    let [batch, heads, rows, keys] = scores.dims;
    let q = builder.tensor(operation.q)?;
    let k = match (&problem.k.start, operation.page_table_k, scores.keys) {
        (Start::Paged(pages), Some(table), Some(lengths)) => {
            let loaded = packed(&[batch, shape.key_heads as i64, keys, shape.depth as i64]).transposed();
            builder.loaded(operation.k, (table, pages), lengths, loaded)?
        }
        _ => builder.transposed(operation.k)?,
    };
    let begun = scores.begin(builder, q, k, true);
    let masked = scores.masked(builder, begun);

    let of_rows = [batch, heads, rows, 1];
    let row = |builder: &mut Builder<'_>, name, uid: Option<i64>, sequences: &Option<Sequences>| match (
        uid, sequences,
    ) {
        (Some(uid), Some(sequences)) => builder.statistics(name, uid, sequences, &of_rows),
        _ => Ok(builder.between(DATA_FLOAT, &of_rows)),
    };
    let compute_type = scores.compute_type;
    let of_heads = packed(&[1, heads, 1, 1]);
    let sink = operation.sink_token.map(|uid| builder.tensor_as(uid, of_heads)).transpose()?;
    let most = row(builder, "max", operation.max, &problem.max)?;
    let of_scores = if sink.is_some() { builder.between(DATA_FLOAT, &of_rows) } else { most };
    builder.reduce(REDUCE_TENSOR_MAX, compute_type, masked, of_scores);
    if sink.is_some() {
        builder.pointwise(POINTWISE_MAX, compute_type, of_scores, sink, most);
    }
    let below = scores.with(builder, POINTWISE_SUB, masked, Some(most));
    let exponentials = scores.with(builder, POINTWISE_EXP, below, None);
    let sum = row(builder, "sum_exp", operation.sum_exp, &problem.sum_exp)?;
    let of_scores = if sink.is_some() { builder.between(DATA_FLOAT, &of_rows) } else { sum };
    builder.reduce(REDUCE_TENSOR_ADD, compute_type, exponentials, of_scores);
    if let Some(sink) = sink {
        // The sink is an additional score without a value.
        let [below, part] = [(); 2].map(|()| builder.between(DATA_FLOAT, &of_rows));
        builder.pointwise(POINTWISE_SUB, compute_type, sink, Some(most), below);
        builder.pointwise(POINTWISE_EXP, compute_type, below, None, part);
        builder.pointwise(POINTWISE_ADD, compute_type, of_scores, Some(part), sum);
    }
    // The pattern must include the logarithms, even if they are not requested.
    if operation.stats.is_some() || (operation.max.is_none() && operation.sum_exp.is_none()) {
        let logarithm = builder.between(DATA_FLOAT, &of_rows);
        builder.pointwise(POINTWISE_LOG, compute_type, sum, None, logarithm);
        let stats = row(builder, "stats", operation.stats, &problem.stats)?;
        builder.pointwise(POINTWISE_ADD, compute_type, most, Some(logarithm), stats);
    }
    // The second matmul's operands have the type of the first's.
    let of_io = builder.type_of(operation.q)?;
    let weights = builder.between(of_io, &scores.dims);
    let uids = dropout::Uids {
        mask: operation.dropout_mask,
        scale: operation.dropout_scale,
        seed: operation.seed,
        offset: operation.offset,
        dump: operation.rng_dump,
    };
    match dropout::factors(builder, &scores.dims, problem.options.dropout.as_ref(), uids)? {
        None => builder.pointwise(POINTWISE_DIV, compute_type, exponentials, Some(sum), weights),
        Some([first, second]) => {
            let all = scores.with(builder, POINTWISE_DIV, exponentials, Some(sum));
            let multiplied = scores.with(builder, POINTWISE_MUL, all, Some(first));
            builder.pointwise(POINTWISE_MUL, compute_type, multiplied, Some(second), weights);
        }
    }
    let v = match (&problem.v.start, operation.page_table_v, scores.keys) {
        (Start::Paged(pages), Some(table), Some(lengths)) => {
            let loaded = packed(&[batch, shape.value_heads as i64, keys, shape.value_depth as i64]);
            builder.loaded(operation.v, (table, pages), lengths, loaded)?
        }
        _ => builder.tensor(operation.v)?,
    };
    let o = builder.tensor(operation.o)?;
    let counts = Counts { m: scores.queries, n: None, k: scores.keys, pads: false };
    builder.product(compute_type, weights, v, o, counts);
    Ok(())
}
