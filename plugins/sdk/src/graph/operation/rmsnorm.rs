//! RmsNorm.

operation! {
    /// Normalization by the root of the mean square.
    RmsNorm: "RMSNormAttributes", descriptor 23, operation 10, compute 2407, json sparse {
        /// The input.
        x: input = 2400 @ 0,
        /// The factor.
        scale: input = 2401 @ 1,
        /// What is added to the variance, a scalar.
        epsilon: input = 2402 @ 2,
        /// The result.
        y: output = 2403 @ 3,
        /// The summand.
        bias: optional_input = 2404 @ 4,
        /// 1/√(mean square + ε).
        inv_rms: optional_output = 2405 @ 5,
        /// Whether the statistics are kept.
        forward_phase: one_of(NormFwdPhase) = 2406 @ 6 as unless_zero,
    }
}
