//! ConvolutionForward.

operation! {
    /// Convolution of x [N, C, …] with w [K, C/groups, …] into y [N, K, …].
    ConvolutionForward: "ConvolutionFwdAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT,
        compute HIPDNN_ATTR_CONVOLUTION_COMP_TYPE,
        json parameters
    {
        /// The input.
        x: input = HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X @ 0,
        /// The filter [K, C/groups, …].
        w: input = HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W @ 1,
        /// The output.
        y: output = HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y @ 2,
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

impl ConvolutionForward {
    /// A convolution without padding, strides and dilation. Tensors are named by uid.
    #[must_use]
    pub fn new(x: i64, w: i64, y: i64, spatial: usize) -> Self {
        Self {
            x,
            w,
            y,
            pre_padding: vec![0; spatial],
            post_padding: vec![0; spatial],
            stride: vec![1; spatial],
            dilation: vec![1; spatial],
            conv_mode: crate::graph::ConvMode::CrossCorrelation,
        }
    }
}
