//! ConvolutionBackwardFilter.

operation! {
    /// The gradient of a convolution's filter.
    ConvolutionBackwardFilter: "ConvolutionWrwAttributes", descriptor 16, operation 3, compute 1500, json parameters {
        /// The input.
        x: input = 1600 @ 0,
        /// The gradient of the result.
        dy: input = 1601 @ 1,
        /// The gradient of the filter.
        dw: output = 1602 @ 2,
        /// Elements of zero padding before each spatial dimension.
        pre_padding: ints = 1505 @ 3,
        /// Elements of zero padding after each spatial dimension.
        post_padding: ints = 1504 @ 4,
        /// Step of the window along each spatial dimension.
        stride: ints = 1503 @ 5,
        /// Distance between filter elements along each spatial dimension.
        dilation: ints = 1502 @ 6,
        /// Whether the filter is mirrored.
        conv_mode: one_of(ConvMode) = 1501 @ 7,
    }
}
