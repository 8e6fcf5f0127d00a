//! ResampleForward.

operation! {
    /// Pooling: reduces windows over the spatial dimensions.
    ResampleForward: "ResampleFwdAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_RESAMPLE_FWD,
        compute HIPDNN_ATTR_RESAMPLE_COMP_TYPE,
        json flat
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC @ 0,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC @ 1,
        /// The index of each maximum.
        index: optional_output = HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC @ 2,
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
        /// Whether the index tensor is written.
        generate_index: optional_flag = HIPDNN_ATTR_RESAMPLE_GENERATE_INDEX_EXT @ 9,
    }
}
