//! ResampleForward.

operation! {
    /// A window over the spatial dimensions becomes one element.
    ResampleForward: "ResampleFwdAttributes", descriptor 32, operation 18, compute 3407, json flat {
        /// The input.
        x: input = 3300 @ 0,
        /// The result.
        y: output = 3301 @ 1,
        /// Where each maximum came from.
        index: optional_output = 3302 @ 2,
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
        /// Whether the index tensor is written.
        generate_index: optional_flag = 3406 @ 9,
    }
}
