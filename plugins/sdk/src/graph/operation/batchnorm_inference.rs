//! BatchnormInference.

operation! {
    /// Batch normalization with given statistics: y = scale · (x - mean) · inv_variance + bias, by channel.
    BatchnormInference: "BatchnormInferenceAttributes", descriptor 17, operation 4, compute 1806 {
        /// The input.
        x: input = 1800 @ 0,
        /// The mean of each channel.
        mean: input = 1801 @ 1,
        /// 1/√(variance + ε) of each channel.
        inv_variance: input = 1802 @ 2,
        /// The factor.
        scale: input = 1803 @ 3,
        /// The summand.
        bias: input = 1804 @ 4,
        /// The result.
        y: output = 1805 @ 5,
    }
}
