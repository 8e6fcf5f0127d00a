//! LayernormBackward.

operation! {
    /// The gradients of normalization over the last dimensions.
    LayernormBackward: "LayernormBackwardAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_LAYERNORM_BACKWARD_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_LAYERNORM_BACKWARD_EXT,
        compute HIPDNN_ATTR_LAYERNORM_BACKWARD_COMP_TYPE_EXT
    {
        /// The gradient of the output.
        dy: input = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DY_EXT @ 0,
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_X_EXT @ 1,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_SCALE_EXT @ 2,
        /// The mean of each row.
        mean: optional_input = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_MEAN_EXT @ 3,
        /// 1/√(variance + ε) of each row.
        inv_variance: optional_input = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_INV_VARIANCE_EXT @ 4,
        /// Added to the variance, a scalar.
        epsilon: optional_input = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_EPSILON_EXT @ 5 as "epsilon_uid",
        /// The gradient of the input.
        dx: output = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DX_EXT @ 6,
        /// The gradient of the scale.
        dscale: output = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DSCALE_EXT @ 7,
        /// The gradient of the bias.
        dbias: output = HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DBIAS_EXT @ 8,
        /// Number of trailing dimensions that are normalized.
        normalized_dim_count: int = HIPDNN_ATTR_LAYERNORM_BACKWARD_NORMALIZED_DIM_COUNT_EXT @ 9,
    }
}
