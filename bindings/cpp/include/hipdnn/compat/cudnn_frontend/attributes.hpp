/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Types, errors, tensors and attributes by the names of NVIDIA's frontend.
 */
#pragma once

#include "../../hipdnn.hpp"

namespace cudnn_frontend
{

using error_t = ::hipdnn::Error;
using error_object = ::hipdnn::Error;
using error_code_t = ::hipdnn::ErrorCode;
using BehaviorNote_t = ::hipdnn::BehaviorNote;
using BuildPlanPolicy_t = ::hipdnn::BuildPlanPolicy;
using ConvolutionMode_t = ::hipdnn::ConvolutionMode;
using DataType_t = ::hipdnn::DataType;
using DiagonalAlignment_t = ::hipdnn::DiagonalAlignment;
using AttentionImplementation_t = ::hipdnn::AttentionImplementation;
using HeurMode_t = ::hipdnn::HeuristicMode;
using MoeGroupedMatmulMode_t = ::hipdnn::MoeGroupedMatmulMode;
using NormFwdPhase_t = ::hipdnn::NormFwdPhase;
using PaddingMode_t = ::hipdnn::PaddingMode;
using PointwiseMode_t = ::hipdnn::PointwiseMode;
using ReductionMode_t = ::hipdnn::ReductionMode;
using ResampleMode_t = ::hipdnn::ResampleMode;
using TensorReordering_t = ::hipdnn::TensorReordering;
using ScalarType = ::hipdnn::ScalarType;
using ::hipdnn::to_string;

/** Facts about how an engine computes, which engines here do not tell. */
enum class NumericalNote_t
{
    TENSOR_CORE, DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, FFT, NONDETERMINISTIC, WINOGRAD, WINOGRAD_TILE_4x4,
    WINOGRAD_TILE_6x6, WINOGRAD_TILE_13x13, STRICT_NAN_PROP, NOT_SET
};

namespace graph
{

using Tensor_attributes = ::hipdnn::Tensor;
using Tensor = ::hipdnn::TensorPtr;
using Batchnorm_attributes = ::hipdnn::BatchnormAttributes;
using Batchnorm_backward_attributes = ::hipdnn::BatchnormBackwardAttributes;
using Batchnorm_inference_attributes = ::hipdnn::BatchnormInferenceAttributes;
using Block_scale_dequantize_attributes = ::hipdnn::BlockScaleDequantizeAttributes;
using Block_scale_quantize_attributes = ::hipdnn::BlockScaleQuantizeAttributes;
using Conv_dgrad_attributes = ::hipdnn::ConvDgradAttributes;
using Conv_fprop_attributes = ::hipdnn::ConvFpropAttributes;
using Conv_wgrad_attributes = ::hipdnn::ConvWgradAttributes;
using Layernorm_attributes = ::hipdnn::LayernormAttributes;
using Layernorm_backward_attributes = ::hipdnn::LayernormBackwardAttributes;
using Matmul_attributes = ::hipdnn::MatmulAttributes;
using Moe_grouped_matmul_attributes = ::hipdnn::MoeGroupedMatmulAttributes;
using Moe_grouped_matmul_bwd_attributes = ::hipdnn::MoeGroupedMatmulBwdAttributes;
using Pointwise_attributes = ::hipdnn::PointwiseAttributes;
using Reduction_attributes = ::hipdnn::ReductionAttributes;
using Resample_attributes = ::hipdnn::ResampleFwdAttributes;
using Rmsnorm_attributes = ::hipdnn::RMSNormAttributes;

/** Gradient of RMSnorm, which has a gradient of the bias unless the program says otherwise. */
class Rmsnorm_backward_attributes : public ::hipdnn::RMSNormBackwardAttributes
{
public:
    Rmsnorm_backward_attributes() { set_compute_dbias(true); }
    Rmsnorm_backward_attributes &has_dbias(bool value) { return set_compute_dbias(value), *this; }
    Rmsnorm_backward_attributes &set_name(const std::string &value) { return name = value, *this; }
    Rmsnorm_backward_attributes &set_compute_data_type(DataType_t type) { return compute_data_type = type, *this; }
};

/** Attention. A function that changes scores is refused when the graph is validated. */
class SDPA_attributes : public ::hipdnn::detail::SdpaForward<SDPA_attributes>
{
public:
    template <typename Function>
    SDPA_attributes &set_score_mod(Function)
    {
        return refuse("a function that changes scores (set_score_mod) is given, expected masks and a bias");
    }
};

/** Gradient of attention. */
class SDPA_backward_attributes : public ::hipdnn::detail::SdpaBackward<SDPA_backward_attributes>
{
public:
    template <typename Function>
    SDPA_backward_attributes &set_score_mod(Function)
    {
        return refuse("a function that changes scores (set_score_mod) is given, expected masks and a bias");
    }
    template <typename Function>
    SDPA_backward_attributes &set_score_mod_bprop(Function function)
    {
        return set_score_mod(function);
    }
};
using SDPA_fp8_attributes = SDPA_attributes;
using SDPA_fp8_backward_attributes = SDPA_backward_attributes;
using Scaled_dot_product_flash_attention_attributes = SDPA_attributes;
using Scaled_dot_product_flash_attention_backward_attributes = SDPA_backward_attributes;

/** Sums of channels. */
class Genstats_attributes
{
public:
    std::string name;
    DataType_t compute_data_type = DataType_t::NOT_SET;

    Genstats_attributes &set_name(const std::string &value) { return name = value, *this; }
    Genstats_attributes &set_compute_data_type(DataType_t type) { return compute_data_type = type, *this; }
};

namespace detail
{

/** The attributes of an operation that hipDNN does not have: the graph is refused, so what programs set is passed over. */
template <typename Tag>
class Refused
{
public:
    std::string name;

    Refused &set_name(const std::string &value) { return name = value, *this; }
#define HIPDNN_COMPAT_PASSED_OVER(setter)    \
    template <typename... Values>            \
    Refused &setter(Values &&...)            \
    {                                        \
        return *this;                        \
    }
    HIPDNN_COMPAT_PASSED_OVER(set_compute_data_type)
    HIPDNN_COMPAT_PASSED_OVER(set_forward_phase)
    HIPDNN_COMPAT_PASSED_OVER(set_epsilon)
    HIPDNN_COMPAT_PASSED_OVER(set_saved_mean_and_inv_variance)
    HIPDNN_COMPAT_PASSED_OVER(set_previous_running_stats)
    HIPDNN_COMPAT_PASSED_OVER(set_slices)
    HIPDNN_COMPAT_PASSED_OVER(set_permutation)
    HIPDNN_COMPAT_PASSED_OVER(set_axis)
    HIPDNN_COMPAT_PASSED_OVER(set_in_place_index)
    HIPDNN_COMPAT_PASSED_OVER(set_distribution)
    HIPDNN_COMPAT_PASSED_OVER(set_bernoulli_probability)
    HIPDNN_COMPAT_PASSED_OVER(set_dim)
    HIPDNN_COMPAT_PASSED_OVER(set_stride)
    HIPDNN_COMPAT_PASSED_OVER(set_reshape_mode)
#undef HIPDNN_COMPAT_PASSED_OVER
};

} // namespace detail

using AdaLayernorm_attributes = detail::Refused<struct AdaLayernormTag>;
using AdaLayernorm_backward_attributes = detail::Refused<struct AdaLayernormBackwardTag>;
using Instancenorm_attributes = detail::Refused<struct InstancenormTag>;
using Instancenorm_backward_attributes = detail::Refused<struct InstancenormBackwardTag>;
using BN_finalize_attributes = detail::Refused<struct BnFinalizeTag>;
using DBN_weight_attributes = detail::Refused<struct DbnWeightTag>;
using Slice_attributes = detail::Refused<struct SliceTag>;
using Transpose_attributes = detail::Refused<struct TransposeTag>;
using Reshape_attributes = detail::Refused<struct ReshapeTag>;
using Concatenate_attributes = detail::Refused<struct ConcatenateTag>;
using Rng_attributes = detail::Refused<struct RngTag>;

} // namespace graph
} // namespace cudnn_frontend
