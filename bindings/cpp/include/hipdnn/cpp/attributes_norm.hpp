/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Normalizations and their gradients.
 *
 * x is [N, C, spatial] for batchnorm, whose scale, bias and statistics are [1, C, 1, ...]. Layernorm and RMSNorm normalize the
 * dimensions in which the scale is larger than 1; statistics are 1 there, and like x elsewhere. Epsilon and momentum have one element.
 */
#pragma once

#include "operation.hpp"

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
class BatchnormAttributes : public Attributes<BatchnormAttributes>
{
    using Self = BatchnormAttributes;

public:
    enum class InputNames { X, SCALE, BIAS, PREV_RUNNING_MEAN, PREV_RUNNING_VARIANCE, MOMENTUM, EPSILON };
    enum class OutputNames { Y, MEAN, INV_VARIANCE, NEXT_RUNNING_MEAN, NEXT_RUNNING_VARIANCE };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 7> inputs;
    detail::Slots<OutputNames, 5> outputs;
    std::vector<TensorPtr> peer_stats;

    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_INPUT(PREV_RUNNING_MEAN, prev_running_mean)
    HIPDNN_CPP_INPUT(PREV_RUNNING_VARIANCE, prev_running_variance)
    HIPDNN_CPP_INPUT(MOMENTUM, momentum)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_OUTPUT(MEAN, mean)
    HIPDNN_CPP_OUTPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_OUTPUT(NEXT_RUNNING_MEAN, next_running_mean)
    HIPDNN_CPP_OUTPUT(NEXT_RUNNING_VARIANCE, next_running_variance)

    const std::vector<TensorPtr>& get_peer_stats() const { return peer_stats; }
    Self& set_peer_stats(std::vector<TensorPtr> value) { return peer_stats = std::move(value), *this; }
    /** Running statistics: next = (1 - momentum) previous + momentum (the batch's). */
    Self& set_previous_running_stats(TensorPtr mean, TensorPtr variance, TensorPtr momentum)
    {
        return set_prev_running_mean(std::move(mean))
            .set_prev_running_variance(std::move(variance))
            .set_momentum(std::move(momentum));
    }

    OperationKind kind() const override
    {
        return {"batchnorm", HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_BATCHNORM_EXT,
                HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT, inputs[InputNames::PREV_RUNNING_MEAN],
                       "prev_running_mean", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT,
                       inputs[InputNames::PREV_RUNNING_VARIANCE], "prev_running_variance", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT, inputs[InputNames::MOMENTUM], "momentum",
                       Role::OptionalInput);
        visitor.tensors(HIPDNN_ATTR_OPERATION_BATCHNORM_PEER_STATS_EXT, peer_stats, Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT, outputs[OutputNames::MEAN], "mean",
                       Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT, outputs[OutputNames::INV_VARIANCE],
                       "inv_variance", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT, outputs[OutputNames::NEXT_RUNNING_MEAN],
                       "next_running_mean", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT,
                       outputs[OutputNames::NEXT_RUNNING_VARIANCE], "next_running_variance", Role::OptionalOutput);
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
class BatchnormBackwardAttributes : public Attributes<BatchnormBackwardAttributes>
{
    using Self = BatchnormBackwardAttributes;

public:
    enum class InputNames { DY, X, SCALE, MEAN, INV_VARIANCE };
    enum class OutputNames { DX, DSCALE, DBIAS };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 5> inputs;
    detail::Slots<OutputNames, 3> outputs;
    std::vector<TensorPtr> peer_stats;

    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_OUTPUT(DSCALE, dscale)
    HIPDNN_CPP_OUTPUT(DBIAS, dbias)

    const std::vector<TensorPtr>& get_peer_stats() const { return peer_stats; }
    Self& set_peer_stats(std::vector<TensorPtr> value) { return peer_stats = std::move(value), *this; }
    Self& set_saved_mean_and_inv_variance(TensorPtr mean, TensorPtr inv_variance)
    {
        return set_mean(std::move(mean)).set_inv_variance(std::move(inv_variance));
    }

    OperationKind kind() const override
    {
        return {"batchnorm_backward", HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT,
                HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT, HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DY_EXT, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_SCALE_EXT, inputs[InputNames::SCALE], "scale",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_MEAN_EXT, inputs[InputNames::MEAN], "mean",
                       Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT, inputs[InputNames::INV_VARIANCE],
                       "inv_variance", Role::OptionalInput);
        visitor.tensors(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_PEER_STATS_EXT, peer_stats, Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DX_EXT, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT, outputs[OutputNames::DSCALE], "dscale",
                       Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT, outputs[OutputNames::DBIAS], "dbias",
                       Role::Output);
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
class BatchnormInferenceAttributes : public Attributes<BatchnormInferenceAttributes>
{
    using Self = BatchnormInferenceAttributes;

public:
    enum class InputNames { X, MEAN, INV_VARIANCE, SCALE, BIAS };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 5> inputs;
    detail::Slots<OutputNames, 1> outputs;

    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_OUTPUT(Y, y)

    OperationKind kind() const override
    {
        return {"batchnorm_inference", HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT,
                HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT, HIPDNN_ATTR_BATCHNORM_INF_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_MEAN_EXT, inputs[InputNames::MEAN], "mean",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_INV_VARIANCE_EXT, inputs[InputNames::INV_VARIANCE],
                       "inv_variance", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_SCALE_EXT, inputs[InputNames::SCALE], "scale",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_BIAS_EXT, inputs[InputNames::BIAS], "bias",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
    }

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
class BatchnormInferenceAttributesVarianceExt : public Attributes<BatchnormInferenceAttributesVarianceExt>
{
    using Self = BatchnormInferenceAttributesVarianceExt;

public:
    enum class InputNames { X, MEAN, VARIANCE, SCALE, BIAS, EPSILON };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 6> inputs;
    detail::Slots<OutputNames, 1> outputs;

    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(VARIANCE, variance)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(Y, y)

    OperationKind kind() const override
    {
        return {"batchnorm_inference_variance", HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT,
                HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT, HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT, inputs[InputNames::X], "x",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT, inputs[InputNames::MEAN], "mean",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT, inputs[InputNames::VARIANCE],
                       "variance", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT, inputs[InputNames::SCALE], "scale",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT, inputs[InputNames::BIAS], "bias",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT, inputs[InputNames::EPSILON],
                       "epsilon", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT, outputs[OutputNames::Y], "y",
                       Role::Output);
    }

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
