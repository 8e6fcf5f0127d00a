/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The operations of a graph. Each call adds one and returns the tensors that it writes, which are virtual until
 * set_output(true). Shapes are documented with the attributes of each operation.
 */
#pragma once

#include "graph_nodes.hpp"

#include <array>

namespace hipdnn
{
namespace detail
{

template <typename Derived>
class GraphOperations : public GraphNodes<Derived>
{
    using Base = GraphNodes<Derived>;

protected:
    using Base::_operations;

public:
    /** y [N, K, spatial] = x [N, C, spatial] convolved with w [K, C / groups, filter]. */
    TensorPtr conv_fprop(TensorPtr x, TensorPtr w, ConvFpropAttributes attributes)
    {
        begin(attributes, "ConvolutionFprop_", {{x, "X"}, {w, "W"}});
        TensorPtr y = output(attributes, "Y");
        attributes.set_x(std::move(x)).set_w(std::move(w)).set_y(y);
        return add(std::move(attributes)), y;
    }

    /** Backward data of a convolution. With groups, set dx's shape before the graph is validated. */
    TensorPtr conv_dgrad(TensorPtr dy, TensorPtr w, ConvDgradAttributes attributes)
    {
        begin(attributes, "ConvolutionDgrad_", {{dy, "DY"}, {w, "W"}});
        TensorPtr dx = output(attributes, "DX");
        attributes.set_dy(std::move(dy)).set_w(std::move(w)).set_dx(dx);
        return add(std::move(attributes)), dx;
    }

    /** Backward weights of a convolution. With groups, set dw's shape before the graph is validated. */
    TensorPtr conv_wgrad(TensorPtr dy, TensorPtr x, ConvWgradAttributes attributes)
    {
        begin(attributes, "ConvolutionWgrad_", {{x, "X"}, {dy, "DY"}});
        TensorPtr dw = output(attributes, "DW");
        attributes.set_dy(std::move(dy)).set_x(std::move(x)).set_dw(dw);
        return add(std::move(attributes)), dw;
    }

    /** c = a b. */
    TensorPtr matmul(TensorPtr a, TensorPtr b, MatmulAttributes attributes)
    {
        begin(attributes, "Matmul_", {{a, "A"}, {b, "B"}});
        TensorPtr c = output(attributes, "C");
        attributes.set_a(std::move(a)).set_b(std::move(b)).set_c(c);
        return add(std::move(attributes)), c;
    }

    /** A pointwise function of one tensor. */
    TensorPtr pointwise(TensorPtr in_0, PointwiseAttributes attributes)
    {
        begin(attributes, "Pointwise_", {{in_0, "IN_0"}});
        return finish(std::move(attributes.set_input_0(std::move(in_0))));
    }
    /** A pointwise function of two tensors. */
    TensorPtr pointwise(TensorPtr in_0, TensorPtr in_1, PointwiseAttributes attributes)
    {
        begin(attributes, "Pointwise_", {{in_0, "IN_0"}, {in_1, "IN_1"}});
        return finish(std::move(attributes.set_input_0(std::move(in_0)).set_input_1(std::move(in_1))));
    }
    /** A pointwise function of three tensors: BINARY_SELECT takes in_0 where in_2 is true, else in_1. */
    TensorPtr pointwise(TensorPtr in_0, TensorPtr in_1, TensorPtr in_2, PointwiseAttributes attributes)
    {
        begin(attributes, "Pointwise_", {{in_0, "IN_0"}, {in_1, "IN_1"}, {in_2, "IN_2"}});
        return finish(std::move(
            attributes.set_input_0(std::move(in_0)).set_input_1(std::move(in_1)).set_input_2(std::move(in_2))));
    }

    /** y has 1 in the reduced dimensions; without a shape, all are reduced. */
    TensorPtr reduction(TensorPtr x, ReductionAttributes attributes)
    {
        begin(attributes, "Reduction_", {{x, "X"}});
        return reduction_to(std::move(x), output(attributes, "Y"), std::move(attributes));
    }
    /** The same, written to a tensor of the caller's. */
    TensorPtr reduction(TensorPtr x, TensorPtr y, ReductionAttributes attributes)
    {
        begin(attributes, "Reduction_", {{x, "X"}, {y, "Y"}});
        return reduction_to(std::move(x), std::move(y), std::move(attributes));
    }

    /** Pooling; also writes the index of each maximum if attributes.set_index has a tensor for it. */
    TensorPtr resample_fwd(TensorPtr x, ResampleFwdAttributes attributes)
    {
        begin(attributes, "ResampleFwd_", {{x, "X"}});
        TensorPtr y = output(attributes, "Y");
        attributes.set_x(std::move(x)).set_y(y);
        return add(std::move(attributes)), y;
    }

    /** dx of pooling. */
    TensorPtr resample_bwd(TensorPtr dy, ResampleBwdAttributes attributes, TensorPtr index = nullptr)
    {
        begin(attributes, "ResampleBwd_", {{dy, "DY"}, {index, "INDEX"}});
        TensorPtr dx = output(attributes, "DX");
        attributes.set_dy(std::move(dy)).set_dx(dx);
        if (index != nullptr)
        {
            attributes.set_index(std::move(index));
        }
        return add(std::move(attributes)), dx;
    }

    /** y, mean, inv_variance, and the next running mean and variance (null without previous ones). */
    std::array<TensorPtr, 5> batchnorm(TensorPtr x, TensorPtr scale, TensorPtr bias, BatchnormAttributes attributes)
    {
        begin(attributes, "Batchnorm_", {});
        const bool runs = attributes.get_prev_running_mean() != nullptr &&
                          attributes.get_prev_running_variance() != nullptr && attributes.get_momentum() != nullptr;
        std::array<TensorPtr, 5> made = {output(attributes, "Y"), output(attributes, "MEAN"),
                                         output(attributes, "INV_VARIANCE"),
                                         runs ? output(attributes, "NEXT_RUNNING_MEAN") : nullptr,
                                         runs ? output(attributes, "NEXT_RUNNING_VARIANCE") : nullptr};
        attributes.set_x(std::move(x))
            .set_scale(std::move(scale))
            .set_bias(std::move(bias))
            .set_y(made[0])
            .set_mean(made[1]);
        attributes.set_inv_variance(made[2]).set_next_running_mean(made[3]).set_next_running_variance(made[4]);
        return add(std::move(attributes)), made;
    }

    /** dx, dscale, dbias. */
    std::array<TensorPtr, 3> batchnorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                BatchnormBackwardAttributes attributes)
    {
        begin(attributes, "BatchnormBackward_", {});
        return gradients(std::move(dy), std::move(x), std::move(scale), std::move(attributes));
    }

    /** y = scale (x - mean) inv_variance + bias. */
    TensorPtr batchnorm_inference(TensorPtr x, TensorPtr mean, TensorPtr inv_variance, TensorPtr scale, TensorPtr bias,
                                  BatchnormInferenceAttributes attributes)
    {
        begin(attributes, "BatchnormInference_", {});
        TensorPtr y = output(attributes, "Y");
        attributes.set_x(std::move(x)).set_mean(std::move(mean)).set_inv_variance(std::move(inv_variance));
        attributes.set_scale(std::move(scale)).set_bias(std::move(bias)).set_y(y);
        return add(std::move(attributes)), y;
    }

    /** y = scale (x - mean) / sqrt(variance + epsilon) + bias. */
    TensorPtr batchnorm_inference_variance_ext(TensorPtr x, TensorPtr mean, TensorPtr variance, TensorPtr scale,
                                               TensorPtr bias, TensorPtr epsilon,
                                               BatchnormInferenceAttributesVarianceExt attributes)
    {
        begin(attributes, "BatchnormInferenceVarianceExt_", {});
        TensorPtr y = output(attributes, "Y");
        attributes.set_x(std::move(x))
            .set_mean(std::move(mean))
            .set_variance(std::move(variance))
            .set_scale(std::move(scale));
        attributes.set_bias(std::move(bias)).set_epsilon(std::move(epsilon)).set_y(y);
        return add(std::move(attributes)), y;
    }

    /** y, and in training mean and inv_variance (else null). */
    std::array<TensorPtr, 3> layernorm(TensorPtr x, TensorPtr scale, TensorPtr bias, LayernormAttributes attributes)
    {
        begin(attributes, "Layernorm_",
              {{x, "X"}, {scale, "SCALE"}, {bias, "BIAS"}, {attributes.get_epsilon(), "EPSILON"}});
        const bool trains = attributes.get_forward_phase() != NormFwdPhase::INFERENCE;
        std::array<TensorPtr, 3> made = {output(attributes, "Y"), trains ? output(attributes, "MEAN") : nullptr,
                                         trains ? output(attributes, "INV_VARIANCE") : nullptr};
        attributes.set_x(std::move(x)).set_scale(std::move(scale)).set_bias(std::move(bias));
        attributes.set_y(made[0]).set_mean(made[1]).set_inv_variance(made[2]);
        return add(std::move(attributes)), made;
    }

    /** dx, dscale, dbias. */
    std::array<TensorPtr, 3> layernorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale,
                                                LayernormBackwardAttributes attributes)
    {
        begin(attributes, "LayernormBackward_", {});
        return gradients(std::move(dy), std::move(x), std::move(scale), std::move(attributes));
    }

    /** y, and in training inv_rms (else null). */
    std::array<TensorPtr, 2> rmsnorm(TensorPtr x, TensorPtr scale, RMSNormAttributes attributes)
    {
        begin(attributes, "RMSNorm_", {});
        const bool trains = attributes.get_forward_phase() == NormFwdPhase::TRAINING;
        std::array<TensorPtr, 2> made = {output(attributes, "Y"), trains ? output(attributes, "INV_RMS") : nullptr};
        attributes.set_x(std::move(x)).set_scale(std::move(scale)).set_y(made[0]).set_inv_rms(made[1]);
        return add(std::move(attributes)), made;
    }

    /** dx, dscale, and dbias if attributes.set_compute_dbias(true) (else null). */
    std::array<TensorPtr, 3> rmsnorm_backward(TensorPtr dy, TensorPtr x, TensorPtr scale, TensorPtr inv_rms,
                                              RMSNormBackwardAttributes attributes)
    {
        begin(attributes, "RMSNormBackward_", {});
        std::array<TensorPtr, 3> made = {output(attributes, "DX"), output(attributes, "DSCALE"),
                                         attributes.get_compute_dbias() ? output(attributes, "DBIAS") : nullptr};
        attributes.set_dy(std::move(dy))
            .set_x(std::move(x))
            .set_scale(std::move(scale))
            .set_inv_rms(std::move(inv_rms));
        attributes.set_dx(made[0]).set_dscale(made[1]).set_dbias(made[2]);
        return add(std::move(attributes)), made;
    }

    /** o, and the statistics if attributes.set_generate_stats(true) (else null). */
    std::array<TensorPtr, 2> sdpa(TensorPtr q, TensorPtr k, TensorPtr v, SdpaAttributes attributes)
    {
        return attention(std::move(q), std::move(k), std::move(v), std::move(attributes));
    }

    /** dq, dk, dv. Also writes the gradient of the mask if attributes.set_dbias has a tensor for it. */
    std::array<TensorPtr, 3> sdpa_backward(TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o, TensorPtr d_o,
                                           TensorPtr stats, SdpaBackwardAttributes attributes)
    {
        return attention_backward(std::move(q), std::move(k), std::move(v), std::move(o), std::move(d_o),
                                  std::move(stats), std::move(attributes));
    }

    /** y and scale. */
    std::array<TensorPtr, 2> block_scale_quantize(TensorPtr x, BlockScaleQuantizeAttributes attributes)
    {
        begin(attributes, "BlockScaleQuantize_", {});
        std::array<TensorPtr, 2> made = {output(attributes, "Y"), output(attributes, "Scale")};
        attributes.set_x(std::move(x)).set_y(made[0]).set_scale(made[1]);
        return add(std::move(attributes)), made;
    }

    /** y = x times the scale of its block. */
    TensorPtr block_scale_dequantize(TensorPtr x, TensorPtr scale, BlockScaleDequantizeAttributes attributes)
    {
        begin(attributes, "BlockScaleDequantize_", {});
        TensorPtr y = output(attributes, "Y");
        attributes.set_x(std::move(x)).set_scale(std::move(scale)).set_y(y);
        return add(std::move(attributes)), y;
    }

    /** A matmul per expert; token_index and token_ks may be null. */
    TensorPtr moe_grouped_matmul(TensorPtr token, TensorPtr weight, TensorPtr first_token_offset, TensorPtr token_index,
                                 TensorPtr token_ks, MoeGroupedMatmulAttributes attributes)
    {
        begin(attributes, "MoeGroupedMatmul_", {});
        TensorPtr made = output(attributes, "OUTPUT");
        attributes.set_token(std::move(token))
            .set_weight(std::move(weight))
            .set_first_token_offset(std::move(first_token_offset));
        if (token_index != nullptr)
        {
            attributes.set_token_index(std::move(token_index));
        }
        if (token_ks != nullptr)
        {
            attributes.set_token_ks(std::move(token_ks));
        }
        attributes.set_output(made);
        return add(std::move(attributes)), made;
    }
    TensorPtr moe_grouped_matmul(TensorPtr token, TensorPtr weight, TensorPtr first_token_offset,
                                 MoeGroupedMatmulAttributes attributes)
    {
        return moe_grouped_matmul(std::move(token), std::move(weight), std::move(first_token_offset), nullptr, nullptr,
                                  std::move(attributes));
    }

    /** Backward weights of a grouped matmul. */
    TensorPtr moe_grouped_matmul_bwd(TensorPtr doutput, TensorPtr token, TensorPtr first_token_offset,
                                     MoeGroupedMatmulBwdAttributes attributes)
    {
        begin(attributes, "MoeGroupedMatmulBwd_", {});
        TensorPtr made = output(attributes, "DWEIGHT");
        attributes.set_doutput(std::move(doutput)).set_token(std::move(token));
        attributes.set_first_token_offset(std::move(first_token_offset)).set_dweight(made);
        return add(std::move(attributes)), made;
    }

    /** An operation of a plugin; the caller sets its outputs' shapes. */
    std::vector<TensorPtr> custom_op(std::vector<TensorPtr> inputs, size_t outputs, CustomOpAttributes attributes)
    {
        begin(attributes, ("CustomOp_" + attributes.get_custom_op_id() + "_").c_str(), {});
        for (size_t i = 0; i < inputs.size(); i++)
        {
            if (inputs[i] != nullptr && inputs[i]->get_name().empty())
            {
                inputs[i]->set_name(attributes.name + "::input_" + std::to_string(i));
            }
        }
        std::vector<TensorPtr> made;
        for (size_t i = 0; i < outputs; i++)
        {
            made.push_back(output(attributes, ("output_" + std::to_string(i)).c_str()));
        }
        attributes.set_inputs(std::move(inputs)).set_outputs(made);
        return add(std::move(attributes)), made;
    }

protected:
    /** Attention with an adapter's attributes, derived from ours. */
    template <typename Attributes>
    std::array<TensorPtr, 2> attention(TensorPtr q, TensorPtr k, TensorPtr v, Attributes attributes)
    {
        begin(attributes, "SdpaFwd_", {{q, "Q"}, {k, "K"}, {v, "V"}});
        const bool keeps = attributes.generate_stats.value_or(false);
        std::array<TensorPtr, 2> made = {output(attributes, "O"), keeps ? output(attributes, "STATS") : nullptr};
        attributes.set_q(std::move(q)).set_k(std::move(k)).set_v(std::move(v)).set_o(made[0]);
        if (keeps)
        {
            attributes.set_stats(made[1]);
        }
        return add(std::move(attributes)), made;
    }

    template <typename Attributes>
    std::array<TensorPtr, 3> attention_backward(TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o, TensorPtr d_o,
                                                TensorPtr stats, Attributes attributes)
    {
        begin(attributes, "SdpaBwd_", {{q, "Q"}, {k, "K"}, {v, "V"}, {d_o, "dO"}});
        std::array<TensorPtr, 3> made = {output(attributes, "dQ"), output(attributes, "dK"), output(attributes, "dV")};
        attributes.set_q(std::move(q))
            .set_k(std::move(k))
            .set_v(std::move(v))
            .set_o(std::move(o))
            .set_do(std::move(d_o));
        attributes.set_stats(std::move(stats)).set_dq(made[0]).set_dk(made[1]).set_dv(made[2]);
        return add(std::move(attributes)), made;
    }

    /** Names an operation that has no name, and inputs without names after it. */
    void begin(Operation& operation, const char* word,
               std::initializer_list<std::pair<TensorPtr, const char*>> inputs) const
    {
        if (operation.name.empty())
        {
            operation.name = word + std::to_string(_operations.size());
        }
        for (const auto& input : inputs)
        {
            if (input.first != nullptr && input.first->get_name().empty())
            {
                input.first->set_name(operation.name + "::" + input.second);
            }
        }
    }

    static TensorPtr output(const Operation& operation, const char* word)
    {
        TensorPtr made = std::make_shared<Tensor>();
        made->set_name(operation.name + "::" + word).set_is_virtual(true);
        return made;
    }

    template <typename Attributes>
    void add(Attributes&& attributes)
    {
        _operations.push_back(std::make_shared<std::decay_t<Attributes>>(std::forward<Attributes>(attributes)));
    }

private:
    TensorPtr finish(PointwiseAttributes&& attributes)
    {
        TensorPtr out = output(attributes, "OUT_0");
        attributes.set_output_0(out);
        return add(std::move(attributes)), out;
    }

    TensorPtr reduction_to(TensorPtr x, TensorPtr y, ReductionAttributes attributes)
    {
        attributes.set_x(std::move(x)).set_y(y);
        return add(std::move(attributes)), y;
    }

    template <typename Attributes>
    std::array<TensorPtr, 3> gradients(TensorPtr dy, TensorPtr x, TensorPtr scale, Attributes attributes)
    {
        std::array<TensorPtr, 3> made = {output(attributes, "DX"), output(attributes, "DSCALE"),
                                         output(attributes, "DBIAS")};
        attributes.set_dy(std::move(dy)).set_x(std::move(x)).set_scale(std::move(scale));
        attributes.set_dx(made[0]).set_dscale(made[1]).set_dbias(made[2]);
        return add(std::move(attributes)), made;
    }
};

} // namespace detail
} // namespace hipdnn
