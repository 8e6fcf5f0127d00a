//! ResampleBackward.

operation! {
    /// The gradient of resampling.
    ResampleBackward: "ResampleBwdAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_RESAMPLE_BWD_EXT,
        compute HIPDNN_ATTR_RESAMPLE_COMP_TYPE,
        json flat
    {
        /// The gradient of the output.
        dy: input = HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC @ 0,
        /// The gradient of the input.
        dx: output = HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC @ 1,
        /// The index of each maximum.
        index: optional_input = HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC @ 2,
        /// Elements of zero padding before each spatial dimension.
        pre_padding: ints = HIPDNN_ATTR_RESAMPLE_PRE_PADDINGS @ 3,
        /// Elements of zero padding after each spatial dimension.
        post_padding: ints = HIPDNN_ATTR_RESAMPLE_POST_PADDINGS @ 4,
        /// Stride of the window along each spatial dimension.
        stride: ints = HIPDNN_ATTR_RESAMPLE_STRIDES @ 5,
        /// Size of the window along each spatial dimension.
        window: ints = HIPDNN_ATTR_RESAMPLE_WINDOW_DIMS @ 6,
        /// How a window is reduced.
        resample_mode: one_of(ResampleMode) = HIPDNN_ATTR_RESAMPLE_MODE @ 7,
        /// The value of padding.
        padding_mode: one_of(PaddingMode) = HIPDNN_ATTR_RESAMPLE_PADDING_MODE @ 8,
    }
}
