//! BlockScaleDequantize.

operation! {
    /// Values of a small type times the scale of their block.
    BlockScaleDequantize: "BlockScaleDequantizeAttributes", descriptor 28, operation 15, compute 2812 {
        /// The input.
        x: input = 2807 @ 0,
        /// The factor.
        scale: input = 2808 @ 1,
        /// The result.
        y: output = 2809 @ 2,
        /// Elements that share a scale.
        block_size: int32s = 2810 @ 3,
        /// Whether scales are negated exponents.
        is_negative_scale: flag = 2811 @ 4,
    }
}
