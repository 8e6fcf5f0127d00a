/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Types, errors, tensors and attributes under the names of NVIDIA's frontend.
 */
#pragma once

#include "../../hipdnn.hpp"
#include "../cudnn.h"

#include <functional>

namespace hipdnn_frontend::compatibility::cudnn_frontend
{

using error_t = ::hipdnn::Error;
using error_object = ::hipdnn::Error;
using error_code_t = ::hipdnn::ErrorCode;
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

/** Properties of an engine. Engines here report compilation at run time, and other libraries that they call. */
enum class BehaviorNote_t {
    NOT_SET,
    RUNTIME_COMPILATION,
    REQUIRES_FILTER_INT8x32_REORDER,
    REQUIRES_BIAS_INT8x32_REORDER,
    SUPPORTS_CUDA_GRAPH_NATIVE_API,
    CUBLASLT_DEPENDENCY
};

enum class RngDistribution_t { NOT_SET, BERNOULLI, UNIFORM, NORMAL };
enum class ReshapeMode_t { NOT_SET, VIEW_ONLY, LOGICAL };
enum class NormMode_t { NOT_SET, LAYER_NORM, INSTANCE_NORM, BATCH_NORM, GROUP_NORM, RMS_NORM, ADA_LAYER_NORM };

/** A cache of compiled kernels. Equal graphs share their plans here anyway. */
class KernelCache
{
public:
    bool is_finalized() const { return true; }
    error_t status() const { return {}; }
};

/** A device of another machine. Plans are made on the device that they are for, so building one is refused. */
class DeviceProperties
{
public:
    DeviceProperties& set_device_id(int32_t) { return *this; }
    DeviceProperties& set_handle(hipdnnHandle_t) { return *this; }
    error_t status() const { return build(); }
    error_t build() const { return {error_code_t::GRAPH_NOT_SUPPORTED, REASON}; }
    error_t serialize(std::vector<uint8_t>&) const { return build(); }
    error_t deserialize(const std::vector<uint8_t>&) const { return build(); }

    static constexpr const char* REASON =
        "plans are made on the device that they are for, expected no properties of a device";
};

/** Properties of how an engine computes. */
enum class NumericalNote_t {
    TENSOR_CORE,
    DOWN_CONVERT_INPUTS,
    REDUCED_PRECISION_REDUCTION,
    FFT,
    NONDETERMINISTIC,
    WINOGRAD,
    WINOGRAD_TILE_4x4,
    WINOGRAD_TILE_6x6,
    WINOGRAD_TILE_13x13,
    STRICT_NAN_PROP,
    NOT_SET
};

namespace detail
{

inline size_t get_backend_version() { return CUDNN_VERSION; }
/** The size of an element in bits. */
inline size_t get_element_size_in_bits(DataType_t type)
{
    const bool small = type == DataType_t::FP4_E2M1 || type == DataType_t::INT4;
    return small ? 4 : type == DataType_t::BOOLEAN ? 1 : 8 * ::hipdnn::detail::bytes_of(type);
}

} // namespace detail

namespace graph
{

using cudnn_frontend::ScalarType;
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

/** Gradient of RMSnorm, which includes the gradient of the bias by default. */
class Rmsnorm_backward_attributes : public ::hipdnn::RMSNormBackwardAttributes
{
public:
    Rmsnorm_backward_attributes() { set_compute_dbias(true); }
    Rmsnorm_backward_attributes& has_dbias(bool value) { return set_compute_dbias(value), *this; }
    Rmsnorm_backward_attributes& set_name(const std::string& value) { return name = value, *this; }
    Rmsnorm_backward_attributes& set_compute_data_type(DataType_t type) { return compute_data_type = type, *this; }
};

class Graph;

/** Modifies the scores q k, by adding operations to the given graph. */
using AttentionScoreModifier_t = std::function<Tensor(std::shared_ptr<Graph>, Tensor)>;

namespace detail
{

/* Setters that choose how an engine computes, or bounds that the tensors' shapes give here; and the left bound, which
* counts the query's own key in cuDNN, but only the keys before it in hipDNN. */
#define HIPDNN_COMPAT_ATTENTION_SETTERS(Self)                                                                          \
    Self &set_max_total_seq_len_q(int64_t) { return *this; }                                                           \
    Self &set_max_total_seq_len_kv(int64_t) { return *this; }                                                          \
    Self &set_unfuse_fma(bool) { return *this; }                                                                       \
    Self &set_sliding_window_length(int64_t keys) { return set_diagonal_band_left_bound(keys); }                       \
    Self &set_diagonal_band_left_bound(int64_t keys)                                                                   \
    {                                                                                                                  \
        return keys < 1 ? refuse("the left bound is below 1, expected as many keys as a query sees with its own")      \
                        : set_left_bound(keys - 1);                                                                    \
    }

} // namespace detail

/** Attention. With a score function it is composed of matmuls, the function and a softmax. */
class SDPA_attributes : public ::hipdnn::detail::SdpaForward<SDPA_attributes>
{
public:
    AttentionScoreModifier_t score_mod;

    HIPDNN_COMPAT_ATTENTION_SETTERS(SDPA_attributes)
    SDPA_attributes& set_score_mod(AttentionScoreModifier_t function) { return score_mod = std::move(function), *this; }
    SDPA_attributes& _set_mma_core_mode(DataType_t type) { return set_mma_core_mode(type); }
    SDPA_attributes& set_stats_use_log2(bool value)
    {
        return value ? refuse("statistics of base 2 are asked for (set_stats_use_log2), expected natural logarithms")
                     : *this;
    }
    SDPA_attributes& set_cu_seq_len_q(const Tensor&) { return refuse_sums(); }
    SDPA_attributes& set_cu_seq_len_kv(const Tensor&) { return refuse_sums(); }

private:
    SDPA_attributes& refuse_sums()
    {
        return refuse("sums of lengths are given (set_cu_seq_len_...), expected lengths and ragged offsets");
    }
};

/** Gradient of attention. */
class SDPA_backward_attributes : public ::hipdnn::detail::SdpaBackward<SDPA_backward_attributes>
{
public:
    static constexpr bool lies_as_operand = true;
    Tensor sink_token, dsink_token;

    HIPDNN_COMPAT_ATTENTION_SETTERS(SDPA_backward_attributes)
    SDPA_backward_attributes& set_score_mod(const AttentionScoreModifier_t&) { return refuse_function(); }
    SDPA_backward_attributes& set_score_mod_bprop(const AttentionScoreModifier_t&) { return refuse_function(); }
    /** An additional score in each row of a head, [1, H, 1, 1]; the statistics include it. */
    SDPA_backward_attributes& set_sink_token(const Tensor& value) { return sink_token = value, *this; }
    /** The gradient of the sink, of its shape, to be written. */
    SDPA_backward_attributes& set_dsink_token(const Tensor& value) { return dsink_token = value, *this; }
    SDPA_backward_attributes& set_rng_dump(const Tensor&)
    {
        return refuse("the mask of dropout is asked for (set_rng_dump), expected it of the forward operation");
    }

private:
    SDPA_backward_attributes& refuse_function()
    {
        return refuse("a function that changes scores (set_score_mod) is given, expected masks and a bias");
    }
};
#undef HIPDNN_COMPAT_ATTENTION_SETTERS
using SDPA_fp8_attributes = SDPA_attributes;
using SDPA_fp8_backward_attributes = SDPA_backward_attributes;
using Scaled_dot_product_flash_attention_attributes = SDPA_attributes;
using Scaled_dot_product_flash_attention_backward_attributes = SDPA_backward_attributes;

namespace detail
{

/** The name of a composed operation, and its compute type. */
template <typename Self>
class Composed
{
public:
    std::string name;
    DataType_t compute_data_type = DataType_t::NOT_SET;

    Self& set_name(const std::string& value) { return name = value, self(); }
    Self& set_compute_data_type(DataType_t type) { return compute_data_type = type, self(); }

protected:
    Self& self() { return static_cast<Self&>(*this); }
};

/** A normalization that returns its statistics in training. */
template <typename Self>
class ComposedNorm : public Composed<Self>
{
public:
    NormFwdPhase_t forward_phase = NormFwdPhase_t::NOT_SET;
    Tensor epsilon;

    Self& set_forward_phase(NormFwdPhase_t phase) { return forward_phase = phase, this->self(); }
    Self& set_epsilon(Tensor value) { return epsilon = std::move(value), this->self(); }
};

/** The gradient of such a normalization, which needs its statistics. */
template <typename Self>
class ComposedNormBackward : public Composed<Self>
{
public:
    Tensor mean, inv_variance;

    Self& set_saved_mean_and_inv_variance(Tensor saved_mean, Tensor saved_inv_variance)
    {
        mean = std::move(saved_mean);
        inv_variance = std::move(saved_inv_variance);
        return this->self();
    }
};

} // namespace detail

/** Sums of channels. */
class Genstats_attributes : public detail::Composed<Genstats_attributes>
{
};
/** Normalization over the last dimensions, with scale and bias for each batch entry. */
class AdaLayernorm_attributes : public detail::ComposedNorm<AdaLayernorm_attributes>
{
};
class AdaLayernorm_backward_attributes : public detail::ComposedNormBackward<AdaLayernorm_backward_attributes>
{
};
/** Normalization of each channel of each image. */
class Instancenorm_attributes : public detail::ComposedNorm<Instancenorm_attributes>
{
};
class Instancenorm_backward_attributes : public detail::ComposedNormBackward<Instancenorm_backward_attributes>
{
};
/** A matmul of 8-bit operands with scales. */
class Matmul_fp8_attributes : public detail::Composed<Matmul_fp8_attributes>
{
};

/** Statistics of a batch normalization from sums. */
class BN_finalize_attributes : public detail::Composed<BN_finalize_attributes>
{
public:
    Tensor running_mean, running_variance, momentum;

    BN_finalize_attributes& set_previous_running_stats(Tensor mean, Tensor variance, Tensor rate)
    {
        running_mean = std::move(mean);
        running_variance = std::move(variance);
        momentum = std::move(rate);
        return *this;
    }
};
/** Gradients of a batch normalization's scale and bias, and the coefficients of the input's gradient. */
class DBN_weight_attributes : public detail::Composed<DBN_weight_attributes>
{
};

/** A permutation of dimensions. */
class Transpose_attributes : public detail::Composed<Transpose_attributes>
{
public:
    ::hipdnn::Dims permutation;

    Transpose_attributes& set_permutation(const ::hipdnn::Dims& order) { return permutation = order, *this; }
    const ::hipdnn::Dims& get_permutation() const { return permutation; }
};

/** A reshape. */
class Reshape_attributes : public detail::Composed<Reshape_attributes>
{
public:
    ::hipdnn::Dims dim, stride;

    Reshape_attributes& set_dim(const ::hipdnn::Dims& value) { return dim = value, *this; }
    Reshape_attributes& set_stride(const ::hipdnn::Dims& value) { return stride = value, *this; }
    Reshape_attributes& set_reshape_mode(ReshapeMode_t) { return *this; }
    const ::hipdnn::Dims& get_dim() const { return dim; }
    const ::hipdnn::Dims& get_stride() const { return stride; }
};

/** A slice: in each dimension from a start index to below an end index, with a step. */
class Slice_attributes : public detail::Composed<Slice_attributes>
{
public:
    std::vector<std::pair<int64_t, int64_t>> slices;
    ::hipdnn::Dims strides;

    Slice_attributes& set_slices(const std::vector<std::pair<int64_t, int64_t>>& value)
    {
        return slices = value, *this;
    }
    Slice_attributes& set_strides(const ::hipdnn::Dims& value) { return strides = value, *this; }
};

namespace detail
{

/** The attributes of an operation that hipDNN lacks: ignored, as the graph is rejected. */
template <typename Tag>
class Refused : public Composed<Refused<Tag>>
{
public:
    Refused& set_axis(int64_t) { return *this; }
    Refused& set_in_place_index(int64_t) { return *this; }
    Refused& set_distribution(RngDistribution_t) { return *this; }
    Refused& set_bernoulli_probability(double) { return *this; }
    Refused& set_seed(int64_t) { return *this; }
    Refused& set_dim(const ::hipdnn::Dims&) { return *this; }
    Refused& set_stride(const ::hipdnn::Dims&) { return *this; }
    Refused& set_output_scale(float) { return *this; }
    Refused& set_rope_dim(int64_t) { return *this; }
};

} // namespace detail

using Concatenate_attributes = detail::Refused<struct ConcatenateTag>;
using Rng_attributes = detail::Refused<struct RngTag>;
using RoPE_attributes = detail::Refused<struct RopeTag>;
using RoPE_backward_attributes = detail::Refused<struct RopeBackwardTag>;

} // namespace graph
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
