//! Reduction.

operation! {
    /// Combines elements along the dimensions in which the output has size 1.
    Reduction: "ReductionAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_REDUCTION_EXT,
        compute HIPDNN_ATTR_REDUCTION_COMP_TYPE,
        json flat
    {
        /// The input.
        in_: input = HIPDNN_ATTR_OPERATION_REDUCTION_XDESC @ 1,
        /// The output.
        out: output = HIPDNN_ATTR_OPERATION_REDUCTION_YDESC @ 2,
        /// How elements are combined.
        mode: one_of(ReductionMode) = HIPDNN_ATTR_REDUCTION_OPERATOR @ 0,
        /// Whether every run must produce the same bits.
        is_deterministic: flag = HIPDNN_ATTR_REDUCTION_IS_DETERMINISTIC @ 3,
    }
}
