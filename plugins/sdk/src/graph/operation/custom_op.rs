//! CustomOp.

use crate::graph::GraphError;

operation! {
    /// An operation that only a plugin knows.
    CustomOp: "CustomOpAttributes", descriptor 29, operation 16, compute 3004, json flat, check check_id {
        /// The tensors read.
        input_tensor_uids: inputs = 3000 @ 1,
        /// The tensors written.
        output_tensor_uids: outputs = 3001 @ 2,
        /// The name by which plugins know it.
        custom_op_id: text = 3002 @ 0,
        /// Bytes that only the plugin understands.
        data: bytes = 3003 @ 3,
    }
}

fn check_id(operation: &CustomOp) -> Result<(), GraphError> {
    if operation.custom_op_id.is_empty() {
        return Err(GraphError("custom_op_id of the CustomOp is empty, expected a name".into()));
    }
    Ok(())
}
