//! MoeGroupedMatmul.

use crate::graph::{GraphError, MoeGroupedMatmulMode};

operation! {
    /// Products of groups of rows, each with its expert's factor.
    MoeGroupedMatmul: "MoeGroupedMatmulAttributes", descriptor 37, operation 22, compute 3708, json sparse, check check_routing {
        /// The rows [.., tokens, K].
        token: input = 3700 @ 0,
        /// The experts' factors [E, K, N].
        weight: input = 3701 @ 1,
        /// The first row of each group, int32.
        first_token_offset: input = 3702 @ 2,
        /// The row looked up for each row, int32.
        token_index: optional_input = 3703 @ 3,
        /// Which of a token's experts each row is for, int32.
        token_ks: optional_input = 3704 @ 4,
        /// The result.
        output: output = 3705 @ 5,
        /// How it is computed.
        mode: one_of(MoeGroupedMatmulMode) = 3706 @ 6,
        /// Experts for each token.
        top_k: int32 = 3707 @ 7,
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
