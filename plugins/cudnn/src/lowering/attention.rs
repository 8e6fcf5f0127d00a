//! Scaled dot product attention, as the graph of products, masks and reductions that cuDNN's attention kernels are found by.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::Attention;
use hipdnn_plugin_planner::problem::attention::options::{Options, Scale};
use hipdnn_plugin_planner::problem::attention::shape::Shape as Numbers;
use hipdnn_plugin_sdk::graph::{DataType, Node, operation};

use super::matmul::Counts;
use super::view::{Shape, packed};
use super::{Builder, TensorPlace, data_type};
use crate::names::{
    DATA_BOOLEAN, DATA_FLOAT, DATA_INT32, POINTWISE_ADD, POINTWISE_CMP_GE, POINTWISE_CMP_GT,
    POINTWISE_CMP_LT, POINTWISE_DIV, POINTWISE_EXP, POINTWISE_LOG, POINTWISE_LOGICAL_AND, POINTWISE_MUL,
    POINTWISE_SUB, REDUCE_TENSOR_ADD, REDUCE_TENSOR_MAX,
};

/// What the scores are made of, in both directions.
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
}

impl Scores {
    /// The scores of an attention with tensors of these uids: the factor, the summand, the lengths.
    pub(super) fn new(
        builder: &mut Builder<'_>,
        node: &Node,
        shape: &Numbers,
        options: &Options,
        [scale, bias, queries, keys]: [Option<i64>; 4],
    ) -> Result<Self, Refusal> {
        for (is_there, what) in [
            (options.dropout.is_some(), "dropout: asked for"),
            (options.alibi, "alibi_mask: is true"),
            (shape.packed, "q: sequences are packed into one"),
        ] {
            if is_there {
                return Err(format!("{what}, which this engine does not compute"));
            }
        }
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
        let lengths = |builder: &mut Builder<'_>, uid: Option<i64>| {
            let shape = packed(&[shape.batch as i64, 1, 1, 1]);
            uid.map(|uid| builder.tensor_as(uid, shape)).transpose()
        };
        Ok(Self {
            dims: shape.scores().map(|dim| dim as i64),
            compute_type: data_type(node.compute_type)?,
            scale,
            bias: bias.map(|uid| builder.tensor(uid)).transpose()?,
            queries: lengths(builder, queries)?,
            keys: lengths(builder, keys)?,
            left: bound(options.band.left),
            right: bound(options.band.right),
            bottom_right: options.band.bottom_right,
        })
    }

    /// A tensor of the scores' dims between operations.
    pub(super) fn between(&self, builder: &mut Builder<'_>) -> TensorPlace {
        builder.between(DATA_FLOAT, &self.dims)
    }

    /// The scores, with an operation of another tensor.
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

    /// q · kᵀ · scale + bias
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
        last
    }

    /// The scores with what does not count made minus infinity.
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
            // Kept is the diagonal and so many before it.
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

/// A number that is within the dims of a tensor, or a bound that was cut.
fn whole(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::Sdpa,
    problem: &Attention,
) -> Result<(), Refusal> {
    for (is_there, name) in [
        (operation.page_table_k.is_some() || operation.page_table_v.is_some(), "page_table"),
        (operation.block_mask.is_some(), "block_mask"),
        (operation.sink_token.is_some(), "sink_token"),
        (operation.rng_dump.is_some(), "rng_dump"),
        (operation.descale_q.is_some() || operation.descale_k.is_some(), "descale_q or descale_k"),
        (operation.descale_v.is_some() || operation.descale_s.is_some(), "descale_v or descale_s"),
        (operation.scale_s.is_some() || operation.scale_o.is_some(), "scale_s or scale_o"),
        (operation.amax_s.is_some() || operation.amax_o.is_some(), "amax_s or amax_o"),
    ] {
        if is_there {
            return Err(format!("{name}: given, which this engine does not compute"));
        }
    }
    let heads = [("q", operation.q), ("k", operation.k), ("v", operation.v), ("o", operation.o)];
    builder.check_heads(&heads)?;
    let uids = [operation.scale, operation.attn_mask, operation.seq_len_q, operation.seq_len_kv];
    let scores = Scores::new(builder, node, &problem.shape, &problem.options, uids)?;
    let q = builder.tensor(operation.q)?;
    let k = builder.transposed(operation.k)?;
    let begun = scores.begin(builder, q, k, true);
    let masked = scores.masked(builder, begun);

    let [batch, heads, rows, _] = scores.dims;
    let of_rows = [batch, heads, rows, 1];
    let row = |builder: &mut Builder<'_>, uid: Option<i64>| match uid {
        Some(uid) => builder.tensor(uid),
        None => Ok(builder.between(DATA_FLOAT, &of_rows)),
    };
    let compute_type = scores.compute_type;
    let most = row(builder, operation.max)?;
    builder.reduce(REDUCE_TENSOR_MAX, compute_type, masked, most);
    let below = scores.with(builder, POINTWISE_SUB, masked, Some(most));
    let exponentials = scores.with(builder, POINTWISE_EXP, below, None);
    let sum = row(builder, operation.sum_exp)?;
    builder.reduce(REDUCE_TENSOR_ADD, compute_type, exponentials, sum);
    // Kernels are found by the logarithms, whether somebody wants them or not.
    if operation.stats.is_some() || (operation.max.is_none() && operation.sum_exp.is_none()) {
        let logarithm = builder.between(DATA_FLOAT, &of_rows);
        builder.pointwise(POINTWISE_LOG, compute_type, sum, None, logarithm);
        let stats = row(builder, operation.stats)?;
        builder.pointwise(POINTWISE_ADD, compute_type, most, Some(logarithm), stats);
    }
    // The second product takes factors of the type of the first.
    let of_io = builder.type_of(operation.q)?;
    let weights = builder.between(of_io, &scores.dims);
    builder.pointwise(POINTWISE_DIV, compute_type, exponentials, Some(sum), weights);
    let (v, o) = (builder.tensor(operation.v)?, builder.tensor(operation.o)?);
    let counts = Counts { m: scores.queries, n: None, k: scores.keys, pads: false };
    builder.product(compute_type, weights, v, o, counts);
    Ok(())
}

/// What cuDNN's kernels read and write at once, without asking whether the address is a multiple of it.
const VECTOR: i64 = 16;

impl Builder<'_> {
    /// Checks that the elements of each head lie together and begin where cuDNN's kernels read them from.
    pub(super) fn check_heads(&self, tensors: &[(&str, i64)]) -> Result<(), Refusal> {
        for (name, uid) in tensors {
            let Some(tensor) = self.graph.tensor(*uid) else { continue };
            let size = tensor.data_type.size().unwrap_or(1) as i64;
            let long = |(dim, _): &(&i64, &i64)| **dim > 1;
            let mut strides = tensor.dims.iter().zip(&tensor.strides);
            if let Some((_, stride)) = strides.next_back().filter(long).filter(|(_, stride)| **stride != 1) {
                return Err(format!(
                    "{name}: stride of the last dimension is {stride}, expected 1: the elements of a head together"
                ));
            }
            if let Some((_, stride)) = strides.filter(long).find(|(_, stride)| **stride * size % VECTOR != 0)
            {
                return Err(format!(
                    "{name}: a stride is {stride} elements of {size} bytes, expected a multiple of {VECTOR} bytes"
                ));
            }
            if !tensor.is_virtual && tensor.alignment % VECTOR != 0 {
                return Err(format!(
                    "{name}: its address is a multiple of {} bytes, expected of {VECTOR} bytes",
                    tensor.alignment
                ));
            }
        }
        Ok(())
    }

    /// A tensor of the graph with its last two dimensions exchanged.
    pub(super) fn transposed(&mut self, uid: i64) -> Result<TensorPlace, Refusal> {
        let shape: Shape = self.view.shape(&self.layout(uid)?)?.transposed();
        self.tensor_as(uid, shape)
    }

    /// cuDNN's number of the type of a tensor of the graph.
    pub(super) fn type_of(&self, uid: i64) -> Result<i32, Refusal> {
        let tensor = self.graph.tensor(uid);
        data_type(tensor.ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))?.data_type)
    }
}
