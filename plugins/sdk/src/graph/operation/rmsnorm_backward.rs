//! RmsNormBackward.

operation! {
    /// The gradients of normalization by the root mean square.
    RmsNormBackward: "RMSNormBackwardAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT,
        compute HIPDNN_ATTR_RMSNORM_BACKWARD_COMP_TYPE_EXT,
        json sparse
    {
        /// The gradient of the output.
        dy: input = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DY_EXT @ 0,
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_X_EXT @ 1,
        /// The scale.
        scale: input = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_SCALE_EXT @ 2,
        /// 1/√(mean square + ε).
        inv_rms: optional_input = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_INV_RMS_EXT @ 3,
        /// The gradient of the input.
        dx: output = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DX_EXT @ 4,
        /// The gradient of the scale.
        dscale: output = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DSCALE_EXT @ 5,
        /// The gradient of the bias.
        dbias: optional_output = HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DBIAS_EXT @ 6,
    }
}
