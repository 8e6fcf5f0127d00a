//! MoeGroupedMatmul.

use crate::graph::{GraphError, MoeGroupedMatmulMode};

operation! {
    /// Grouped GEMM: each group of rows is multiplied by its expert's matrix.
    MoeGroupedMatmul: "MoeGroupedMatmulAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_EXT,
        compute HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC,
        json sparse, check check_routing
    {
        /// The rows [.., tokens, K].
        token: input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC @ 0,
        /// The experts' matrices [E, K, N].
        weight: input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC @ 1,
        /// The first row of each group, int32.
        first_token_offset: input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC @ 2,
        /// The index of the row to use for each row, int32.
        token_index: optional_input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC @ 3,
        /// Which of its token's experts each row belongs to, int32.
        token_ks: optional_input = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC @ 4,
        /// The output.
        output: output = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC @ 5,
        /// How rows are addressed.
        mode: one_of(MoeGroupedMatmulMode) = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE @ 6,
        /// Number of experts per token.
        top_k: int32 = HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K @ 7,
    }
}

fn check_routing(operation: &MoeGroupedMatmul) -> Result<(), GraphError> {
    let needs = |what: &str| Err(GraphError(format!("the MoeGroupedMatmul is {}, and needs {what}", operation.mode.name())));
    match operation.mode {
        MoeGroupedMatmulMode::None => Ok(()),
        _ if operation.token_index.is_none() => needs("token_index"),
        MoeGroupedMatmulMode::Gather => Ok(()),
        MoeGroupedMatmulMode::Scatter if operation.token_ks.is_none() => needs("token_ks"),
        MoeGroupedMatmulMode::Scatter if operation.top_k <= 0 => needs("a top_k of more than 0"),
        MoeGroupedMatmulMode::Scatter => Ok(()),
    }
}
