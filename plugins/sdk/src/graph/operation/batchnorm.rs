//! Batchnorm.

operation! {
    /// Batch normalization in training: statistics of x by channel, and running statistics where all four are there.
    Batchnorm: "BatchnormAttributes", descriptor 27, operation 7, compute 2912 {
        /// The input.
        x: input = 2900 @ 0,
        /// The factor.
        scale: input = 2901 @ 1,
        /// The summand.
        bias: input = 2902 @ 2,
        /// What is added to the variance, a scalar.
        epsilon: input = 2903 @ 3,
        /// The result.
        y: output = 2904 @ 8,
        /// The running mean before.
        prev_running_mean: optional_input = 2905 @ 5,
        /// The running variance before.
        prev_running_variance: optional_input = 2906 @ 6,
        /// The weight of the new value in the running statistics, a scalar.
        momentum: optional_input = 2907 @ 7,
        /// The mean of each channel.
        mean: optional_output = 2908 @ 9,
        /// 1/√(variance + ε) of each channel.
        inv_variance: optional_output = 2909 @ 10,
        /// The running mean after.
        next_running_mean: optional_output = 2910 @ 11,
        /// The running variance after.
        next_running_variance: optional_output = 2911 @ 12,
        /// Statistics of other devices.
        peer_stats: inputs = 2913 @ 4 as "peer_stats_tensor_uid",
    }
}

impl Batchnorm {
    /// A training that neither keeps statistics nor has running ones. Tensors are named by uid.
    #[must_use]
    pub fn new(x: i64, scale: i64, bias: i64, epsilon: i64, y: i64) -> Self {
        Self {
            x,
            scale,
            bias,
            epsilon,
            y,
            prev_running_mean: None,
            prev_running_variance: None,
            momentum: None,
            mean: None,
            inv_variance: None,
            next_running_mean: None,
            next_running_variance: None,
            peer_stats: Vec::new(),
        }
    }
}
