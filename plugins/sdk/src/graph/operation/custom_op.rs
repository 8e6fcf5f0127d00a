//! CustomOp.

use crate::graph::GraphError;

operation! {
    /// An operation that only a plugin knows.
    CustomOp: "CustomOpAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_CUSTOM_OP_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_CUSTOM_OP_EXT,
        compute HIPDNN_ATTR_CUSTOM_OP_COMP_TYPE_EXT,
        json flat, check check_id
    {
        /// The tensors read.
        input_tensor_uids: inputs = HIPDNN_ATTR_OPERATION_CUSTOM_OP_INPUTS_EXT @ 1,
        /// The tensors written.
        output_tensor_uids: outputs = HIPDNN_ATTR_OPERATION_CUSTOM_OP_OUTPUTS_EXT @ 2,
        /// The name by which plugins know it.
        custom_op_id: text = HIPDNN_ATTR_OPERATION_CUSTOM_OP_ID_EXT @ 0,
        /// Bytes that only the plugin understands.
        data: bytes = HIPDNN_ATTR_OPERATION_CUSTOM_OP_DATA_EXT @ 3,
    }
}

fn check_id(operation: &CustomOp) -> Result<(), GraphError> {
    if operation.custom_op_id.is_empty() {
        return Err(GraphError("custom_op_id of the CustomOp is empty, expected a name".into()));
    }
    Ok(())
}
