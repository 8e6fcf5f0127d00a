//! BlockScaleDequantize.

use crate::graph::GraphError;

operation! {
    /// Values of a small type times the scale of their block.
    BlockScaleDequantize: "BlockScaleDequantizeAttributes", descriptor 28, operation 15, compute 2812, check check_block_sizes {
        /// The input.
        x: input = 2807 @ 0,
        /// The factor.
        scale: input = 2808 @ 1,
        /// The result.
        y: output = 2809 @ 2,
        /// Elements that share a scale.
        block_size: int32s = 2810 @ 3,
        /// Whether scales are negated exponents.
        is_negative_scale: flag = 2811 @ 4,
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
