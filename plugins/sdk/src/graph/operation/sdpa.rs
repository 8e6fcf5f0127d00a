//! Sdpa.

operation! {
    /// Scaled dot product attention.
    Sdpa: "SdpaAttributes",
        descriptor HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
        operation HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT,
        compute HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT,
        json attributes
    {
        /// The queries [B, H, Sq, D].
        q: input = HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC @ 0,
        /// The keys [B, Hk, Skv, D].
        k: input = HIPDNN_ATTR_OPERATION_SDPA_FWD_KDESC @ 1,
        /// The values [B, Hv, Skv, Dv].
        v: input = HIPDNN_ATTR_OPERATION_SDPA_FWD_VDESC @ 2,
        /// The output [B, H, Sq, Dv].
        o: output = HIPDNN_ATTR_OPERATION_SDPA_FWD_ODESC @ 3,
        /// Added to the scores.
        attn_mask: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_ATTN_MASK_EXT @ 4,
        /// Scale of the scores.
        scale: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC @ 5,
        /// Length of each query sequence, int32.
        seq_len_q: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC @ 6,
        /// Length of each key and value sequence, int32.
        seq_len_kv: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC @ 7,
        /// The seed of dropout.
        seed: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SEED_EXT @ 8,
        /// The random number offset of dropout.
        offset: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_OFFSET_EXT @ 9,
        /// Which probabilities dropout keeps.
        dropout_mask: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_MASK_EXT @ 10,
        /// Multiplies the kept probabilities.
        dropout_scale: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SCALE_EXT @ 11,
        /// Block numbers of each sequence of keys.
        page_table_k: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC @ 12,
        /// Block numbers of each sequence of values.
        page_table_v: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC @ 13,
        /// Which blocks of scores are computed.
        block_mask: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC @ 14,
        /// The score of a sink: it joins the softmax but has no value.
        sink_token: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SINK_TOKEN_EXT @ 15,
        /// Multiplies the queries.
        descale_q: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_Q_EXT @ 16,
        /// Multiplies the keys.
        descale_k: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_K_EXT @ 17,
        /// Multiplies the values.
        descale_v: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_V_EXT @ 18,
        /// Multiplies the probabilities.
        descale_s: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_S_EXT @ 19,
        /// Multiplies the probabilities before they are rounded.
        scale_s: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_S_EXT @ 20,
        /// Multiplies the output before it is rounded.
        scale_o: optional_input = HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_O_EXT @ 21,
        /// The logarithm of each row's sum of exponentials.
        stats: optional_output = HIPDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC @ 22,
        /// The maximum of each row of scores.
        max: optional_output = HIPDNN_ATTR_OPERATION_SDPA_FWD_MAX_EXT @ 23,
        /// The sum of exponentials of each row.
        sum_exp: optional_output = HIPDNN_ATTR_OPERATION_SDPA_FWD_SUM_EXP_EXT @ 24,
        /// The random numbers of dropout.
        rng_dump: optional_output = HIPDNN_ATTR_OPERATION_SDPA_FWD_RNG_DUMP_EXT @ 25,
        /// The largest probability.
        amax_s: optional_output = HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_S_EXT @ 26,
        /// The largest magnitude of the output.
        amax_o: optional_output = HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_O_EXT @ 27,
        /// Whether the statistics are written.
        generate_stats: optional_flag = HIPDNN_ATTR_SDPA_FWD_GENERATE_STATS_EXT @ 28,
        /// Whether ALiBi adds a bias by distance to the scores.
        alibi_mask: flag = HIPDNN_ATTR_SDPA_FWD_ALIBI_MASK_EXT @ 29,
        /// Whether the sequence lengths apply.
        padding_mask: flag = HIPDNN_ATTR_SDPA_FWD_PADDING_MASK_EXT @ 30,
        /// Causal mask with the diagonal at the top left.
        causal_mask: flag = HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_EXT @ 31,
        /// Causal mask with the diagonal at the bottom right.
        causal_mask_bottom_right: flag = HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT @ 32,
        /// The probability of dropout.
        dropout_probability: float = HIPDNN_ATTR_SDPA_FWD_DROPOUT_PROBABILITY_EXT @ 33,
        /// Multiplies the scores.
        attn_scale_value: float = HIPDNN_ATTR_SDPA_FWD_ATTN_SCALE_VALUE_EXT @ 34,
        /// Number of visible keys before the diagonal.
        left_bound: optional_int = HIPDNN_ATTR_SDPA_FWD_LEFT_BOUND_EXT @ 35,
        /// Number of visible keys after the diagonal.
        right_bound: optional_int = HIPDNN_ATTR_SDPA_FWD_RIGHT_BOUND_EXT @ 36,
        /// Maximum length of a key sequence.
        max_seq_len_kv: optional_int32 = HIPDNN_ATTR_SDPA_FWD_MAX_SEQ_LEN_KV_EXT @ 37,
        /// Where the diagonal begins.
        diagonal_alignment: one_of(DiagonalAlignment) = HIPDNN_ATTR_SDPA_FWD_DIAGONAL_ALIGNMENT_EXT @ 38,
        /// Compute type of the matrix multiplications.
        mma_core_mode: one_of(DataType) = HIPDNN_ATTR_SDPA_FWD_MMA_CORE_MODE_EXT @ 39,
        /// How it is implemented.
        implementation: one_of(AttentionImplementation) = HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT @ 40,
    }
}

impl Sdpa {
    /// Attention with only its four tensors, which are named by uid.
    #[must_use]
    pub fn new(q: i64, k: i64, v: i64, o: i64) -> Self {
        Self { q, k, v, o, ..Self::default() }
    }
}
