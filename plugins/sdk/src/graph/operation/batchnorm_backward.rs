//! BatchnormBackward.

operation! {
    /// The gradients of batch normalization in training.
    BatchnormBackward: "BatchnormBackwardAttributes", descriptor 20, operation 5, compute 2100 {
        /// The gradient of the result.
        dy: input = 2000 @ 0,
        /// The input.
        x: input = 2001 @ 1,
        /// The factor.
        scale: input = 2002 @ 4,
        /// The gradient of the input.
        dx: output = 2003 @ 6,
        /// The gradient of the factor.
        dscale: output = 2004 @ 7,
        /// The gradient of the summand.
        dbias: output = 2005 @ 8,
        /// The mean of each channel.
        mean: optional_input = 2006 @ 2,
        /// 1/√(variance + ε) of each channel.
        inv_variance: optional_input = 2007 @ 3,
        /// Statistics of other devices.
        peer_stats: inputs = 2101 @ 5 as "peer_stats_tensor_uid",
    }
}
