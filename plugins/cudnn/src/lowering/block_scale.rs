//! Dequantized blocks as operands of matmuls.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::block_scale::{BlockScale, Dequantize};
use hipdnn_plugin_sdk::graph::{Node, Operation};

use super::{Builder, Descriptor, data_type};
use crate::names::{
    ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE, ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC,
    ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC, ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC,
    ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC, BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR,
};

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &Operation,
    problem: &BlockScale,
) -> Result<(), Refusal> {
    let (BlockScale::Dequantize(problem), Operation::BlockScaleDequantize(operation)) = (problem, operation)
    else {
        return Err(
            "operation: makes scales, which cuDNN writes in tiles of 128 × 4 instead of rows".to_owned()
        );
    };
    if problem.is_negative_scale {
        return Err("is_negative_scale: is true, expected false".to_owned());
    }
    let sizes = sizes(problem)?;
    let [x, scale, y] = [operation.x, operation.scale, operation.y].map(|uid| builder.tensor(uid));
    builder.operation(
        Descriptor::new(BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR)
            .tensor(ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC, x?)
            .tensor(ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC, scale?)
            .tensor(ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC, y?)
            .compute_type(ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC, data_type(node.compute_type)?)
            .counts(ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE, &sizes),
    );
    Ok(())
}

/// The rows and columns of a block of a matrix. Matrices of a batch share no scale.
fn sizes(problem: &Dequantize) -> Result<[i32; 2], Refusal> {
    let dims = problem.x.layout.dims();
    let (blocks, _) = problem.block.split_at(dims.len());
    match blocks {
        [outer @ .., rows, columns] if outer.iter().all(|size| *size == 1) => {
            // They were given as 32-bit numbers.
            Ok([*rows, *columns].map(|size| i32::try_from(size).unwrap_or(i32::MAX)))
        }
        _ => Err(format!(
            "block_size: blocks are {blocks:?}, expected those of a matrix, in the last two dimensions"
        )),
    }
}
