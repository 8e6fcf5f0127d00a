//! BatchnormInferenceVariance.

operation! {
    /// Batch normalization with given statistics: y = scale · (x - mean) / √(variance + epsilon) + bias, by channel.
    BatchnormInferenceVariance: "BatchnormInferenceAttributesVarianceExt", descriptor 21, operation 6, compute 1907 {
        /// The input.
        x: input = 1900 @ 0,
        /// The mean of each channel.
        mean: input = 1901 @ 1,
        /// The variance of each channel.
        variance: input = 1902 @ 2,
        /// The factor.
        scale: input = 1903 @ 3,
        /// The summand.
        bias: input = 1904 @ 4,
        /// The result.
        y: output = 1905 @ 5,
        /// What is added to the variance, a scalar.
        epsilon: input = 1906 @ 6,
    }
}
