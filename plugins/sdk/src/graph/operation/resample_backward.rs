//! ResampleBackward.

operation! {
    /// The gradient of resampling.
    ResampleBackward: "ResampleBwdAttributes", descriptor 36, operation 21, compute 3407, json flat {
        /// The gradient of the result.
        dy: input = 3408 @ 0,
        /// The gradient of the input.
        dx: output = 3409 @ 1,
        /// Where each maximum came from.
        index: optional_input = 3410 @ 2,
        /// Elements of zero padding before each spatial dimension.
        pre_padding: ints = 3401 @ 3,
        /// Elements of zero padding after each spatial dimension.
        post_padding: ints = 3402 @ 4,
        /// Step of the window along each spatial dimension.
        stride: ints = 3403 @ 5,
        /// Extent of the window along each spatial dimension.
        window: ints = 3404 @ 6,
        /// How a window becomes one element.
        resample_mode: one_of(ResampleMode) = 3400 @ 7,
        /// What lies outside the input.
        padding_mode: one_of(PaddingMode) = 3405 @ 8,
    }
}
