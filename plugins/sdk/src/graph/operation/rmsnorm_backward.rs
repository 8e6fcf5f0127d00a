//! RmsNormBackward.

operation! {
    /// The gradients of normalization by the root of the mean square.
    RmsNormBackward: "RMSNormBackwardAttributes", descriptor 33, operation 19, compute 3507, json sparse {
        /// The gradient of the result.
        dy: input = 3500 @ 0,
        /// The input.
        x: input = 3501 @ 1,
        /// The factor.
        scale: input = 3502 @ 2,
        /// 1/√(mean square + ε).
        inv_rms: optional_input = 3503 @ 3,
        /// The gradient of the input.
        dx: output = 3504 @ 4,
        /// The gradient of the factor.
        dscale: output = 3505 @ 5,
        /// The gradient of the summand.
        dbias: optional_output = 3506 @ 6,
    }
}
