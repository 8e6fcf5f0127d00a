//! ConvolutionBackwardFilter.

operation! {
    /// The gradient of a convolution's filter.
    ConvolutionBackwardFilter: "ConvolutionWrwAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_WEIGHTS_EXT,
        compute HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
        json parameters
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X @ 0,
        /// The gradient of the output.
        dy: input = HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY @ 1,
        /// The gradient of the filter.
        dw: output = HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW @ 2,
        /// Elements of zero padding before each spatial dimension.
        pre_padding: ints = HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS @ 3,
        /// Elements of zero padding after each spatial dimension.
        post_padding: ints = HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS @ 4,
        /// Stride of the window along each spatial dimension.
        stride: ints = HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES @ 5,
        /// Spacing of filter elements along each spatial dimension.
        dilation: ints = HIPDNN_ATTR_CONVOLUTION_DILATIONS @ 6,
        /// Whether the filter is flipped.
        conv_mode: one_of(ConvMode) = HIPDNN_ATTR_CONVOLUTION_CONV_MODE @ 7,
    }
}
