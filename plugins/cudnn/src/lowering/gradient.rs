//! The gradients of attention, as the pattern that cuDNN's kernels match.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::AttentionGradients;
use hipdnn_plugin_planner::problem::attention::options::Dropout;
use hipdnn_plugin_sdk::graph::{Node, operation};

use super::attention::Scores;
use super::matmul::Counts;
use super::shape::{Shape, packed};
use super::{Builder, Descriptor, TensorPlace, dropout};
use crate::names::{
    ATTR_OPERATION_RESHAPE_XDESC, ATTR_OPERATION_RESHAPE_YDESC, BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
    DATA_FLOAT, POINTWISE_EXP, POINTWISE_IDENTITY, POINTWISE_MUL, POINTWISE_SUB, REDUCE_TENSOR_ADD,
};

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::SdpaBackward,
    problem: &AttentionGradients,
) -> Result<(), Refusal> {
    if operation.dbias.is_some() {
        return Err("dbias: given, which this engine does not compute".to_owned());
    }
    builder.check_sequences(
        &problem.shape,
        &[
            ("q", operation.q, &problem.q),
            ("k", operation.k, &problem.k),
            ("v", operation.v, &problem.v),
            ("o", operation.o, &problem.o),
            ("do", operation.do_, &problem.d_o),
            ("dq", operation.dq, &problem.dq),
            ("dk", operation.dk, &problem.dk),
            ("dv", operation.dv, &problem.dv),
        ],
    )?;
    let uids = [operation.scale, operation.attn_mask, operation.seq_len_q, operation.seq_len_kv];
    let scores = Scores::new(builder, node, &problem.shape, &problem.options, uids)?;
    if let Some(Dropout::Mask { .. }) = problem.options.dropout {
        return Err(
            "dropout_mask: is given, expected a seed: cuDNN's gradients with a mask were wrong on a GPU"
                .to_owned(),
        );
    }
    let uids = dropout::Uids { seed: operation.seed, offset: operation.offset, ..dropout::Uids::default() };
    let drawn = dropout::drawn(builder, &scores.dims, problem.options.dropout.as_ref(), uids)?;
    let compute_type = scores.compute_type;
    let [batch, heads, rows, columns] = scores.dims;
    let (depth, value_depth) = (problem.shape.depth as i64, problem.shape.value_depth as i64);
    let of_io = builder.type_of(operation.q)?;
    let q = builder.tensor(operation.q)?;
    let k = builder.transposed(operation.k)?;
    let v = builder.transposed(operation.v)?;
    let gradient = builder.tensor(operation.do_)?;

    // The row sums of dO · O.
    let o = builder.tensor(operation.o)?;
    let product = builder.between_as(
        DATA_FLOAT,
        Shape {
            dims: vec![batch, heads, rows, value_depth],
            strides: vec![heads * rows * value_depth, rows * value_depth, heads * value_depth, 1],
        },
    );
    builder.pointwise(POINTWISE_MUL, compute_type, gradient, Some(o), product);
    let of_rows = [batch, heads, rows, 1];
    let summed = builder.between(DATA_FLOAT, &of_rows);
    builder.reduce(REDUCE_TENSOR_ADD, compute_type, product, summed);
    // Multiplied by the keep probability, which the scale below cancels. cuDNN's kernel needs this
    // multiplication in the pattern.
    let inverse = builder.float(drawn.map_or(1.0, |drawn| drawn.kept));
    let row_sums = builder.scratch(packed(&of_rows))?;
    builder.pointwise(POINTWISE_MUL, compute_type, summed, Some(inverse), row_sums);

    // Recomputes the weights from the logarithms saved by the forward pass.
    let begun = scores.begin(builder, q, k, false);
    let stats = builder.statistics("stats", operation.stats, &problem.stats, &of_rows)?;
    let below = scores.with(builder, POINTWISE_SUB, begun, Some(stats));
    let masked = scores.masked(builder, below);
    let weights = scores.with(builder, POINTWISE_EXP, masked, None);

    // dV = weightsᵀ · dO, summed over the heads that share a value.
    let turned = Shape {
        dims: vec![batch, heads, columns, rows],
        strides: vec![heads * rows * columns, rows * columns, 1, columns],
    };
    let by_keys = Counts { m: scores.keys, n: None, k: scores.queries, pads: false };
    let mut kept = weights;
    if let Some(drawn) = drawn {
        kept = scores.with(builder, POINTWISE_MUL, kept, Some(drawn.mask));
        kept = scores.with(builder, POINTWISE_MUL, kept, Some(drawn.scale));
    }
    let weights_turned = builder.reshape(kept, of_io, turned.clone());
    let heads_of = [problem.shape.value_heads as i64, problem.shape.key_heads as i64];
    let [value_heads, key_heads] = heads_of;
    let whole = [batch, heads, columns, value_depth];
    let dv = (operation.dv, value_heads, whole);
    builder.by_heads(compute_type, [weights_turned, gradient], dv, heads, of_io, by_keys)?;

    // dS = (dO · Vᵀ · mask - row sums) · weights · dropout's scale · scale
    let mut last = scores.between(builder);
    let counts = Counts { m: scores.queries, n: scores.keys, k: None, pads: false };
    builder.product(compute_type, gradient, v, last, counts);
    if let Some(drawn) = drawn {
        last = scores.with(builder, POINTWISE_MUL, last, Some(drawn.mask));
    }
    last = scores.with(builder, POINTWISE_SUB, last, Some(row_sums));
    last = scores.with(builder, POINTWISE_MUL, last, Some(weights));
    for factor in [drawn.map(|drawn| drawn.scale), scores.scale].into_iter().flatten() {
        last = scores.with(builder, POINTWISE_MUL, last, Some(factor));
    }

    // dK = dSᵀ · Q, summed over the heads that share a key.
    let turned = builder.reshape(last, of_io, turned);
    let whole = [batch, heads, columns, depth];
    builder.by_heads(compute_type, [turned, q], (operation.dk, key_heads, whole), heads, of_io, by_keys)?;

    // dQ = dS · K, summed in single precision.
    let shape = builder.view.shape(&builder.layout(operation.k)?)?;
    let keys = builder.reshape(k, of_io, shape);
    let sums = builder.scratch(packed(&[batch, heads, rows, depth]))?;
    let counts = Counts { m: scores.queries, n: None, k: scores.keys, pads: false };
    builder.product(compute_type, last, keys, sums, counts);
    let dq = builder.tensor(operation.dq)?;
    builder.pointwise(POINTWISE_IDENTITY, compute_type, sums, None, dq);
    Ok(())
}

impl Builder<'_> {
    /// The same elements in another shape.
    fn reshape(&mut self, x: TensorPlace, data_type: i32, shape: Shape) -> TensorPlace {
        let y = self.between_as(data_type, shape);
        let tensors = &mut self.lowered.described.tensors;
        let offsets = tensors.get(x).and_then(|tensor| tensor.offsets);
        if let Some(tensor) = tensors.get_mut(y) {
            tensor.offsets = offsets;
        }
        self.operation(
            Descriptor::new(BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
                .tensor(ATTR_OPERATION_RESHAPE_XDESC, x)
                .tensor(ATTR_OPERATION_RESHAPE_YDESC, y),
        );
        y
    }

    /// A matmul that sums over the heads that share a head of the result.
    fn by_heads(
        &mut self,
        compute_type: i32,
        [a, b]: [TensorPlace; 2],
        (uid, own_heads, whole): (i64, i64, [i64; 4]),
        heads: i64,
        data_type: i32,
        counts: Counts,
    ) -> Result<(), Refusal> {
        let result = self.tensor(uid)?;
        if own_heads == heads {
            self.product(compute_type, a, b, result, counts);
        } else {
            let each = self.between_as(data_type, packed(&whole));
            self.product(compute_type, a, b, each, counts);
            self.reduce(REDUCE_TENSOR_ADD, compute_type, each, result);
        }
        Ok(())
    }
}
