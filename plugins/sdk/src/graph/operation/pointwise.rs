//! Pointwise.

operation! {
    /// An operation on each element, operands broadcast to the result's shape.
    Pointwise: "PointwiseAttributes", descriptor 18, operation 8, compute 2307, json inputs {
        /// The first operand; dy for the backward modes.
        in_0: input = 2200 @ 5,
        /// The result.
        out_0: output = 2201 @ 8,
        /// The second operand; the forward input for the backward modes.
        in_1: optional_input = 2202 @ 6,
        /// The third operand.
        in_2: optional_input = 2203 @ 7,
        /// The dimension of GEN_INDEX.
        axis: optional_int = 2308 @ 4 as "axis_tensor_uid",
        /// What is computed.
        operation: one_of(PointwiseMode) = 2300 @ 0,
        /// Where RELU begins, 0 by default.
        relu_lower_clip: float = 2301 @ 1,
        /// Where RELU ends, the largest finite value by default.
        relu_upper_clip: float = 2302 @ 2,
        /// The slope of RELU below its beginning, 0 by default.
        relu_lower_clip_slope: float = 2303 @ 3,
        /// β of SWISH, 1 by default.
        swish_beta: float = 2304 @ 9,
        /// α of ELU, 1 by default.
        elu_alpha: float = 2305 @ 10,
        /// β of SOFTPLUS, 1 by default.
        softplus_beta: float = 2306 @ 11,
    }
}

impl Pointwise {
    /// `operation` of one or two operands, its numbers those of the interface's defaults. Tensors are named by uid.
    #[must_use]
    pub fn new(operation: crate::graph::PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Self {
        Self {
            in_0,
            out_0,
            in_1,
            in_2: None,
            axis: None,
            operation,
            relu_lower_clip: None,
            relu_upper_clip: None,
            relu_lower_clip_slope: None,
            swish_beta: None,
            elu_alpha: None,
            softplus_beta: None,
        }
    }
}
