/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Layernorm, RMSNorm and their gradients: they normalize the dimensions in which the scale is larger than 1.
 */
#pragma once

#include "fields_norm.hpp"

namespace hipdnn
{
namespace detail
{

/** The number of trailing dimensions that a scale covers. */
inline int64_t normalized_dims(const Dims& x, const Dims& scale)
{
    if (scale.size() < x.size())
    {
        return static_cast<int64_t>(scale.size());
    }
    size_t first = 0;
    while (first < x.size() && scale[first] == 1)
    {
        first++;
    }
    /* A scale of one element: at least the last dimension. */
    return static_cast<int64_t>(first == x.size() ? 1 : x.size() - first);
}

} // namespace detail

/** Layernorm: y = scale (x - mean) inv_variance + bias. In training it also returns mean and inv_variance. */
class LayernormAttributes : public detail::LayernormFields<LayernormAttributes>
{
public:
    using LayernormFields::set_epsilon;
    Self& set_epsilon(float value) { return set_epsilon(std::make_shared<Tensor>(value)); }

    template <typename = void>
    Error shapes()
    {
        if (forward_phase == NormFwdPhase::NOT_SET)
        {
            return wrong("forward_phase is not set", ErrorCode::ATTRIBUTE_NOT_SET);
        }
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        HIPDNN_CPP_TRY(check_scalar("epsilon", get_epsilon()));
        const Dims& x = get_x()->get_dim();
        HIPDNN_CPP_TRY(check_same("y", get_y(), x));
        Dims all = x;
        all[0] = 1;
        detail::fill_shape(get_scale(), all, get_x());
        detail::fill_shape(get_bias(), get_scale()->get_dim(), get_x());
        const Dims& scale = get_scale()->get_dim();
        if (scale.size() > x.size())
        {
            return wrong({"scale has shape ", scale, ", expected at most the dimensions of x ", x});
        }
        HIPDNN_CPP_TRY(check_same("bias", get_bias(), scale));
        if (normalized_dim_count == 0) /* Not set. */
        {
            normalized_dim_count = detail::normalized_dims(x, scale);
        }
        detail::fill_same(get_y(), get_x());
        for (const TensorPtr& tensor : {get_mean(), get_inv_variance()})
        {
            if (tensor != nullptr)
            {
                detail::fill_shape(tensor, detail::statistics_dims(x, scale), get_x());
            }
        }
        return {};
    }
};

/** Gradient of layernorm: dx like x; dscale and dbias like scale. */
class LayernormBackwardAttributes : public detail::LayernormBackwardFields<LayernormBackwardAttributes>
{
public:
    Self& set_saved_mean_and_inv_variance(TensorPtr mean, TensorPtr inv_variance)
    {
        return set_mean(std::move(mean)).set_inv_variance(std::move(inv_variance));
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        HIPDNN_CPP_TRY(check_rank("scale", get_scale(), 1));
        HIPDNN_CPP_TRY(check_same("dy", get_dy(), get_x()->get_dim()));
        detail::fill_same(get_dy(), get_x());
        if (normalized_dim_count == 0)
        {
            normalized_dim_count = detail::normalized_dims(get_x()->get_dim(), get_scale()->get_dim());
        }
        detail::fill_same(get_dx(), get_x());
        detail::fill_same(get_dscale(), get_scale());
        detail::fill_same(get_dbias(), get_scale());
        return {};
    }
};

/** RMSNorm: y = scale x inv_rms + bias, where inv_rms = 1 / sqrt(mean of x squared + epsilon). */
class RMSNormAttributes : public detail::RmsNormFields<RMSNormAttributes>
{
public:
    template <typename = void>
    Error shapes()
    {
        if (forward_phase == NormFwdPhase::NOT_SET)
        {
            return wrong("forward_phase is not set", ErrorCode::ATTRIBUTE_NOT_SET);
        }
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        HIPDNN_CPP_TRY(check_rank("scale", get_scale(), 1));
        HIPDNN_CPP_TRY(check_scalar("epsilon", get_epsilon()));
        const Dims &x = get_x()->get_dim(), &scale = get_scale()->get_dim();
        if (scale.size() > x.size())
        {
            return wrong({"scale has shape ", scale, ", expected at most the dimensions of x ", x});
        }
        HIPDNN_CPP_TRY(check_same("y", get_y(), x));
        detail::fill_same(get_y(), get_x());
        detail::fill_shape(get_scale(), scale, get_x());
        if (get_bias() != nullptr)
        {
            detail::fill_same(get_bias(), get_scale());
        }
        if (get_inv_rms() != nullptr)
        {
            detail::fill_shape(get_inv_rms(), detail::statistics_dims(x, scale), get_x());
        }
        return {};
    }
};

/** Gradient of RMSNorm: dx like x; dscale, and dbias if requested, like scale. */
class RMSNormBackwardAttributes : public detail::RmsNormBackwardFields<RMSNormBackwardAttributes>
{
public:
    HIPDNN_CPP_FIELD(bool, compute_dbias, false)
    /** cuDNN's name for compute_dbias. */
    Self& has_dbias(bool value) { return set_compute_dbias(value); }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        RmsNormBackwardFields::each(visitor);
        compute_dbias = get_dbias() != nullptr;
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        HIPDNN_CPP_TRY(check_rank("scale", get_scale(), 1));
        HIPDNN_CPP_TRY(check_same("dy", get_dy(), get_x()->get_dim()));
        detail::fill_same(get_dx(), get_x());
        detail::fill_same(get_dscale(), get_scale());
        if (get_dbias() != nullptr)
        {
            detail::fill_same(get_dbias(), get_scale());
        }
        return {};
    }
};

} // namespace hipdnn
