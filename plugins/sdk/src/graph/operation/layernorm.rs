//! Layernorm.

operation! {
    /// Normalization over the last dimensions.
    Layernorm: "LayernormAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_LAYERNORM_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_LAYERNORM_EXT,
        compute HIPDNN_ATTR_LAYERNORM_COMP_TYPE_EXT
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_LAYERNORM_X_EXT @ 0,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_LAYERNORM_SCALE_EXT @ 1,
        /// The bias.
        bias: input = HIPDNN_ATTR_OPERATION_LAYERNORM_BIAS_EXT @ 2,
        /// Added to the variance, a scalar.
        epsilon: input = HIPDNN_ATTR_OPERATION_LAYERNORM_EPSILON_EXT @ 3,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_LAYERNORM_Y_EXT @ 4,
        /// The mean of each row.
        mean: optional_output = HIPDNN_ATTR_OPERATION_LAYERNORM_MEAN_EXT @ 6,
        /// 1/√(variance + ε) of each row.
        inv_variance: optional_output = HIPDNN_ATTR_OPERATION_LAYERNORM_INV_VARIANCE_EXT @ 7,
        /// Whether the statistics are written.
        forward_phase: one_of(NormFwdPhase) = HIPDNN_ATTR_OPERATION_LAYERNORM_FWD_PHASE_EXT @ 8 as number,
        /// Number of trailing dimensions that are normalized.
        normalized_dim_count: int = HIPDNN_ATTR_OPERATION_LAYERNORM_NORMALIZED_DIM_COUNT_EXT @ 5,
    }
}
