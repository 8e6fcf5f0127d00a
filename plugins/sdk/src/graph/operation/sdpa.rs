//! Sdpa.

operation! {
    /// Scaled dot product attention.
    Sdpa: "SdpaAttributes", descriptor 24, operation 12, compute 2641, json attributes {
        /// The queries [B, H, Sq, D].
        q: input = 2600 @ 0,
        /// The keys [B, Hk, Skv, D].
        k: input = 2601 @ 1,
        /// The values [B, Hv, Skv, Dv].
        v: input = 2602 @ 2,
        /// The result [B, H, Sq, Dv].
        o: output = 2603 @ 3,
        /// What is added to the scores.
        attn_mask: optional_input = 2604 @ 4,
        /// The factor.
        scale: optional_input = 2605 @ 5,
        /// The length of each sequence of queries, int32.
        seq_len_q: optional_input = 2606 @ 6,
        /// The length of each sequence of keys, int32.
        seq_len_kv: optional_input = 2607 @ 7,
        /// The seed of dropout.
        seed: optional_input = 2608 @ 8,
        /// The offset of dropout.
        offset: optional_input = 2609 @ 9,
        /// Which scores are kept.
        dropout_mask: optional_input = 2610 @ 10,
        /// What kept scores are multiplied by.
        dropout_scale: optional_input = 2611 @ 11,
        /// The blocks of each sequence of keys.
        page_table_k: optional_input = 2612 @ 12,
        /// The blocks of each sequence of values.
        page_table_v: optional_input = 2613 @ 13,
        /// Which blocks of scores are computed.
        block_mask: optional_input = 2614 @ 14,
        /// The score of a token that takes attention and gives nothing.
        sink_token: optional_input = 2615 @ 15,
        /// What the queries are multiplied by.
        descale_q: optional_input = 2616 @ 16,
        /// What the keys are multiplied by.
        descale_k: optional_input = 2617 @ 17,
        /// What the values are multiplied by.
        descale_v: optional_input = 2618 @ 18,
        /// What the probabilities are multiplied by.
        descale_s: optional_input = 2619 @ 19,
        /// What the probabilities are multiplied by before they are rounded.
        scale_s: optional_input = 2620 @ 20,
        /// What the result is multiplied by before it is rounded.
        scale_o: optional_input = 2621 @ 21,
        /// The logarithm of each row's sum of exponentials.
        stats: optional_output = 2622 @ 22,
        /// The maximum of each row of scores.
        max: optional_output = 2623 @ 23,
        /// The sum of exponentials of each row.
        sum_exp: optional_output = 2624 @ 24,
        /// The random numbers of dropout.
        rng_dump: optional_output = 2625 @ 25,
        /// The largest probability.
        amax_s: optional_output = 2626 @ 26,
        /// The largest magnitude of the result.
        amax_o: optional_output = 2627 @ 27,
        /// Whether the statistics are written.
        generate_stats: optional_flag = 2628 @ 28,
        /// Whether scores get a slope by distance.
        alibi_mask: flag = 2629 @ 29,
        /// Whether the sequence lengths count.
        padding_mask: flag = 2630 @ 30,
        /// Whether later keys are hidden, diagonal at the top left.
        causal_mask: flag = 2631 @ 31,
        /// Whether later keys are hidden, diagonal at the bottom right.
        causal_mask_bottom_right: flag = 2632 @ 32,
        /// The share of scores that is dropped.
        dropout_probability: float = 2633 @ 33,
        /// What the scores are multiplied by.
        attn_scale_value: float = 2634 @ 34,
        /// How many keys before the diagonal count.
        left_bound: optional_int = 2635 @ 35,
        /// How many keys after the diagonal count.
        right_bound: optional_int = 2636 @ 36,
        /// The longest sequence of keys.
        max_seq_len_kv: optional_int32 = 2637 @ 37,
        /// Where the diagonal begins.
        diagonal_alignment: one_of(DiagonalAlignment) = 2638 @ 38,
        /// The type of the matrix products.
        mma_core_mode: one_of(DataType) = 2639 @ 39,
        /// How it is to be computed.
        implementation: one_of(AttentionImplementation) = 2640 @ 40,
    }
}

impl Sdpa {
    /// An attention with nothing but its four tensors, which are named by uid.
    #[must_use]
    pub fn new(q: i64, k: i64, v: i64, o: i64) -> Self {
        Self {
            q,
            k,
            v,
            o,
            attn_mask: None,
            scale: None,
            seq_len_q: None,
            seq_len_kv: None,
            seed: None,
            offset: None,
            dropout_mask: None,
            dropout_scale: None,
            page_table_k: None,
            page_table_v: None,
            block_mask: None,
            sink_token: None,
            descale_q: None,
            descale_k: None,
            descale_v: None,
            descale_s: None,
            scale_s: None,
            scale_o: None,
            stats: None,
            max: None,
            sum_exp: None,
            rng_dump: None,
            amax_s: None,
            amax_o: None,
            generate_stats: None,
            alibi_mask: false,
            padding_mask: false,
            causal_mask: false,
            causal_mask_bottom_right: false,
            dropout_probability: None,
            attn_scale_value: None,
            left_bound: None,
            right_bound: None,
            max_seq_len_kv: None,
            diagonal_alignment: crate::graph::DiagonalAlignment::TopLeft,
            mma_core_mode: crate::graph::DataType::Unset,
            implementation: crate::graph::AttentionImplementation::Auto,
        }
    }
}
