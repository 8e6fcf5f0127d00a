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
class BatchnormInferenceFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, MEAN, INV_VARIANCE, SCALE, BIAS };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 5> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_OUTPUT(Y, y)

    OperationKind kind() const override
    {
        return {"batchnorm_inference", HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT, HIPDNN_ATTR_BATCHNORM_INF_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_MEAN_EXT, inputs[InputNames::MEAN], "mean", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_INV_VARIANCE_EXT, inputs[InputNames::INV_VARIANCE], "inv_variance", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
    }
};

template <typename Derived>
class BatchnormBackwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { DY, X, SCALE, MEAN, INV_VARIANCE };
    enum class OutputNames { DX, DSCALE, DBIAS };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 5> inputs;
    Slots<OutputNames, 3> outputs;
    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_OUTPUT(DSCALE, dscale)
    HIPDNN_CPP_OUTPUT(DBIAS, dbias)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(INV_VARIANCE, inv_variance)
    /** Statistics of other devices. */
    HIPDNN_CPP_LIST(std::vector<TensorPtr>, peer_stats)

    OperationKind kind() const override
    {
        return {"batchnorm_backward", HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT, HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DY_EXT, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DX_EXT, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT, outputs[OutputNames::DSCALE], "dscale", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT, outputs[OutputNames::DBIAS], "dbias", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_MEAN_EXT, inputs[InputNames::MEAN], "mean", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT, inputs[InputNames::INV_VARIANCE], "inv_variance", Role::OptionalInput);
        visitor.tensors(HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_PEER_STATS_EXT, peer_stats, Role::OptionalInput);
    }
};

template <typename Derived>
class BatchnormFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, SCALE, BIAS, EPSILON, PREV_RUNNING_MEAN, PREV_RUNNING_VARIANCE, MOMENTUM };
    enum class OutputNames { Y, MEAN, INV_VARIANCE, NEXT_RUNNING_MEAN, NEXT_RUNNING_VARIANCE };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 7> inputs;
    Slots<OutputNames, 5> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_INPUT(PREV_RUNNING_MEAN, prev_running_mean)
    HIPDNN_CPP_INPUT(PREV_RUNNING_VARIANCE, prev_running_variance)
    HIPDNN_CPP_INPUT(MOMENTUM, momentum)
    HIPDNN_CPP_OUTPUT(MEAN, mean)
    HIPDNN_CPP_OUTPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_OUTPUT(NEXT_RUNNING_MEAN, next_running_mean)
    HIPDNN_CPP_OUTPUT(NEXT_RUNNING_VARIANCE, next_running_variance)
    /** Statistics of other devices. */
    HIPDNN_CPP_LIST(std::vector<TensorPtr>, peer_stats)

    OperationKind kind() const override
    {
        return {"batchnorm", HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_BATCHNORM_EXT, HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT, inputs[InputNames::PREV_RUNNING_MEAN], "prev_running_mean", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT, inputs[InputNames::PREV_RUNNING_VARIANCE], "prev_running_variance", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT, inputs[InputNames::MOMENTUM], "momentum", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT, outputs[OutputNames::MEAN], "mean", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT, outputs[OutputNames::INV_VARIANCE], "inv_variance", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT, outputs[OutputNames::NEXT_RUNNING_MEAN], "next_running_mean", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT, outputs[OutputNames::NEXT_RUNNING_VARIANCE], "next_running_variance", Role::OptionalOutput);
        visitor.tensors(HIPDNN_ATTR_OPERATION_BATCHNORM_PEER_STATS_EXT, peer_stats, Role::OptionalInput);
    }
};

template <typename Derived>
class BatchnormInferenceVarianceFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, MEAN, VARIANCE, SCALE, BIAS, EPSILON };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 6> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(VARIANCE, variance)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)

    OperationKind kind() const override
    {
        return {"batchnorm_inference_variance", HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT, HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT, inputs[InputNames::MEAN], "mean", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT, inputs[InputNames::VARIANCE], "variance", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon", Role::Input);
    }
};

template <typename Derived>
class RmsNormFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, SCALE, EPSILON, BIAS };
    enum class OutputNames { Y, INV_RMS };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 4> inputs;
    Slots<OutputNames, 2> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_OUTPUT(INV_RMS, inv_rms)
    /** Whether the statistics are written. */
    HIPDNN_CPP_FIELD(NormFwdPhase, forward_phase, NormFwdPhase())

    OperationKind kind() const override
    {
        return {"rmsnorm", HIPDNN_BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_RMSNORM_EXT, HIPDNN_ATTR_RMSNORM_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_INV_RMS_EXT, outputs[OutputNames::INV_RMS], "inv_rms", Role::OptionalOutput);
        visit_mode(visitor, HIPDNN_ATTR_OPERATION_RMSNORM_FWD_PHASE_EXT, HIPDNN_TYPE_NORM_FWD_PHASE, forward_phase);
    }
};

template <typename Derived>
class LayernormFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, SCALE, BIAS, EPSILON };
    enum class OutputNames { Y, MEAN, INV_VARIANCE };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 4> inputs;
    Slots<OutputNames, 3> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(BIAS, bias)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_OUTPUT(MEAN, mean)
    HIPDNN_CPP_OUTPUT(INV_VARIANCE, inv_variance)
    /** Whether the statistics are written. */
    HIPDNN_CPP_FIELD(NormFwdPhase, forward_phase, NormFwdPhase())
    /** Number of trailing dimensions that are normalized. 0 follows the scale. */
    HIPDNN_CPP_FIELD(int64_t, normalized_dim_count, 0)

    OperationKind kind() const override
    {
        return {"layernorm", HIPDNN_BACKEND_OPERATION_LAYERNORM_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_LAYERNORM_EXT, HIPDNN_ATTR_LAYERNORM_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BIAS_EXT, inputs[InputNames::BIAS], "bias", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_Y_EXT, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_MEAN_EXT, outputs[OutputNames::MEAN], "mean", Role::OptionalOutput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_INV_VARIANCE_EXT, outputs[OutputNames::INV_VARIANCE], "inv_variance", Role::OptionalOutput);
        visit_mode(visitor, HIPDNN_ATTR_OPERATION_LAYERNORM_FWD_PHASE_EXT, HIPDNN_TYPE_NORM_FWD_PHASE, forward_phase);
        visit_number(visitor, HIPDNN_ATTR_OPERATION_LAYERNORM_NORMALIZED_DIM_COUNT_EXT, HIPDNN_TYPE_INT64, normalized_dim_count);
    }
};

template <typename Derived>
class RmsNormBackwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { DY, X, SCALE, INV_RMS };
    enum class OutputNames { DX, DSCALE, DBIAS };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 4> inputs;
    Slots<OutputNames, 3> outputs;
    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(INV_RMS, inv_rms)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_OUTPUT(DSCALE, dscale)
    HIPDNN_CPP_OUTPUT(DBIAS, dbias)

    OperationKind kind() const override
    {
        return {"rmsnorm_backward", HIPDNN_BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT, HIPDNN_ATTR_RMSNORM_BACKWARD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DY_EXT, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_INV_RMS_EXT, inputs[InputNames::INV_RMS], "inv_rms", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DX_EXT, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DSCALE_EXT, outputs[OutputNames::DSCALE], "dscale", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DBIAS_EXT, outputs[OutputNames::DBIAS], "dbias", Role::OptionalOutput);
    }
};

template <typename Derived>
class LayernormBackwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { DY, X, SCALE, MEAN, INV_VARIANCE, EPSILON };
    enum class OutputNames { DX, DSCALE, DBIAS };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 6> inputs;
    Slots<OutputNames, 3> outputs;
    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_INPUT(MEAN, mean)
    HIPDNN_CPP_INPUT(INV_VARIANCE, inv_variance)
    HIPDNN_CPP_INPUT(EPSILON, epsilon)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_OUTPUT(DSCALE, dscale)
    HIPDNN_CPP_OUTPUT(DBIAS, dbias)
    /** Number of trailing dimensions that are normalized. 0 follows the scale. */
    HIPDNN_CPP_FIELD(int64_t, normalized_dim_count, 0)

    OperationKind kind() const override
    {
        return {"layernorm_backward", HIPDNN_BACKEND_OPERATION_LAYERNORM_BACKWARD_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_LAYERNORM_BACKWARD_EXT, HIPDNN_ATTR_LAYERNORM_BACKWARD_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DY_EXT, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_X_EXT, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_SCALE_EXT, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_MEAN_EXT, inputs[InputNames::MEAN], "mean", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_INV_VARIANCE_EXT, inputs[InputNames::INV_VARIANCE], "inv_variance", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_EPSILON_EXT, inputs[InputNames::EPSILON], "epsilon", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DX_EXT, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DSCALE_EXT, outputs[OutputNames::DSCALE], "dscale", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DBIAS_EXT, outputs[OutputNames::DBIAS], "dbias", Role::Output);
        visit_number(visitor, HIPDNN_ATTR_LAYERNORM_BACKWARD_NORMALIZED_DIM_COUNT_EXT, HIPDNN_TYPE_INT64, normalized_dim_count);
    }
};

} // namespace detail
} // namespace hipdnn
