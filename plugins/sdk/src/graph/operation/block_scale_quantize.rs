//! BlockScaleQuantize.

use crate::graph::GraphError;

operation! {
    /// Divides values by a scale per block and rounds them to a narrow type.
    BlockScaleQuantize: "BlockScaleQuantizeAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_BLOCK_SCALE_QUANTIZE_EXT,
        compute HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC,
        json sparse, check check_block_size
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_XDESC @ 0,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC @ 1,
        /// The scale of each block.
        scale: output = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC @ 2,
        /// Number of elements that share a scale.
        block_size: int32 = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE @ 3 as unless_zero,
        /// The dimension along which blocks extend.
        axis: optional_int = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_AXIS_EXT @ 4,
        /// Whether the output is transposed.
        transpose: flag = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_TRANSPOSE_EXT @ 5,
    }
}

fn check_block_size(operation: &BlockScaleQuantize) -> Result<(), GraphError> {
    match operation.block_size {
        1.. => Ok(()),
        size => Err(GraphError(format!("block_size of the BlockScaleQuantize is {size}, expected more than 0"))),
    }
}
