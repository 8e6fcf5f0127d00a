//! Layernorm.

operation! {
    /// Normalization over the last dimensions.
    Layernorm: "LayernormAttributes", descriptor 25, operation 11, compute 2708 {
        /// The input.
        x: input = 2700 @ 0,
        /// The factor.
        scale: input = 2701 @ 1,
        /// The summand.
        bias: input = 2702 @ 2,
        /// What is added to the variance, a scalar.
        epsilon: input = 2703 @ 3,
        /// The result.
        y: output = 2704 @ 4,
        /// The mean of each channel.
        mean: optional_output = 2705 @ 6,
        /// 1/√(variance + ε) of each channel.
        inv_variance: optional_output = 2706 @ 7,
        /// Whether the statistics are kept.
        forward_phase: one_of(NormFwdPhase) = 2707 @ 8 as number,
        /// How many of the last dimensions are normalized.
        normalized_dim_count: int = 2709 @ 5,
    }
}
