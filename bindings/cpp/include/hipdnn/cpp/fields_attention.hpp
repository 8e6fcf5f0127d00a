/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The tensors and plain attributes of operations, for attributes_*.hpp.
 *
 * Generated from plugins/sdk/src/graph/operation by `cargo xtask generate`.
 */
#pragma once

#include "operation.hpp"

namespace hipdnn
{
namespace detail
{

template <typename Derived>
class SdpaFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { Q, K, V, Bias, Attn_scale, SEQ_LEN_Q, SEQ_LEN_KV, Seed, Offset, Dropout_mask, Dropout_scale, Page_table_K, Page_table_V, Block_mask, SINK_TOKEN, Descale_Q, Descale_K, Descale_V, Descale_S, Scale_S, Scale_O };
    enum class OutputNames { O, Stats, Max, Sum_exp, RNG_DUMP, Amax_S, Amax_O };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 21> inputs;
    Slots<OutputNames, 7> outputs;
    HIPDNN_CPP_INPUT(Q, q)
    HIPDNN_CPP_INPUT(K, k)
    HIPDNN_CPP_INPUT(V, v)
    HIPDNN_CPP_OUTPUT(O, o)
    HIPDNN_CPP_INPUT(Bias, attn_mask)
    HIPDNN_CPP_INPUT(Bias, bias)
    HIPDNN_CPP_INPUT(Attn_scale, scale)
    HIPDNN_CPP_INPUT(Attn_scale, attn_scale)
    HIPDNN_CPP_INPUT(SEQ_LEN_Q, seq_len_q)
    HIPDNN_CPP_INPUT(SEQ_LEN_KV, seq_len_kv)
    HIPDNN_CPP_INPUT(Seed, seed)
    HIPDNN_CPP_INPUT(Offset, offset)
    HIPDNN_CPP_INPUT(Dropout_mask, dropout_mask)
    HIPDNN_CPP_INPUT(Dropout_scale, dropout_scale)
    HIPDNN_CPP_INPUT(Page_table_K, page_table_k)
    HIPDNN_CPP_INPUT(Page_table_K, paged_attention_k_table)
    HIPDNN_CPP_INPUT(Page_table_V, page_table_v)
    HIPDNN_CPP_INPUT(Page_table_V, paged_attention_v_table)
    HIPDNN_CPP_INPUT(Block_mask, block_mask)
    HIPDNN_CPP_INPUT(SINK_TOKEN, sink_token)
    HIPDNN_CPP_INPUT(Descale_Q, descale_q)
    HIPDNN_CPP_INPUT(Descale_K, descale_k)
    HIPDNN_CPP_INPUT(Descale_V, descale_v)
    HIPDNN_CPP_INPUT(Descale_S, descale_s)
    HIPDNN_CPP_INPUT(Scale_S, scale_s)
    HIPDNN_CPP_INPUT(Scale_O, scale_o)
    HIPDNN_CPP_OUTPUT(Stats, stats)
    HIPDNN_CPP_OUTPUT(Max, max)
    HIPDNN_CPP_OUTPUT(Max, logit_max)
    HIPDNN_CPP_OUTPUT(Sum_exp, sum_exp)
    HIPDNN_CPP_OUTPUT(Sum_exp, score_sum_exp)
    HIPDNN_CPP_OUTPUT(RNG_DUMP, rng_dump)
    HIPDNN_CPP_OUTPUT(Amax_S, amax_s)
    HIPDNN_CPP_OUTPUT(Amax_O, amax_o)
    /** Whether the statistics are written. */
    HIPDNN_CPP_OPTIONAL(bool, generate_stats)
    /** Whether ALiBi adds a bias by distance to the scores. */
    HIPDNN_CPP_FIELD(bool, alibi_mask, false)
    /** Whether the sequence lengths apply. */
    HIPDNN_CPP_FIELD(bool, padding_mask, false)
    /** Causal mask with the diagonal at the top left. */
    HIPDNN_CPP_FIELD(bool, causal_mask, false)
    /** Causal mask with the diagonal at the bottom right. */
    HIPDNN_CPP_FIELD(bool, causal_mask_bottom_right, false)
    /** The probability of dropout. */
    HIPDNN_CPP_OPTIONAL(float, dropout_probability)
    /** Multiplies the scores. 1 if neither it nor a tensor is set. */
    HIPDNN_CPP_OPTIONAL(float, attn_scale_value)
    /** Number of visible keys before the diagonal. */
    HIPDNN_CPP_OPTIONAL(int64_t, left_bound)
    /** Number of visible keys after the diagonal. */
    HIPDNN_CPP_OPTIONAL(int64_t, right_bound)
    /** Maximum length of a key sequence. */
    HIPDNN_CPP_OPTIONAL(int32_t, max_seq_len_kv)
    /** Where the diagonal begins. */
    HIPDNN_CPP_FIELD(DiagonalAlignment, diagonal_alignment, DiagonalAlignment())
    /** Compute type of the matrix multiplications. */
    HIPDNN_CPP_FIELD(DataType, mma_core_mode, DataType())
    /** How it is implemented. */
    HIPDNN_CPP_FIELD(AttentionImplementation, implementation, AttentionImplementation())

    OperationKind kind() const override
    {
        return {"sdpa", HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT, HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC, inputs[InputNames::Q], "q", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_KDESC, inputs[InputNames::K], "k", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_VDESC, inputs[InputNames::V], "v", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_ODESC, outputs[OutputNames::O], "o", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_ATTN_MASK_EXT, inputs[InputNames::Bias], "bias", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, inputs[InputNames::Attn_scale], "attn_scale", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, inputs[InputNames::SEQ_LEN_Q], "seq_len_q", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, inputs[InputNames::SEQ_LEN_KV], "seq_len_kv", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SEED_EXT, inputs[InputNames::Seed], "seed", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_OFFSET_EXT, inputs[InputNames::Offset], "offset", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_MASK_EXT, inputs[InputNames::Dropout_mask], "dropout_mask", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SCALE_EXT, inputs[InputNames::Dropout_scale], "dropout_scale", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC, inputs[InputNames::Page_table_K], "page_table_k", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC, inputs[InputNames::Page_table_V], "page_table_v", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC, inputs[InputNames::Block_mask], "block_mask", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SINK_TOKEN_EXT, inputs[InputNames::SINK_TOKEN], "sink_token", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_Q_EXT, inputs[InputNames::Descale_Q], "descale_q", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_K_EXT, inputs[InputNames::Descale_K], "descale_k", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_V_EXT, inputs[InputNames::Descale_V], "descale_v", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_S_EXT, inputs[InputNames::Descale_S], "descale_s", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_S_EXT, inputs[InputNames::Scale_S], "scale_s", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_O_EXT, inputs[InputNames::Scale_O], "scale_o", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, outputs[OutputNames::Stats], "stats", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_MAX_EXT, outputs[OutputNames::Max], "max", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_SUM_EXP_EXT, outputs[OutputNames::Sum_exp], "sum_exp", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_RNG_DUMP_EXT, outputs[OutputNames::RNG_DUMP], "rng_dump", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_S_EXT, outputs[OutputNames::Amax_S], "amax_s", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_O_EXT, outputs[OutputNames::Amax_O], "amax_o", Role::OptionalOutput);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_GENERATE_STATS_EXT, HIPDNN_TYPE_BOOLEAN, generate_stats);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_ALIBI_MASK_EXT, alibi_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_PADDING_MASK_EXT, padding_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_EXT, causal_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT, causal_mask_bottom_right);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_DROPOUT_PROBABILITY_EXT, HIPDNN_TYPE_FLOAT, dropout_probability);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_ATTN_SCALE_VALUE_EXT, HIPDNN_TYPE_FLOAT, attn_scale_value);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_LEFT_BOUND_EXT, HIPDNN_TYPE_INT64, left_bound);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_RIGHT_BOUND_EXT, HIPDNN_TYPE_INT64, right_bound);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_MAX_SEQ_LEN_KV_EXT, HIPDNN_TYPE_INT32, max_seq_len_kv);
        visit_mode(visitor, HIPDNN_ATTR_SDPA_FWD_DIAGONAL_ALIGNMENT_EXT, HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT, diagonal_alignment, false);
        visit_type(visitor, HIPDNN_ATTR_SDPA_FWD_MMA_CORE_MODE_EXT, mma_core_mode);
        visit_mode(visitor, HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT, HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT, implementation, false);
    }
};

template <typename Derived>
class SdpaBackwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { Q, K, V, O, dO, Stats, Attn_scale, Bias, SEQ_LEN_Q, SEQ_LEN_KV, Seed, Offset, Dropout_mask, Dropout_scale, Dropout_scale_inv };
    enum class OutputNames { dQ, dK, dV, dBias };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 15> inputs;
    Slots<OutputNames, 4> outputs;
    HIPDNN_CPP_INPUT(Q, q)
    HIPDNN_CPP_INPUT(K, k)
    HIPDNN_CPP_INPUT(V, v)
    HIPDNN_CPP_INPUT(O, o)
    HIPDNN_CPP_INPUT(dO, do)
    HIPDNN_CPP_INPUT(Stats, stats)
    HIPDNN_CPP_OUTPUT(dQ, dq)
    HIPDNN_CPP_OUTPUT(dK, dk)
    HIPDNN_CPP_OUTPUT(dV, dv)
    HIPDNN_CPP_INPUT(Attn_scale, scale)
    HIPDNN_CPP_INPUT(Attn_scale, attn_scale)
    HIPDNN_CPP_INPUT(Bias, attn_mask)
    HIPDNN_CPP_INPUT(Bias, bias)
    HIPDNN_CPP_INPUT(SEQ_LEN_Q, seq_len_q)
    HIPDNN_CPP_INPUT(SEQ_LEN_KV, seq_len_kv)
    HIPDNN_CPP_INPUT(Seed, seed)
    HIPDNN_CPP_INPUT(Offset, offset)
    HIPDNN_CPP_INPUT(Dropout_mask, dropout_mask)
    HIPDNN_CPP_INPUT(Dropout_scale, dropout_scale)
    HIPDNN_CPP_INPUT(Dropout_scale_inv, dropout_scale_inv)
    HIPDNN_CPP_OUTPUT(dBias, dbias)
    /** Whether ALiBi adds a bias by distance to the scores. */
    HIPDNN_CPP_FIELD(bool, alibi_mask, false)
    /** Whether the sequence lengths apply. */
    HIPDNN_CPP_FIELD(bool, padding_mask, false)
    /** Causal mask with the diagonal at the top left. */
    HIPDNN_CPP_FIELD(bool, causal_mask, false)
    /** Causal mask with the diagonal at the bottom right. */
    HIPDNN_CPP_FIELD(bool, causal_mask_bottom_right, false)
    /** The probability of dropout. */
    HIPDNN_CPP_OPTIONAL(float, dropout_probability)
    /** Multiplies the scores. 1 if neither it nor a tensor is set. */
    HIPDNN_CPP_OPTIONAL(float, attn_scale_value)
    /** Number of visible keys before the diagonal. */
    HIPDNN_CPP_OPTIONAL(int64_t, left_bound)
    /** Number of visible keys after the diagonal. */
    HIPDNN_CPP_OPTIONAL(int64_t, right_bound)
    /** Where the diagonal begins. */
    HIPDNN_CPP_FIELD(DiagonalAlignment, diagonal_alignment, DiagonalAlignment())

    OperationKind kind() const override
    {
        return {"sdpa_backward", HIPDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT, HIPDNN_ATTR_SDPA_BWD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_Q_EXT, inputs[InputNames::Q], "q", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_K_EXT, inputs[InputNames::K], "k", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_V_EXT, inputs[InputNames::V], "v", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_O_EXT, inputs[InputNames::O], "o", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DO_EXT, inputs[InputNames::dO], "dO", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_STATS_EXT, inputs[InputNames::Stats], "stats", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DQ_EXT, outputs[OutputNames::dQ], "dQ", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DK_EXT, outputs[OutputNames::dK], "dK", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DV_EXT, outputs[OutputNames::dV], "dV", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_SCALE_EXT, inputs[InputNames::Attn_scale], "attn_scale", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_ATTN_MASK_EXT, inputs[InputNames::Bias], "bias", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_Q_EXT, inputs[InputNames::SEQ_LEN_Q], "seq_len_q", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KV_EXT, inputs[InputNames::SEQ_LEN_KV], "seq_len_kv", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_SEED_EXT, inputs[InputNames::Seed], "seed", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_OFFSET_EXT, inputs[InputNames::Offset], "offset", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_MASK_EXT, inputs[InputNames::Dropout_mask], "dropout_mask", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_EXT, inputs[InputNames::Dropout_scale], "dropout_scale", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_INV_EXT, inputs[InputNames::Dropout_scale_inv], "dropout_scale_inv", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DBIAS_EXT, outputs[OutputNames::dBias], "dBias", Role::OptionalOutput);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_ALIBI_MASK_EXT, alibi_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_PADDING_MASK_EXT, padding_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_EXT, causal_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT, causal_mask_bottom_right);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_DROPOUT_PROBABILITY_EXT, HIPDNN_TYPE_FLOAT, dropout_probability);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_ATTN_SCALE_VALUE_EXT, HIPDNN_TYPE_FLOAT, attn_scale_value);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_LEFT_BOUND_EXT, HIPDNN_TYPE_INT64, left_bound);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_RIGHT_BOUND_EXT, HIPDNN_TYPE_INT64, right_bound);
        visit_mode(visitor, HIPDNN_ATTR_SDPA_BWD_DIAGONAL_ALIGNMENT_EXT, HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT, diagonal_alignment, false);
    }
};

} // namespace detail
} // namespace hipdnn
