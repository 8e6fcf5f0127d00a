//! ConvolutionForward.

operation! {
    /// Convolution of x [N, C, …] with w [K, C/groups, …] into y [N, K, …].
    ConvolutionForward: "ConvolutionFwdAttributes", descriptor 15, operation 1, compute 1500, json parameters {
        /// The input.
        x: input = 1401 @ 0,
        /// The filter [K, C/groups, …].
        w: input = 1400 @ 1,
        /// The result.
        y: output = 1402 @ 2,
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
