//! BatchnormBackward.

operation! {
    /// The gradients of batch normalization in training.
    BatchnormBackward: "BatchnormBackwardAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT,
        compute HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT
    {
        /// The gradient of the output.
        dy: input = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DY_EXT @ 0,
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_X_EXT @ 1,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_SCALE_EXT @ 4,
        /// The gradient of the input.
        dx: output = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DX_EXT @ 6,
        /// The gradient of the scale.
        dscale: output = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT @ 7,
        /// The gradient of the bias.
        dbias: output = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT @ 8,
        /// The mean of each channel.
        mean: optional_input = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_MEAN_EXT @ 2,
        /// 1/√(variance + ε) of each channel.
        inv_variance: optional_input = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT @ 3,
        /// Statistics of other devices.
        peer_stats: inputs = HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_PEER_STATS_EXT @ 5 as "peer_stats_tensor_uid",
    }
}
