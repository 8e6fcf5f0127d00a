/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Scaled dot-product attention and its gradient.
 *
 * q [B, Hq, Sq, D], k [B, Hk, Skv, D], v [B, Hk, Skv, Dv], o [B, Hq, Sq, Dv]; Hq is a multiple of Hk. Statistics are [B, Hq, Sq, 1].
 * Sequence lengths are [B, 1, 1, 1], INT32. A mask is added to the scores and broadcasts.
 */
#pragma once

#include "fields_attention.hpp"

namespace hipdnn
{
namespace detail
{

/** What both directions of attention share. */
template <typename Fields>
class AttentionAttributes : public Fields
{
public:
    using Fields::set_attn_scale;
    using typename Fields::Self;

    /** The factor of the scores; 1 if neither a value nor a tensor is set. */
    Self& set_attn_scale(float value) { return this->set_attn_scale_value(value); }
    /** The number of keys before the diagonal that a query sees, besides the one on it. */
    Self& set_diagonal_band_left_bound(int64_t value) { return this->set_left_bound(value); }
    Self& set_sliding_window_length(int64_t value) { return set_diagonal_band_left_bound(value); }
    Self& set_diagonal_band_right_bound(int64_t value) { return this->set_right_bound(value); }
    /** Drops elements with a probability, by Philox random numbers from a seed and an offset (INT64, one element each). */
    Self& set_dropout(float probability, TensorPtr seed, TensorPtr offset)
    {
        return this->set_dropout_probability(probability).set_seed(std::move(seed)).set_offset(std::move(offset));
    }

    /** A requested feature that hipDNN lacks; the graph is rejected with it. */
    Self& refuse(const char* reason) { return _refused = reason, static_cast<Self&>(*this); }

protected:
    Error check_attention() const
    {
        if (_refused != nullptr)
        {
            return this->unsupported(_refused);
        }
        const Dims &q = this->get_q()->get_dim(), &k = this->get_k()->get_dim(), &v = this->get_v()->get_dim();
        const TensorPtr mask = this->get_bias();
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
};

/** Attention; adapters derive their own class if setters mean more than here. */
template <typename Derived>
class SdpaForward : public AttentionAttributes<SdpaFields<Derived>>
{
    using Self = Derived;
    using Shared = AttentionAttributes<SdpaFields<Derived>>;

public:
    using Shared::set_dropout;

    Self& set_is_inference(bool value) { return this->set_generate_stats(!value); }
    /** Alternatively multiplies by a mask and a scale of one element; programs give them in either order. */
    Self& set_dropout(TensorPtr mask, TensorPtr scale)
    {
        if (mask != nullptr && scale != nullptr && mask->get_volume() == 1 && scale->get_volume() != 1)
        {
            std::swap(mask, scale);
        }
        return this->set_dropout_mask(std::move(mask)).set_dropout_scale(std::move(scale));
    }
    Self& set_paged_attention_max_seq_len_kv(int32_t value) { return this->set_max_seq_len_kv(value); }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(this->check_attention());
        const Dims& q = this->get_q()->get_dim();
        const Dims o = {q[0], q[1], q[2], this->get_v()->get_dim()[3]};
        HIPDNN_CPP_TRY(this->check_same("o", this->get_o(), o));
        fill_packed(this->get_o(), o);
        for (const TensorPtr& tensor : {this->get_stats(), this->get_max(), this->get_sum_exp()})
        {
            if (tensor != nullptr)
            {
                fill_packed(tensor, {q[0], q[1], q[2], 1});
            }
        }
        for (const TensorPtr& tensor : {this->get_amax_s(), this->get_amax_o()})
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
class SdpaBackward : public AttentionAttributes<SdpaBackwardFields<Derived>>
{
    using Self = Derived;
    using Shared = AttentionAttributes<SdpaBackwardFields<Derived>>;

public:
    /** Whether gradients without strides have their operands' layout, and are not packed. */
    static constexpr bool lies_as_operand = false;
    using Shared::set_dropout;

    Self& set_dropout(TensorPtr mask, TensorPtr scale, TensorPtr scale_inv)
    {
        return this->set_dropout_mask(std::move(mask))
            .set_dropout_scale(std::move(scale))
            .set_dropout_scale_inv(std::move(scale_inv));
    }
    /** No effect: the engines' results do not depend on the order of threads. */
    Self& set_deterministic_algorithm(bool) { return static_cast<Self&>(*this); }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(this->check_attention());
        const std::pair<TensorPtr, TensorPtr> gradients[] = {
            {this->get_dq(), this->get_q()}, {this->get_dk(), this->get_k()}, {this->get_dv(), this->get_v()}};
        for (const auto& [gradient, operand] : gradients)
        {
            Derived::lies_as_operand ? fill_same(gradient, operand) : fill_packed(gradient, operand->get_dim());
        }
        return this->get_dbias() == nullptr || this->get_bias() == nullptr
                   ? Error()
                   : (fill_same(this->get_dbias(), this->get_bias()), Error());
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
