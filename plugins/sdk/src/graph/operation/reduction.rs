//! Reduction.

operation! {
    /// Elements along the dimensions where the result has 1 become one.
    Reduction: "ReductionAttributes", descriptor 31, operation 17, compute 3203, json flat {
        /// The input.
        in_: input = 3200 @ 1,
        /// The result.
        out: output = 3201 @ 2,
        /// How it is computed.
        mode: one_of(ReductionMode) = 3202 @ 0,
        /// Whether every run must give the same bits.
        is_deterministic: flag = 3204 @ 3,
    }
}
