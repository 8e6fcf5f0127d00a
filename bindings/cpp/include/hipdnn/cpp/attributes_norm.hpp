/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Normalizations and their gradients.
 *
 * x is [N, C, spatial] for batchnorm, whose scale, bias and statistics are [1, C, 1, ...]. Layernorm and RMSNorm normalize the
 * dimensions in which the scale is larger than 1; statistics are 1 there, and like x elsewhere. Epsilon and momentum have one element.
 */
#pragma once

#include "fields_norm.hpp"

namespace hipdnn
{
namespace detail
{

/** One element per channel. */
inline Dims channel_dims(const Dims& x)
{
    Dims dims(x.size(), 1);
    if (x.size() > 1)
    {
        dims[1] = x[1];
    }
    return dims;
}

/** Gives a tensor of channels its shape if it has none, and strides in the order of x. */
inline void fill_channels(const TensorPtr& tensor, const TensorPtr& x)
{
    if (tensor != nullptr)
    {
        fill_shape(tensor, channel_dims(x->get_dim()), x);
    }
}

} // namespace detail

/** Batchnorm in training: y = scale (x - mean) inv_variance + bias, with statistics of the batch. */
class BatchnormAttributes : public detail::BatchnormFields<BatchnormAttributes>
{
public:
    /** Running statistics: next = (1 - momentum) previous + momentum (the batch's). */
    Self& set_previous_running_stats(TensorPtr mean, TensorPtr variance, TensorPtr momentum)
    {
        return set_prev_running_mean(std::move(mean))
            .set_prev_running_variance(std::move(variance))
            .set_momentum(std::move(momentum));
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 2));
        const Dims& x = get_x()->get_dim();
        HIPDNN_CPP_TRY(check_same("scale", get_scale(), detail::channel_dims(x)));
        HIPDNN_CPP_TRY(check_same("bias", get_bias(), detail::channel_dims(x)));
        HIPDNN_CPP_TRY(check_scalar("epsilon", get_epsilon()));
        HIPDNN_CPP_TRY(check_same("y", get_y(), x));
        const int running = (get_prev_running_mean() != nullptr) + (get_prev_running_variance() != nullptr) +
                            (get_next_running_mean() != nullptr) + (get_next_running_variance() != nullptr);
        if (running != 0 && running != 4)
        {
            return wrong({running, " tensors of running statistics, expected all 4 or none"});
        }
        detail::fill_same(get_y(), get_x());
        for (const TensorPtr& tensor :
             {get_mean(), get_inv_variance(), get_next_running_mean(), get_next_running_variance()})
        {
            detail::fill_channels(tensor, get_x());
        }
        return {};
    }
};

/** Gradient of batchnorm: dx like x; dscale and dbias like scale. */
class BatchnormBackwardAttributes : public detail::BatchnormBackwardFields<BatchnormBackwardAttributes>
{
public:
    Self& set_saved_mean_and_inv_variance(TensorPtr mean, TensorPtr inv_variance)
    {
        return set_mean(std::move(mean)).set_inv_variance(std::move(inv_variance));
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 2));
        const Dims& x = get_x()->get_dim();
        HIPDNN_CPP_TRY(check_same("dy", get_dy(), x));
        HIPDNN_CPP_TRY(check_same("scale", get_scale(), detail::channel_dims(x)));
        detail::fill_same(get_dx(), get_x());
        detail::fill_channels(get_dscale(), get_x());
        detail::fill_channels(get_dbias(), get_x());
        return {};
    }
};

/** Batchnorm with given statistics: y = scale (x - mean) inv_variance + bias. */
class BatchnormInferenceAttributes : public detail::BatchnormInferenceFields<BatchnormInferenceAttributes>
{
public:
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 2));
        HIPDNN_CPP_TRY(check_same("y", get_y(), get_x()->get_dim()));
        detail::fill_same(get_y(), get_x());
        return {};
    }
};

/** The same with a variance: y = scale (x - mean) / sqrt(variance + epsilon) + bias. */
class BatchnormInferenceAttributesVarianceExt
    : public detail::BatchnormInferenceVarianceFields<BatchnormInferenceAttributesVarianceExt>
{
public:
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 2));
        HIPDNN_CPP_TRY(check_scalar("epsilon", get_epsilon()));
        HIPDNN_CPP_TRY(check_same("y", get_y(), get_x()->get_dim()));
        detail::fill_same(get_y(), get_x());
        return {};
    }
};

} // namespace hipdnn
