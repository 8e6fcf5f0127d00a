//! MoeGroupedMatmul.

operation! {
    /// Products of groups of rows, each with its expert's factor.
    MoeGroupedMatmul: "MoeGroupedMatmulAttributes", descriptor 37, operation 22, compute 3708 {
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
