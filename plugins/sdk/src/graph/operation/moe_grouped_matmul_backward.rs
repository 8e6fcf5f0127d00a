//! MoeGroupedMatmulBackward.

operation! {
    /// The gradient of the experts' factors.
    MoeGroupedMatmulBackward: "MoeGroupedMatmulBwdAttributes", descriptor 38, operation 23, compute 3804 {
        /// The gradient of the result.
        doutput: input = 3800 @ 0,
        /// The rows [.., tokens, K].
        token: input = 3801 @ 1,
        /// The first row of each group, int32.
        first_token_offset: input = 3802 @ 2,
        /// The gradient of the factors.
        dweight: output = 3803 @ 3,
    }
}
