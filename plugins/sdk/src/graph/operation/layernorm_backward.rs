//! LayernormBackward.

operation! {
    /// The gradients of normalization over the last dimensions.
    LayernormBackward: "LayernormBackwardAttributes", descriptor 35, operation 20, compute 3610 {
        /// The gradient of the result.
        dy: input = 3600 @ 0,
        /// The input.
        x: input = 3601 @ 1,
        /// The factor.
        scale: input = 3602 @ 2,
        /// The mean of each channel.
        mean: optional_input = 3603 @ 3,
        /// 1/√(variance + ε) of each channel.
        inv_variance: optional_input = 3604 @ 4,
        /// What is added to the variance, a scalar.
        epsilon: optional_input = 3605 @ 5 as "epsilon_uid",
        /// The gradient of the input.
        dx: output = 3606 @ 6,
        /// The gradient of the factor.
        dscale: output = 3607 @ 7,
        /// The gradient of the summand.
        dbias: output = 3608 @ 8,
        /// How many of the last dimensions are normalized.
        normalized_dim_count: int = 3609 @ 9,
    }
}
