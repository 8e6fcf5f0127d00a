//! SdpaBackward.

operation! {
    /// The gradients of scaled dot product attention.
    SdpaBackward: "SdpaBackwardAttributes", descriptor 30, operation 14, compute 3128, json parameters {
        /// The queries [B, H, Sq, D].
        q: input = 3100 @ 0,
        /// The keys [B, Hk, Skv, D].
        k: input = 3101 @ 1,
        /// The values [B, Hv, Skv, Dv].
        v: input = 3102 @ 2,
        /// The result [B, H, Sq, Dv].
        o: input = 3103 @ 3,
        /// The gradient of the result.
        do_: input = 3104 @ 4,
        /// The logarithm of each row's sum of exponentials.
        stats: input = 3105 @ 5,
        /// The gradient of the queries.
        dq: output = 3106 @ 6,
        /// The gradient of the keys.
        dk: output = 3107 @ 7,
        /// The gradient of the values.
        dv: output = 3108 @ 8,
        /// The factor.
        scale: optional_input = 3109 @ 9,
        /// What is added to the scores.
        attn_mask: optional_input = 3110 @ 10,
        /// The length of each sequence of queries, int32.
        seq_len_q: optional_input = 3111 @ 11,
        /// The length of each sequence of keys, int32.
        seq_len_kv: optional_input = 3112 @ 12,
        /// The seed of dropout.
        seed: optional_input = 3113 @ 13,
        /// The offset of dropout.
        offset: optional_input = 3114 @ 14,
        /// Which scores are kept.
        dropout_mask: optional_input = 3115 @ 15,
        /// What kept scores are multiplied by.
        dropout_scale: optional_input = 3116 @ 16,
        /// The inverse of the dropout scale.
        dropout_scale_inv: optional_input = 3117 @ 17,
        /// The gradient of the summand.
        dbias: optional_output = 3118 @ 18,
        /// Whether scores get a slope by distance.
        alibi_mask: flag = 3119 @ 19,
        /// Whether the sequence lengths count.
        padding_mask: flag = 3120 @ 20,
        /// Whether later keys are hidden, diagonal at the top left.
        causal_mask: flag = 3121 @ 21,
        /// Whether later keys are hidden, diagonal at the bottom right.
        causal_mask_bottom_right: flag = 3122 @ 22,
        /// The share of scores that is dropped.
        dropout_probability: float = 3123 @ 23,
        /// What the scores are multiplied by.
        attn_scale_value: float = 3124 @ 24,
        /// How many keys before the diagonal count.
        left_bound: optional_int = 3125 @ 25,
        /// How many keys after the diagonal count.
        right_bound: optional_int = 3126 @ 26,
        /// Where the diagonal begins.
        diagonal_alignment: one_of(DiagonalAlignment) = 3127 @ 27,
    }
}
