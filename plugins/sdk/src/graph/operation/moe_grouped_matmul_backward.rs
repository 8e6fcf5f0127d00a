//! MoeGroupedMatmulBackward.

operation! {
    /// The gradient of the experts' matrices.
    MoeGroupedMatmulBackward: "MoeGroupedMatmulBwdAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_BWD_EXT,
        compute HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC
    {
        /// The gradient of the output.
        doutput: input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC @ 0,
        /// The rows [.., tokens, K].
        token: input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC @ 1,
        /// The first row of each group, int32.
        first_token_offset: input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC @ 2,
        /// The gradient of the matrices.
        dweight: output = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC @ 3,
    }
}
