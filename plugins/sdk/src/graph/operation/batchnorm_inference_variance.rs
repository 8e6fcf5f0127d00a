//! BatchnormInferenceVariance.

operation! {
    /// Batch normalization with given statistics: y = scale · (x - mean) / √(variance + epsilon) + bias, by channel.
    BatchnormInferenceVariance: "BatchnormInferenceAttributesVarianceExt",
        descriptor HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT,
        compute HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT @ 0,
        /// The mean of each channel.
        mean: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT @ 1,
        /// The variance of each channel.
        variance: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT @ 2,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT @ 3,
        /// The bias.
        bias: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT @ 4,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT @ 5,
        /// Added to the variance, a scalar.
        epsilon: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT @ 6,
    }
}
