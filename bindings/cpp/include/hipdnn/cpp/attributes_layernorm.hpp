/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Layernorm, RMSNorm and their gradients: they normalize the dimensions in which the scale is larger than 1.
 */
#pragma once

#include "operation.hpp"

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
class LayernormAttributes : public Attributes<LayernormAttributes>
{
    using Self = LayernormAttributes;

public:
    enum class InputNames { X, SCALE, BIAS, EPSILON };
    enum class OutputNames { Y, MEAN, INV_VARIANCE };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 4> inputs;
    detail::Slots<OutputNames, 3> outputs;

    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_OUTPUT(MEAN, mean)
    HIPDNN_CPP_OUTPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_FIELD(NormFwdPhase, forward_phase, NormFwdPhase::NOT_SET)
    /* The number of trailing dimensions to normalize; 0 follows the scale. */
    HIPDNN_CPP_FIELD(int64_t, normalized_dim_count, 0)
    Self& set_epsilon(float value) { return set_epsilon(std::make_shared<Tensor>(value)); }

    OperationKind kind() const override
    {
        return {"layernorm", HIPDNN_BACKEND_OPERATION_LAYERNORM_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_LAYERNORM_EXT,
                HIPDNN_ATTR_LAYERNORM_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_MEAN_EXT, outputs[OutputNames::MEAN], "mean",
                       Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_INV_VARIANCE_EXT, outputs[OutputNames::INV_VARIANCE],
                       "inv_variance", Role::OptionalOutput);
        detail::visit_mode(visitor, HIPDNN_ATTR_OPERATION_LAYERNORM_FWD_PHASE_EXT, HIPDNN_TYPE_NORM_FWD_PHASE,
                           forward_phase);
        std::optional<int64_t> count = normalized_dim_count;
        detail::visit_value(visitor, HIPDNN_ATTR_OPERATION_LAYERNORM_NORMALIZED_DIM_COUNT_EXT, HIPDNN_TYPE_INT64,
                            count);
        normalized_dim_count = count.value_or(0);
    }

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
        if (normalized_dim_count == 0)
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
class LayernormBackwardAttributes : public Attributes<LayernormBackwardAttributes>
{
    using Self = LayernormBackwardAttributes;

public:
    enum class InputNames { DY, X, SCALE, MEAN, INV_VARIANCE, EPSILON };
    enum class OutputNames { DX, DSCALE, DBIAS };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 6> inputs;
    detail::Slots<OutputNames, 3> outputs;

    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_OUTPUT(DSCALE, dscale)
    HIPDNN_CPP_OUTPUT(DBIAS, dbias)
    HIPDNN_CPP_FIELD(int64_t, normalized_dim_count, 0)
    Self& set_saved_mean_and_inv_variance(TensorPtr mean, TensorPtr inv_variance)
    {
        return set_mean(std::move(mean)).set_inv_variance(std::move(inv_variance));
    }

    OperationKind kind() const override
    {
        return {"layernorm_backward", HIPDNN_BACKEND_OPERATION_LAYERNORM_BACKWARD_DESCRIPTOR_EXT,
                HIPDNN_OPERATION_TYPE_LAYERNORM_BACKWARD_EXT, HIPDNN_ATTR_LAYERNORM_BACKWARD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DY_EXT, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_SCALE_EXT, inputs[InputNames::SCALE], "scale",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_MEAN_EXT, inputs[InputNames::MEAN], "mean",
                       Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_INV_VARIANCE_EXT, inputs[InputNames::INV_VARIANCE],
                       "inv_variance", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon",
                       Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DX_EXT, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DSCALE_EXT, outputs[OutputNames::DSCALE], "dscale",
                       Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DBIAS_EXT, outputs[OutputNames::DBIAS], "dbias",
                       Role::Output);
        std::optional<int64_t> count = normalized_dim_count;
        detail::visit_value(visitor, HIPDNN_ATTR_LAYERNORM_BACKWARD_NORMALIZED_DIM_COUNT_EXT, HIPDNN_TYPE_INT64, count);
        normalized_dim_count = count.value_or(0);
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
class RMSNormAttributes : public Attributes<RMSNormAttributes>
{
    using Self = RMSNormAttributes;

public:
    enum class InputNames { X, SCALE, EPSILON, BIAS };
    enum class OutputNames { Y, INV_RMS };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 4> inputs;
    detail::Slots<OutputNames, 2> outputs;

    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_OUTPUT(INV_RMS, inv_rms)
    HIPDNN_CPP_FIELD(NormFwdPhase, forward_phase, NormFwdPhase::NOT_SET)

    OperationKind kind() const override
    {
        return {"rmsnorm", HIPDNN_BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_RMSNORM_EXT,
                HIPDNN_ATTR_RMSNORM_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_INV_RMS_EXT, outputs[OutputNames::INV_RMS], "inv_rms",
                       Role::OptionalOutput);
        detail::visit_mode(visitor, HIPDNN_ATTR_OPERATION_RMSNORM_FWD_PHASE_EXT, HIPDNN_TYPE_NORM_FWD_PHASE,
                           forward_phase);
    }

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
class RMSNormBackwardAttributes : public Attributes<RMSNormBackwardAttributes>
{
    using Self = RMSNormBackwardAttributes;

public:
    enum class InputNames { DY, X, SCALE, INV_RMS };
    enum class OutputNames { DX, DSCALE, DBIAS };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 4> inputs;
    detail::Slots<OutputNames, 3> outputs;

    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(INV_RMS, inv_rms)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_OUTPUT(DSCALE, dscale)
    HIPDNN_CPP_OUTPUT(DBIAS, dbias)
    HIPDNN_CPP_FIELD(bool, compute_dbias, false)
    /** cuDNN's name for compute_dbias. */
    Self& has_dbias(bool value) { return set_compute_dbias(value); }

    OperationKind kind() const override
    {
        return {"rmsnorm_backward", HIPDNN_BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT,
                HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT, HIPDNN_ATTR_RMSNORM_BACKWARD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DY_EXT, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_SCALE_EXT, inputs[InputNames::SCALE], "scale",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_INV_RMS_EXT, inputs[InputNames::INV_RMS], "inv_rms",
                       Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DX_EXT, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DSCALE_EXT, outputs[OutputNames::DSCALE], "dscale",
                       Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DBIAS_EXT, outputs[OutputNames::DBIAS], "dbias",
                       Role::OptionalOutput);
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
