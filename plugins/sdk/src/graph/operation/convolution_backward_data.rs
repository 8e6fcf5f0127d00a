//! ConvolutionBackwardData.

operation! {
    /// The gradient of a convolution's input.
    ConvolutionBackwardData: "ConvolutionBwdAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_DATA_EXT,
        compute HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
        json parameters
    {
        /// The gradient of the output.
        dy: input = HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY @ 0,
        /// The filter [K, C/groups, …].
        w: input = HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W @ 1,
        /// The gradient of the input.
        dx: output = HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX @ 2,
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
