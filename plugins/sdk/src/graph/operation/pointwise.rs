//! Pointwise.

operation! {
    /// A function of each element; operands are broadcast to the output's shape.
    Pointwise: "PointwiseAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_POINTWISE_EXT,
        compute HIPDNN_ATTR_POINTWISE_MATH_PREC,
        json inputs
    {
        /// The first operand; dy for the backward modes.
        in_0: input = HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT @ 5,
        /// The output.
        out_0: output = HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT @ 8,
        /// The second operand; the forward input for the backward modes.
        in_1: optional_input = HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT @ 6,
        /// The third operand.
        in_2: optional_input = HIPDNN_ATTR_OPERATION_POINTWISE_IN_2_EXT @ 7,
        /// The dimension of GEN_INDEX.
        axis: optional_int = HIPDNN_ATTR_POINTWISE_AXIS @ 4 as "axis_tensor_uid",
        /// The function.
        operation: one_of(PointwiseMode) = HIPDNN_ATTR_POINTWISE_MODE @ 0,
        /// Lower bound of RELU, 0 by default.
        relu_lower_clip: float = HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP @ 1,
        /// Upper bound of RELU, the largest finite value by default.
        relu_upper_clip: float = HIPDNN_ATTR_POINTWISE_RELU_UPPER_CLIP @ 2,
        /// Slope of RELU below its lower bound, 0 by default.
        relu_lower_clip_slope: float = HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE @ 3,
        /// Beta of SWISH, 1 by default.
        swish_beta: float = HIPDNN_ATTR_POINTWISE_SWISH_BETA @ 9,
        /// Alpha of ELU, 1 by default.
        elu_alpha: float = HIPDNN_ATTR_POINTWISE_ELU_ALPHA @ 10,
        /// Beta of SOFTPLUS, 1 by default.
        softplus_beta: float = HIPDNN_ATTR_POINTWISE_SOFTPLUS_BETA @ 11,
    }
}

impl Pointwise {
    /// `operation` on one or two operands, with the default parameters. Tensors are named by uid.
    #[must_use]
    pub fn new(operation: crate::graph::PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Self {
        Self { in_0, out_0, in_1, operation, ..Self::default() }
    }
}
