//! SdpaBackward.

use crate::graph::operation::Sdpa;

operation! {
    /// The gradients of scaled dot product attention.
    SdpaBackward: "SdpaBackwardAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT,
        operation HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT,
        compute HIPDNN_ATTR_SDPA_BWD_COMP_TYPE_EXT,
        json parameters
    {
        /// The queries [B, H, Sq, D].
        q: input = HIPDNN_ATTR_OPERATION_SDPA_BWD_Q_EXT @ 0,
        /// The keys [B, Hk, Skv, D].
        k: input = HIPDNN_ATTR_OPERATION_SDPA_BWD_K_EXT @ 1,
        /// The values [B, Hv, Skv, Dv].
        v: input = HIPDNN_ATTR_OPERATION_SDPA_BWD_V_EXT @ 2,
        /// The output [B, H, Sq, Dv].
        o: input = HIPDNN_ATTR_OPERATION_SDPA_BWD_O_EXT @ 3,
        /// The gradient of the output.
        do_: input = HIPDNN_ATTR_OPERATION_SDPA_BWD_DO_EXT @ 4,
        /// The logarithm of each row's sum of exponentials.
        stats: input = HIPDNN_ATTR_OPERATION_SDPA_BWD_STATS_EXT @ 5,
        /// The gradient of the queries.
        dq: output = HIPDNN_ATTR_OPERATION_SDPA_BWD_DQ_EXT @ 6,
        /// The gradient of the keys.
        dk: output = HIPDNN_ATTR_OPERATION_SDPA_BWD_DK_EXT @ 7,
        /// The gradient of the values.
        dv: output = HIPDNN_ATTR_OPERATION_SDPA_BWD_DV_EXT @ 8,
        /// Scale of the scores.
        scale: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_SCALE_EXT @ 9,
        /// Added to the scores.
        attn_mask: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_ATTN_MASK_EXT @ 10,
        /// Length of each query sequence, int32.
        seq_len_q: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_Q_EXT @ 11,
        /// Length of each key and value sequence, int32.
        seq_len_kv: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KV_EXT @ 12,
        /// The seed of dropout.
        seed: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_SEED_EXT @ 13,
        /// The random number offset of dropout.
        offset: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_OFFSET_EXT @ 14,
        /// Which probabilities dropout keeps.
        dropout_mask: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_MASK_EXT @ 15,
        /// Multiplies the kept probabilities.
        dropout_scale: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_EXT @ 16,
        /// The inverse of the dropout scale.
        dropout_scale_inv: optional_input = HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_INV_EXT @ 17,
        /// The gradient of the additive mask.
        dbias: optional_output = HIPDNN_ATTR_OPERATION_SDPA_BWD_DBIAS_EXT @ 18,
        /// Whether ALiBi adds a bias by distance to the scores.
        alibi_mask: flag = HIPDNN_ATTR_SDPA_BWD_ALIBI_MASK_EXT @ 19,
        /// Whether the sequence lengths apply.
        padding_mask: flag = HIPDNN_ATTR_SDPA_BWD_PADDING_MASK_EXT @ 20,
        /// Causal mask with the diagonal at the top left.
        causal_mask: flag = HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_EXT @ 21,
        /// Causal mask with the diagonal at the bottom right.
        causal_mask_bottom_right: flag = HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT @ 22,
        /// The probability of dropout.
        dropout_probability: float = HIPDNN_ATTR_SDPA_BWD_DROPOUT_PROBABILITY_EXT @ 23,
        /// Multiplies the scores.
        attn_scale_value: float = HIPDNN_ATTR_SDPA_BWD_ATTN_SCALE_VALUE_EXT @ 24,
        /// Number of visible keys before the diagonal.
        left_bound: optional_int = HIPDNN_ATTR_SDPA_BWD_LEFT_BOUND_EXT @ 25,
        /// Number of visible keys after the diagonal.
        right_bound: optional_int = HIPDNN_ATTR_SDPA_BWD_RIGHT_BOUND_EXT @ 26,
        /// Where the diagonal begins.
        diagonal_alignment: one_of(DiagonalAlignment) = HIPDNN_ATTR_SDPA_BWD_DIAGONAL_ALIGNMENT_EXT @ 27,
    }
}

impl SdpaBackward {
    /// The gradients of attention without options: operands and results are named by uid.
    #[must_use]
    pub fn new([q, k, v, o, do_, stats]: [i64; 6], [dq, dk, dv]: [i64; 3]) -> Self {
        Self { q, k, v, o, do_, stats, dq, dk, dv, ..Self::default() }
    }

    /// The gradients of an attention with the same options.
    #[must_use]
    pub fn of(forward: &Sdpa, [do_, stats]: [i64; 2], results: [i64; 3]) -> Self {
        Self {
            scale: forward.scale,
            attn_mask: forward.attn_mask,
            seq_len_q: forward.seq_len_q,
            seq_len_kv: forward.seq_len_kv,
            seed: forward.seed,
            offset: forward.offset,
            dropout_mask: forward.dropout_mask,
            dropout_scale: forward.dropout_scale,
            alibi_mask: forward.alibi_mask,
            padding_mask: forward.padding_mask,
            causal_mask: forward.causal_mask,
            causal_mask_bottom_right: forward.causal_mask_bottom_right,
            dropout_probability: forward.dropout_probability,
            attn_scale_value: forward.attn_scale_value,
            left_bound: forward.left_bound,
            right_bound: forward.right_bound,
            diagonal_alignment: forward.diagonal_alignment,
            ..Self::new([forward.q, forward.k, forward.v, forward.o, do_, stats], results)
        }
    }
}
