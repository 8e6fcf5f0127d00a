//! CustomOp.

use crate::graph::GraphError;

operation! {
    /// An operation defined by a plugin.
    CustomOp: "CustomOpAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_CUSTOM_OP_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_CUSTOM_OP_EXT,
        compute HIPDNN_ATTR_CUSTOM_OP_COMP_TYPE_EXT,
        json flat, check check_id
    {
        /// The input tensors.
        input_tensor_uids: inputs = HIPDNN_ATTR_OPERATION_CUSTOM_OP_INPUTS_EXT @ 1,
        /// The output tensors.
        output_tensor_uids: outputs = HIPDNN_ATTR_OPERATION_CUSTOM_OP_OUTPUTS_EXT @ 2,
        /// The name by which plugins recognize it.
        custom_op_id: text = HIPDNN_ATTR_OPERATION_CUSTOM_OP_ID_EXT @ 0,
        /// Data for the plugin only.
        data: bytes = HIPDNN_ATTR_OPERATION_CUSTOM_OP_DATA_EXT @ 3,
    }
}

fn check_id(operation: &CustomOp) -> Result<(), GraphError> {
    if operation.custom_op_id.is_empty() {
        return Err(GraphError("custom_op_id of the CustomOp is empty, expected a name".into()));
    }
    Ok(())
}
