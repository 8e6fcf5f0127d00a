//! BlockScaleDequantize.

use crate::graph::GraphError;

operation! {
    /// Multiplies values of a narrow type by the scale of their block.
    BlockScaleDequantize: "BlockScaleDequantizeAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_BLOCK_SCALE_DEQUANTIZE_EXT,
        compute HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC,
        check check_block_sizes
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC @ 0,
        /// The scale of each block.
        scale: input = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC @ 1,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC @ 2,
        /// Number of elements that share a scale.
        block_size: int32s = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE @ 3,
        /// Whether scales are negated exponents.
        is_negative_scale: flag = HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE @ 4,
    }
}

fn check_block_sizes(operation: &BlockScaleDequantize) -> Result<(), GraphError> {
    match operation.block_size.iter().find(|size| **size <= 0) {
        None => Ok(()),
        Some(size) => {
            Err(GraphError(format!("a block_size of the BlockScaleDequantize is {size}, expected more than 0")))
        }
    }
}
