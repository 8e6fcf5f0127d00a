//! BatchnormInference.

operation! {
    /// Batch normalization with given statistics: y = scale · (x - mean) · inv_variance + bias, by channel.
    BatchnormInference: "BatchnormInferenceAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT,
        compute HIPDNN_ATTR_BATCHNORM_INF_COMP_TYPE_EXT
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_X_EXT @ 0,
        /// The mean of each channel.
        mean: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_MEAN_EXT @ 1,
        /// 1/√(variance + ε) of each channel.
        inv_variance: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_INV_VARIANCE_EXT @ 2,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_SCALE_EXT @ 3,
        /// The bias.
        bias: input = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_BIAS_EXT @ 4,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_Y_EXT @ 5,
    }
}
