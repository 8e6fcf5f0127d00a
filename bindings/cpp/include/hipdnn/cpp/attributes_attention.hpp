/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Scaled dot-product attention and its gradient.
 *
 * q [B, Hq, Sq, D], k [B, Hk, Skv, D], v [B, Hk, Skv, Dv], o [B, Hq, Sq, Dv]; Hq is a multiple of Hk. Statistics are [B, Hq, Sq, 1].
 * Sequence lengths are [B, 1, 1, 1], INT32. A mask is added to the scores and broadcasts.
 */
#pragma once

#include "operation.hpp"

namespace hipdnn
{
namespace detail
{

/** What both directions of attention share. */
template <typename Self>
class AttentionAttributes : public Attributes<Self>
{
public:
    bool alibi_mask = false;
    bool padding_mask = false;
    bool causal_mask = false;
    bool causal_mask_bottom_right = false;
    std::optional<float> dropout_probability;
    std::optional<float> attn_scale_value;
    std::optional<int64_t> left_bound, right_bound;
    DiagonalAlignment diagonal_alignment = DiagonalAlignment::TOP_LEFT;

    Self& set_alibi_mask(bool value) { return alibi_mask = value, self(); }
    /** Whether sequences end at seq_len_q and seq_len_kv. */
    Self& set_padding_mask(bool value) { return padding_mask = value, self(); }
    /** Whether a query only sees keys up to its own position. */
    Self& set_causal_mask(bool value) { return causal_mask = value, self(); }
    Self& set_causal_mask_bottom_right(bool value) { return causal_mask_bottom_right = value, self(); }
    /** The factor of the scores; 1 if neither a value nor a tensor is set. */
    Self& set_attn_scale_value(float value) { return attn_scale_value = value, self(); }
    Self& set_attn_scale(float value) { return set_attn_scale_value(value); }
    /** The number of keys before the diagonal that a query sees, besides the one on it. */
    Self& set_diagonal_band_left_bound(int64_t value) { return left_bound = value, self(); }
    Self& set_sliding_window_length(int64_t value) { return set_diagonal_band_left_bound(value); }
    Self& set_diagonal_band_right_bound(int64_t value) { return right_bound = value, self(); }
    Self& set_diagonal_alignment(DiagonalAlignment value) { return diagonal_alignment = value, self(); }

    /** A requested feature that hipDNN lacks; the graph is rejected with it. */
    Self& refuse(const char* reason) { return _refused = reason, self(); }

protected:
    Error check_attention(const TensorPtr& q_tensor, const TensorPtr& k_tensor, const TensorPtr& v_tensor,
                          const TensorPtr& mask) const
    {
        if (_refused != nullptr)
        {
            return this->unsupported(_refused);
        }
        const Dims &q = q_tensor->get_dim(), &k = k_tensor->get_dim(), &v = v_tensor->get_dim();
        if (q.size() != 4 || k.size() != 4 || v.size() != 4)
        {
            return this->wrong({"q, k and v have shapes ", q, ", ", k, " and ", v, ", expected 4 dimensions each"});
        }
        if (k[1] < 1 || v[1] < 1 || q[1] % k[1] != 0 || q[1] % v[1] != 0)
        {
            return this->wrong({"q has ", q[1], " heads, k ", k[1], " and v ", v[1], ", expected multiples"});
        }
        if (q[3] != k[3])
        {
            return this->wrong({"a head has ", q[3], " elements in q and ", k[3], " in k"});
        }
        if (mask != nullptr && mask->get_dim().size() > 4)
        {
            return this->wrong({"the mask has shape ", mask->get_dim(), ", expected at most 4 dimensions"});
        }
        return {};
    }

private:
    const char* _refused = nullptr;

    Self& self() { return static_cast<Self&>(*this); }
};

/** Attention; adapters derive their own class if setters mean more than here. */
template <typename Derived>
class SdpaForward : public AttentionAttributes<Derived>
{
    using Self = Derived;

public:
    enum class InputNames {
        Q,
        K,
        V,
        Attn_scale,
        Bias,
        SEQ_LEN_Q,
        SEQ_LEN_KV,
        Seed,
        Offset,
        Dropout_mask,
        Dropout_scale,
        Page_table_K,
        Page_table_V,
        Block_mask,
        Descale_Q,
        Descale_K,
        Descale_V,
        Descale_S,
        Scale_S,
        Scale_O,
        SINK_TOKEN
    };
    enum class OutputNames { O, Stats, Max, Sum_exp, RNG_DUMP, Amax_S, Amax_O };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 21> inputs;
    Slots<OutputNames, 7> outputs;
    std::optional<bool> generate_stats;
    std::optional<int32_t> max_seq_len_kv;
    DataType mma_core_mode = DataType::NOT_SET;
    AttentionImplementation implementation = AttentionImplementation::AUTO;

#define HIPDNN_CPP_SDPA_INPUT(key, word)                                          \
    TensorPtr get_##word() const { return inputs[InputNames::key]; }              \
    Self &set_##word(TensorPtr tensor)                                            \
    {                                                                             \
        inputs[InputNames::key] = std::move(tensor);                              \
        return static_cast<Self &>(*this);                                        \
    }
#define HIPDNN_CPP_SDPA_OUTPUT(key, word)                                         \
    TensorPtr get_##word() const { return outputs[OutputNames::key]; }            \
    Self &set_##word(TensorPtr tensor)                                            \
    {                                                                             \
        outputs[OutputNames::key] = std::move(tensor);                            \
        return static_cast<Self &>(*this);                                        \
    }
    HIPDNN_CPP_SDPA_INPUT(Q, q)
    HIPDNN_CPP_SDPA_INPUT(K, k)
    HIPDNN_CPP_SDPA_INPUT(V, v)
    using AttentionAttributes<Derived>::set_attn_scale;
    HIPDNN_CPP_SDPA_INPUT(Attn_scale, attn_scale)
    HIPDNN_CPP_SDPA_INPUT(Attn_scale, scale)
    HIPDNN_CPP_SDPA_INPUT(Bias, bias)
    HIPDNN_CPP_SDPA_INPUT(Bias, attn_mask)
    HIPDNN_CPP_SDPA_INPUT(SEQ_LEN_Q, seq_len_q)
    HIPDNN_CPP_SDPA_INPUT(SEQ_LEN_KV, seq_len_kv)
    HIPDNN_CPP_SDPA_INPUT(Seed, seed)
    HIPDNN_CPP_SDPA_INPUT(Offset, offset)
    HIPDNN_CPP_SDPA_INPUT(Dropout_mask, dropout_mask)
    HIPDNN_CPP_SDPA_INPUT(Dropout_scale, dropout_scale)
    HIPDNN_CPP_SDPA_INPUT(Page_table_K, page_table_k)
    HIPDNN_CPP_SDPA_INPUT(Page_table_K, paged_attention_k_table)
    HIPDNN_CPP_SDPA_INPUT(Page_table_V, page_table_v)
    HIPDNN_CPP_SDPA_INPUT(Page_table_V, paged_attention_v_table)
    HIPDNN_CPP_SDPA_INPUT(Block_mask, block_mask)
    HIPDNN_CPP_SDPA_INPUT(SINK_TOKEN, sink_token)
    HIPDNN_CPP_SDPA_INPUT(Descale_Q, descale_q)
    HIPDNN_CPP_SDPA_INPUT(Descale_K, descale_k)
    HIPDNN_CPP_SDPA_INPUT(Descale_V, descale_v)
    HIPDNN_CPP_SDPA_INPUT(Descale_S, descale_s)
    HIPDNN_CPP_SDPA_INPUT(Scale_S, scale_s)
    HIPDNN_CPP_SDPA_INPUT(Scale_O, scale_o)
    HIPDNN_CPP_SDPA_OUTPUT(O, o)
    HIPDNN_CPP_SDPA_OUTPUT(Stats, stats)
    HIPDNN_CPP_SDPA_OUTPUT(Max, max)
    HIPDNN_CPP_SDPA_OUTPUT(Max, logit_max)
    HIPDNN_CPP_SDPA_OUTPUT(Sum_exp, sum_exp)
    HIPDNN_CPP_SDPA_OUTPUT(Sum_exp, score_sum_exp)
    HIPDNN_CPP_SDPA_OUTPUT(RNG_DUMP, rng_dump)
    HIPDNN_CPP_SDPA_OUTPUT(Amax_S, amax_s)
    HIPDNN_CPP_SDPA_OUTPUT(Amax_O, amax_o)

    /** Whether to return the statistics that the gradient needs. */
    Self& set_generate_stats(bool value) { return generate_stats = value, static_cast<Self&>(*this); }
    Self& set_is_inference(bool value) { return set_generate_stats(!value); }
    /** Drops elements with a probability, by Philox random numbers from a seed and an offset (INT64, one element each). */
    Self& set_dropout(float probability, TensorPtr seed, TensorPtr offset)
    {
        this->dropout_probability = probability;
        return set_seed(std::move(seed)).set_offset(std::move(offset));
    }
    /** Alternatively multiplies by a mask and a scale of one element; programs give them in either order. */
    Self& set_dropout(TensorPtr mask, TensorPtr scale)
    {
        if (mask != nullptr && scale != nullptr && mask->get_volume() == 1 && scale->get_volume() != 1)
        {
            std::swap(mask, scale);
        }
        return set_dropout_mask(std::move(mask)).set_dropout_scale(std::move(scale));
    }
    Self& set_paged_attention_max_seq_len_kv(int32_t value)
    {
        return max_seq_len_kv = value, static_cast<Self&>(*this);
    }
    Self& set_mma_core_mode(DataType value) { return mma_core_mode = value, static_cast<Self&>(*this); }
    Self& set_implementation(AttentionImplementation value)
    {
        return implementation = value, static_cast<Self&>(*this);
    }

    OperationKind kind() const override
    {
        return {"sdpa", HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT,
                HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        const auto input = [&](hipdnnBackendAttributeName_t name, InputNames key, const char* word, Role role) {
            visitor.tensor(name, inputs[key], word, role);
        };
        const auto output = [&](hipdnnBackendAttributeName_t name, OutputNames key, const char* word, Role role) {
            visitor.tensor(name, outputs[key], word, role);
        };
        input(HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC, InputNames::Q, "q", Role::Input);
        input(HIPDNN_ATTR_OPERATION_SDPA_FWD_KDESC, InputNames::K, "k", Role::Input);
        input(HIPDNN_ATTR_OPERATION_SDPA_FWD_VDESC, InputNames::V, "v", Role::Input);
        output(HIPDNN_ATTR_OPERATION_SDPA_FWD_ODESC, OutputNames::O, "o", Role::Output);
        const std::pair<hipdnnBackendAttributeName_t, InputNames> read[] = {
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_ATTN_MASK_EXT, InputNames::Bias},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, InputNames::Attn_scale},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, InputNames::SEQ_LEN_Q},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, InputNames::SEQ_LEN_KV},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SEED_EXT, InputNames::Seed},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_OFFSET_EXT, InputNames::Offset},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_MASK_EXT, InputNames::Dropout_mask},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SCALE_EXT, InputNames::Dropout_scale},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC, InputNames::Page_table_K},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC, InputNames::Page_table_V},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC, InputNames::Block_mask},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SINK_TOKEN_EXT, InputNames::SINK_TOKEN},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_Q_EXT, InputNames::Descale_Q},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_K_EXT, InputNames::Descale_K},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_V_EXT, InputNames::Descale_V},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_S_EXT, InputNames::Descale_S},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_S_EXT, InputNames::Scale_S},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_O_EXT, InputNames::Scale_O}};
        for (const auto& one : read)
        {
            input(one.first, one.second, "an optional input", Role::OptionalInput);
        }
        const std::pair<hipdnnBackendAttributeName_t, OutputNames> written[] = {
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, OutputNames::Stats},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_MAX_EXT, OutputNames::Max},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_SUM_EXP_EXT, OutputNames::Sum_exp},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_RNG_DUMP_EXT, OutputNames::RNG_DUMP},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_S_EXT, OutputNames::Amax_S},
            {HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_O_EXT, OutputNames::Amax_O}};
        for (const auto& one : written)
        {
            output(one.first, one.second, "an optional output", Role::OptionalOutput);
        }
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_GENERATE_STATS_EXT, HIPDNN_TYPE_BOOLEAN, generate_stats);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_ALIBI_MASK_EXT, this->alibi_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_PADDING_MASK_EXT, this->padding_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_EXT, this->causal_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT, this->causal_mask_bottom_right);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_DROPOUT_PROBABILITY_EXT, HIPDNN_TYPE_FLOAT,
                    this->dropout_probability);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_ATTN_SCALE_VALUE_EXT, HIPDNN_TYPE_FLOAT, this->attn_scale_value);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_LEFT_BOUND_EXT, HIPDNN_TYPE_INT64, this->left_bound);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_RIGHT_BOUND_EXT, HIPDNN_TYPE_INT64, this->right_bound);
        visit_value(visitor, HIPDNN_ATTR_SDPA_FWD_MAX_SEQ_LEN_KV_EXT, HIPDNN_TYPE_INT32, max_seq_len_kv);
        visit_mode(visitor, HIPDNN_ATTR_SDPA_FWD_DIAGONAL_ALIGNMENT_EXT, HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT,
                   this->diagonal_alignment, false);
        visit_type(visitor, HIPDNN_ATTR_SDPA_FWD_MMA_CORE_MODE_EXT, mma_core_mode);
        visit_mode(visitor, HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT, HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT,
                   implementation, false);
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(this->check_attention(get_q(), get_k(), get_v(), get_bias()));
        const Dims& q = get_q()->get_dim();
        const Dims o = {q[0], q[1], q[2], get_v()->get_dim()[3]};
        HIPDNN_CPP_TRY(this->check_same("o", get_o(), o));
        fill_packed(get_o(), o);
        for (const TensorPtr& tensor : {get_stats(), get_max(), get_sum_exp()})
        {
            if (tensor != nullptr)
            {
                fill_packed(tensor, {q[0], q[1], q[2], 1});
            }
        }
        for (const TensorPtr& tensor : {get_amax_s(), get_amax_o()})
        {
            if (tensor != nullptr)
            {
                fill_packed(tensor, {1, 1, 1, 1});
            }
        }
        return {};
    }
};

/** Gradient of attention; adapters derive their own class if setters mean more than here. */
template <typename Derived>
class SdpaBackward : public AttentionAttributes<Derived>
{
    using Self = Derived;

public:
    enum class InputNames {
        Q,
        K,
        V,
        O,
        dO,
        Stats,
        Attn_scale,
        Bias,
        SEQ_LEN_Q,
        SEQ_LEN_KV,
        Seed,
        Offset,
        Dropout_mask,
        Dropout_scale,
        Dropout_scale_inv
    };
    enum class OutputNames { dQ, dK, dV, dBias };
    using input_names = InputNames;
    using output_names = OutputNames;
    /** Whether gradients without strides have their operands' layout, and are not packed. */
    static constexpr bool lies_as_operand = false;
    Slots<InputNames, 15> inputs;
    Slots<OutputNames, 4> outputs;

    HIPDNN_CPP_SDPA_INPUT(Q, q)
    HIPDNN_CPP_SDPA_INPUT(K, k)
    HIPDNN_CPP_SDPA_INPUT(V, v)
    HIPDNN_CPP_SDPA_INPUT(O, o)
    HIPDNN_CPP_SDPA_INPUT(dO, do)
    HIPDNN_CPP_SDPA_INPUT(Stats, stats)
    using AttentionAttributes<Derived>::set_attn_scale;
    HIPDNN_CPP_SDPA_INPUT(Attn_scale, attn_scale)
    HIPDNN_CPP_SDPA_INPUT(Attn_scale, scale)
    HIPDNN_CPP_SDPA_INPUT(Bias, bias)
    HIPDNN_CPP_SDPA_INPUT(Bias, attn_mask)
    HIPDNN_CPP_SDPA_INPUT(SEQ_LEN_Q, seq_len_q)
    HIPDNN_CPP_SDPA_INPUT(SEQ_LEN_KV, seq_len_kv)
    HIPDNN_CPP_SDPA_INPUT(Seed, seed)
    HIPDNN_CPP_SDPA_INPUT(Offset, offset)
    HIPDNN_CPP_SDPA_INPUT(Dropout_mask, dropout_mask)
    HIPDNN_CPP_SDPA_INPUT(Dropout_scale, dropout_scale)
    HIPDNN_CPP_SDPA_INPUT(Dropout_scale_inv, dropout_scale_inv)
    HIPDNN_CPP_SDPA_OUTPUT(dQ, dq)
    HIPDNN_CPP_SDPA_OUTPUT(dK, dk)
    HIPDNN_CPP_SDPA_OUTPUT(dV, dv)
    HIPDNN_CPP_SDPA_OUTPUT(dBias, dbias)
#undef HIPDNN_CPP_SDPA_INPUT
#undef HIPDNN_CPP_SDPA_OUTPUT

    Self& set_dropout(float probability, TensorPtr seed, TensorPtr offset)
    {
        this->dropout_probability = probability;
        return set_seed(std::move(seed)).set_offset(std::move(offset));
    }
    Self& set_dropout(TensorPtr mask, TensorPtr scale, TensorPtr scale_inv)
    {
        return set_dropout_mask(std::move(mask))
            .set_dropout_scale(std::move(scale))
            .set_dropout_scale_inv(std::move(scale_inv));
    }
    /** No effect: the engines' results do not depend on the order of threads. */
    Self& set_deterministic_algorithm(bool) { return static_cast<Self&>(*this); }

    OperationKind kind() const override
    {
        return {"sdpa_backward", HIPDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT,
                HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT, HIPDNN_ATTR_SDPA_BWD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        const std::tuple<hipdnnBackendAttributeName_t, InputNames, const char*> read[] = {
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_Q_EXT, InputNames::Q, "q"},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_K_EXT, InputNames::K, "k"},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_V_EXT, InputNames::V, "v"},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_O_EXT, InputNames::O, "o"},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_DO_EXT, InputNames::dO, "dO"},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_STATS_EXT, InputNames::Stats, "stats"},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_SCALE_EXT, InputNames::Attn_scale, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_ATTN_MASK_EXT, InputNames::Bias, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_Q_EXT, InputNames::SEQ_LEN_Q, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KV_EXT, InputNames::SEQ_LEN_KV, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_SEED_EXT, InputNames::Seed, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_OFFSET_EXT, InputNames::Offset, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_MASK_EXT, InputNames::Dropout_mask, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_EXT, InputNames::Dropout_scale, ""},
            {HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_INV_EXT, InputNames::Dropout_scale_inv, ""}};
        for (const auto& one : read)
        {
            const char* word = std::get<2>(one);
            visitor.tensor(std::get<0>(one), inputs[std::get<1>(one)], word,
                           *word != '\0' ? Role::Input : Role::OptionalInput);
        }
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DQ_EXT, outputs[OutputNames::dQ], "dQ", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DK_EXT, outputs[OutputNames::dK], "dK", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DV_EXT, outputs[OutputNames::dV], "dV", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_SDPA_BWD_DBIAS_EXT, outputs[OutputNames::dBias], "dBias",
                       Role::OptionalOutput);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_ALIBI_MASK_EXT, this->alibi_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_PADDING_MASK_EXT, this->padding_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_EXT, this->causal_mask);
        visit_flag(visitor, HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT, this->causal_mask_bottom_right);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_DROPOUT_PROBABILITY_EXT, HIPDNN_TYPE_FLOAT,
                    this->dropout_probability);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_ATTN_SCALE_VALUE_EXT, HIPDNN_TYPE_FLOAT, this->attn_scale_value);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_LEFT_BOUND_EXT, HIPDNN_TYPE_INT64, this->left_bound);
        visit_value(visitor, HIPDNN_ATTR_SDPA_BWD_RIGHT_BOUND_EXT, HIPDNN_TYPE_INT64, this->right_bound);
        visit_mode(visitor, HIPDNN_ATTR_SDPA_BWD_DIAGONAL_ALIGNMENT_EXT, HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT,
                   this->diagonal_alignment, false);
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(this->check_attention(get_q(), get_k(), get_v(), get_bias()));
        const std::pair<TensorPtr, TensorPtr> gradients[] = {
            {get_dq(), get_q()}, {get_dk(), get_k()}, {get_dv(), get_v()}};
        for (const auto& [gradient, operand] : gradients)
        {
            Derived::lies_as_operand ? fill_same(gradient, operand) : fill_packed(gradient, operand->get_dim());
        }
        return get_dbias() == nullptr || get_bias() == nullptr ? Error()
                                                               : (fill_same(get_dbias(), get_bias()), Error());
    }
};

} // namespace detail

/** Attention. */
class SdpaAttributes : public detail::SdpaForward<SdpaAttributes>
{
};

/** Gradient of attention. */
class SdpaBackwardAttributes : public detail::SdpaBackward<SdpaBackwardAttributes>
{
};

} // namespace hipdnn
