//! Matmuls.

use std::ffi::c_int;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor, operation};

use super::{Builder, Descriptor, TensorPlace, data_type};
use crate::names::{
    ATTR_MATMUL_COMP_TYPE, ATTR_MATMUL_PADDING_VALUE, ATTR_OPERATION_MATMUL_ADESC,
    ATTR_OPERATION_MATMUL_BDESC, ATTR_OPERATION_MATMUL_CDESC, ATTR_OPERATION_MATMUL_DESC,
    ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
    ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, BACKEND_MATMUL_DESCRIPTOR,
    BACKEND_OPERATION_MATMUL_DESCRIPTOR,
};

/// Bytes.
const SCALE_ALIGNMENT: i64 = 16;

/// The tensors with the valid rows, columns and terms of each matrix of the batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) m: Option<TensorPlace>,
    pub(super) n: Option<TensorPlace>,
    pub(super) k: Option<TensorPlace>,
    /// Whether the rest of the result is set to zero.
    pub(super) pads: bool,
}

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::Matmul,
) -> Result<(), Refusal> {
    let rounds = builder.multiplies([operation.a, operation.b]);
    builder.lowered.described.rounds_to_tf32 |= rounds;
    check_scales(builder.graph, operation)?;
    let (a, b) = (builder.tensor(operation.a)?, builder.tensor(operation.b)?);
    let c = builder.tensor(operation.c)?;
    let [of_a, of_b] = [a, b].map(|place| builder.shape(place).dims);
    let is_last = !builder.nodes.iter().any(|node| node.operation.inputs().contains(&operation.c));
    // If nothing follows the matmul, cuDNN 9.14 reads beyond the end of an operand shared by all indices of
    // the batch.
    let outer = of_a.len().saturating_sub(2);
    if is_last && of_a.get(..outer) != of_b.get(..outer) {
        return Err(format!(
            "a and b: batches {:?} and {:?}, expected equal ones",
            of_a.get(..outer).unwrap_or_default(),
            of_b.get(..outer).unwrap_or_default()
        ));
    }
    builder.product(data_type(node.compute_type)?, a, b, c, Counts::default());
    Ok(())
}

/// Matmuls of 8-bit floats read 16 bytes of scales at a time: for others cuDNN 9.19 also makes a plan, which
/// fails.
fn check_scales(graph: &Graph, operation: &operation::Matmul) -> Result<(), Refusal> {
    let is_small = |uid: i64| {
        let data_type = graph.tensor(uid).map(|tensor| tensor.data_type);
        matches!(data_type, Some(DataType::Fp8E4m3 | DataType::Fp8E5m2))
    };
    if !is_small(operation.a) && !is_small(operation.b) {
        return Ok(());
    }
    let is_scale = |tensor: &&Tensor| {
        let is_given = !tensor.is_virtual && tensor.value.is_none() && !tensor.is_runtime_pass_by_value;
        is_given && tensor.dims.iter().all(|dim| *dim == 1)
    };
    match graph.tensors.iter().filter(is_scale).find(|tensor| tensor.alignment % SCALE_ALIGNMENT != 0) {
        None => Ok(()),
        Some(Tensor { uid, name, alignment, .. }) => Err(format!(
            "tensor {uid} \"{name}\": alignment is {alignment}, expected {SCALE_ALIGNMENT} for a scale of 8-bit floats"
        )),
    }
}

impl Builder<'_> {
    /// c = a · b.
    pub(super) fn product(
        &mut self,
        compute_type: c_int,
        a: TensorPlace,
        b: TensorPlace,
        c: TensorPlace,
        counts: Counts,
    ) {
        let mut matmul =
            Descriptor::new(BACKEND_MATMUL_DESCRIPTOR).compute_type(ATTR_MATMUL_COMP_TYPE, compute_type);
        if counts.pads {
            matmul = matmul.double(ATTR_MATMUL_PADDING_VALUE, 0.0);
        }
        self.operation(
            Descriptor::new(BACKEND_OPERATION_MATMUL_DESCRIPTOR)
                .tensor(ATTR_OPERATION_MATMUL_ADESC, a)
                .tensor(ATTR_OPERATION_MATMUL_BDESC, b)
                .tensor(ATTR_OPERATION_MATMUL_CDESC, c)
                .descriptor(ATTR_OPERATION_MATMUL_DESC, matmul)
                .optional(ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, counts.m)
                .optional(ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, counts.n)
                .optional(ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, counts.k),
        );
    }
}
