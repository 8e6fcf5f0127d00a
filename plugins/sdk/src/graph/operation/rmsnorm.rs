//! RmsNorm.

operation! {
    /// Normalization by the root mean square.
    RmsNorm: "RMSNormAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_RMSNORM_EXT,
        compute HIPDNN_ATTR_RMSNORM_COMP_TYPE_EXT,
        json sparse
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_RMSNORM_X_EXT @ 0,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_RMSNORM_SCALE_EXT @ 1,
        /// Added to the mean square, a scalar.
        epsilon: input = HIPDNN_ATTR_OPERATION_RMSNORM_EPSILON_EXT @ 2,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_RMSNORM_Y_EXT @ 3,
        /// The bias.
        bias: optional_input = HIPDNN_ATTR_OPERATION_RMSNORM_BIAS_EXT @ 4,
        /// 1/√(mean square + ε).
        inv_rms: optional_output = HIPDNN_ATTR_OPERATION_RMSNORM_INV_RMS_EXT @ 5,
        /// Whether the statistics are written.
        forward_phase: one_of(NormFwdPhase) = HIPDNN_ATTR_OPERATION_RMSNORM_FWD_PHASE_EXT @ 6 as unless_zero,
    }
}
