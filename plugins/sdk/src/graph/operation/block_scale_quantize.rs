//! BlockScaleQuantize.

use crate::graph::GraphError;

operation! {
    /// Values divided by a scale for each block and rounded to a small type.
    BlockScaleQuantize: "BlockScaleQuantizeAttributes", descriptor 26, operation 13, compute 2806, json sparse, check check_block_size {
        /// The input.
        x: input = 2800 @ 0,
        /// The result.
        y: output = 2801 @ 1,
        /// The factor.
        scale: output = 2802 @ 2,
        /// Elements that share a scale.
        block_size: int32 = 2803 @ 3 as unless_zero,
        /// The dimension of GEN_INDEX.
        axis: optional_int = 2804 @ 4,
        /// Whether the result is transposed.
        transpose: flag = 2805 @ 5,
    }
}

fn check_block_size(operation: &BlockScaleQuantize) -> Result<(), GraphError> {
    match operation.block_size {
        1.. => Ok(()),
        size => Err(GraphError(format!("block_size of the BlockScaleQuantize is {size}, expected more than 0"))),
    }
}
