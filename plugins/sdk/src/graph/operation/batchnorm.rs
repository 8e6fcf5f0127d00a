//! Batchnorm.

operation! {
    /// Batch normalization in training: per-channel statistics of x, and running statistics if all four
    /// tensors are given.
    Batchnorm: "BatchnormAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_BATCHNORM_EXT,
        compute HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT @ 0,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT @ 1,
        /// The bias.
        bias: input = HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT @ 2,
        /// Added to the variance, a scalar.
        epsilon: input = HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT @ 3,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT @ 8,
        /// The old running mean.
        prev_running_mean: optional_input = HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT @ 5,
        /// The old running variance.
        prev_running_variance: optional_input = HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT @ 6,
        /// The weight of the new value in the running statistics, a scalar.
        momentum: optional_input = HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT @ 7,
        /// The mean of each channel.
        mean: optional_output = HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT @ 9,
        /// 1/√(variance + ε) of each channel.
        inv_variance: optional_output = HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT @ 10,
        /// The new running mean.
        next_running_mean: optional_output = HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT @ 11,
        /// The new running variance.
        next_running_variance: optional_output = HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT @ 12,
        /// Statistics of other devices.
        peer_stats: inputs = HIPDNN_ATTR_OPERATION_BATCHNORM_PEER_STATS_EXT @ 4 as "peer_stats_tensor_uid",
    }
}

impl Batchnorm {
    /// A training step without saved or running statistics. Tensors are named by uid.
    #[must_use]
    pub fn new(x: i64, scale: i64, bias: i64, epsilon: i64, y: i64) -> Self {
        Self { x, scale, bias, epsilon, y, ..Self::default() }
    }
}
