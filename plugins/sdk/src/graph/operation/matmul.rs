//! Matmul.

operation! {
    /// Matrix multiplication in the last two dimensions.
    Matmul: "MatmulAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_MATMUL_EXT,
        compute HIPDNN_ATTR_MATMUL_COMP_TYPE
    {
        /// The left operand [..., M, K].
        a: input = HIPDNN_ATTR_OPERATION_MATMUL_ADESC @ 0,
        /// The right operand [..., K, N].
        b: input = HIPDNN_ATTR_OPERATION_MATMUL_BDESC @ 1,
        /// The output [..., M, N].
        c: output = HIPDNN_ATTR_OPERATION_MATMUL_CDESC @ 2,
    }
}
