//! ConvolutionBackwardData.

operation! {
    /// The gradient of a convolution's input.
    ConvolutionBackwardData: "ConvolutionBwdAttributes", descriptor 19, operation 2, compute 1500, json parameters {
        /// The gradient of the result.
        dy: input = 1700 @ 0,
        /// The filter [K, C/groups, …].
        w: input = 1701 @ 1,
        /// The gradient of the input.
        dx: output = 1702 @ 2,
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
