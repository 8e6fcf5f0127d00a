//! CustomOp.

operation! {
    /// An operation that only a plugin knows.
    CustomOp: "CustomOpAttributes", descriptor 29, operation 16, compute 3004 {
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
