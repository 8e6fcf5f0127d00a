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
class PointwiseFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { IN_0, IN_1, IN_2 };
    enum class OutputNames { OUT_0 };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 3> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(IN_0, input_0)
    HIPDNN_CPP_OUTPUT(OUT_0, output_0)
    HIPDNN_CPP_INPUT(IN_1, input_1)
    HIPDNN_CPP_INPUT(IN_2, input_2)
    /** The dimension of GEN_INDEX. */
    HIPDNN_CPP_OPTIONAL(int64_t, axis)
    /** The function. */
    HIPDNN_CPP_FIELD(PointwiseMode, mode, PointwiseMode())
    /** Lower bound of RELU, 0 by default. */
    HIPDNN_CPP_OPTIONAL(float, relu_lower_clip)
    /** Upper bound of RELU, the largest finite value by default. */
    HIPDNN_CPP_OPTIONAL(float, relu_upper_clip)
    /** Slope of RELU below its lower bound, 0 by default. */
    HIPDNN_CPP_OPTIONAL(float, relu_lower_clip_slope)
    /** Beta of SWISH, 1 by default. */
    HIPDNN_CPP_OPTIONAL(float, swish_beta)
    /** Alpha of ELU, 1 by default. */
    HIPDNN_CPP_OPTIONAL(float, elu_alpha)
    /** Beta of SOFTPLUS, 1 by default. */
    HIPDNN_CPP_OPTIONAL(float, softplus_beta)

    OperationKind kind() const override
    {
        return {"pointwise", HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, HIPDNN_OPERATION_TYPE_POINTWISE_EXT, HIPDNN_ATTR_POINTWISE_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, inputs[InputNames::IN_0], "in_0", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, outputs[OutputNames::OUT_0], "out_0", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT, inputs[InputNames::IN_1], "in_1", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_POINTWISE_IN_2_EXT, inputs[InputNames::IN_2], "in_2", Role::OptionalInput);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_AXIS, HIPDNN_TYPE_INT64, axis);
        visit_mode(visitor, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, mode);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, HIPDNN_TYPE_FLOAT, relu_lower_clip);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, HIPDNN_TYPE_FLOAT, relu_upper_clip);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, HIPDNN_TYPE_FLOAT, relu_lower_clip_slope);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_SWISH_BETA, HIPDNN_TYPE_FLOAT, swish_beta);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_ELU_ALPHA, HIPDNN_TYPE_FLOAT, elu_alpha);
        visit_value(visitor, HIPDNN_ATTR_POINTWISE_SOFTPLUS_BETA, HIPDNN_TYPE_FLOAT, softplus_beta);
    }
};

template <typename Derived>
class ConvolutionForwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, W };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 2> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(W, w)
    HIPDNN_CPP_OUTPUT(Y, y)
    /** Elements of zero padding before each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, pre_padding)
    /** Elements of zero padding after each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, post_padding)
    /** Stride of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, stride)
    /** Spacing of filter elements along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, dilation)

    OperationKind kind() const override
    {
        return {"conv_fprop", HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT, HIPDNN_ATTR_CONVOLUTION_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, inputs[InputNames::W], "w", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, outputs[OutputNames::Y], "y", Role::Output);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pre_padding);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, post_padding);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
    }
};

template <typename Derived>
class ConvolutionBackwardDataFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { DY, W };
    enum class OutputNames { DX };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 2> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_INPUT(W, w)
    HIPDNN_CPP_OUTPUT(DX, dx)
    /** Elements of zero padding before each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, pre_padding)
    /** Elements of zero padding after each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, post_padding)
    /** Stride of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, stride)
    /** Spacing of filter elements along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, dilation)

    OperationKind kind() const override
    {
        return {"conv_dgrad", HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_DATA_EXT, HIPDNN_ATTR_CONVOLUTION_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, inputs[InputNames::W], "w", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pre_padding);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, post_padding);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
    }
};

template <typename Derived>
class ConvolutionBackwardFilterFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, DY };
    enum class OutputNames { DW };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 2> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_OUTPUT(DW, dw)
    /** Elements of zero padding before each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, pre_padding)
    /** Elements of zero padding after each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, post_padding)
    /** Stride of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, stride)
    /** Spacing of filter elements along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, dilation)

    OperationKind kind() const override
    {
        return {"conv_wgrad", HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_WEIGHTS_EXT, HIPDNN_ATTR_CONVOLUTION_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, outputs[OutputNames::DW], "dw", Role::Output);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pre_padding);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, post_padding);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
        visitor.integers(HIPDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
    }
};

template <typename Derived>
class MatmulFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { A, B };
    enum class OutputNames { C };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 2> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(A, a)
    HIPDNN_CPP_INPUT(B, b)
    HIPDNN_CPP_OUTPUT(C, c)

    OperationKind kind() const override
    {
        return {"matmul", HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, HIPDNN_OPERATION_TYPE_MATMUL_EXT, HIPDNN_ATTR_MATMUL_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_MATMUL_ADESC, inputs[InputNames::A], "a", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MATMUL_BDESC, inputs[InputNames::B], "b", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MATMUL_CDESC, outputs[OutputNames::C], "c", Role::Output);
    }
};

template <typename Derived>
class BlockScaleDequantizeFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X, SCALE };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 2> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_INPUT(SCALE, scale)
    HIPDNN_CPP_OUTPUT(Y, y)
    /** Whether scales are negated exponents. */
    HIPDNN_CPP_FIELD(bool, is_negative_scale, false)

    OperationKind kind() const override
    {
        return {"block_scale_dequantize", HIPDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR, HIPDNN_OPERATION_TYPE_BLOCK_SCALE_DEQUANTIZE_EXT, HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC, inputs[InputNames::SCALE], "scale", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC, outputs[OutputNames::Y], "y", Role::Output);
        visit_flag(visitor, HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE, is_negative_scale);
    }
};

template <typename Derived>
class BlockScaleQuantizeFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X };
    enum class OutputNames { Y, SCALE };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 1> inputs;
    Slots<OutputNames, 2> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_OUTPUT(SCALE, scale)
    /** Number of elements that share a scale. */
    HIPDNN_CPP_OPTIONAL(int32_t, block_size)
    /** The dimension along which blocks extend. */
    HIPDNN_CPP_OPTIONAL(int64_t, axis)
    /** Whether the output is transposed. */
    HIPDNN_CPP_FIELD(bool, transpose, false)

    OperationKind kind() const override
    {
        return {"block_scale_quantize", HIPDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR, HIPDNN_OPERATION_TYPE_BLOCK_SCALE_QUANTIZE_EXT, HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_XDESC, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC, outputs[OutputNames::SCALE], "scale", Role::Output);
        visit_value(visitor, HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE, HIPDNN_TYPE_INT32, block_size);
        visit_value(visitor, HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_AXIS_EXT, HIPDNN_TYPE_INT64, axis);
        visit_flag(visitor, HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_TRANSPOSE_EXT, transpose);
    }
};

template <typename Derived>
class ReductionFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X };
    enum class OutputNames { Y };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 1> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_OUTPUT(Y, y)
    /** Whether every run must produce the same bits. */
    HIPDNN_CPP_FIELD(bool, is_deterministic, false)

    OperationKind kind() const override
    {
        return {"reduction", HIPDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, HIPDNN_OPERATION_TYPE_REDUCTION_EXT, HIPDNN_ATTR_REDUCTION_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_REDUCTION_XDESC, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_REDUCTION_YDESC, outputs[OutputNames::Y], "y", Role::Output);
        visit_flag(visitor, HIPDNN_ATTR_REDUCTION_IS_DETERMINISTIC, is_deterministic);
    }
};

template <typename Derived>
class ResampleForwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { X };
    enum class OutputNames { Y, INDEX };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 1> inputs;
    Slots<OutputNames, 2> outputs;
    HIPDNN_CPP_INPUT(X, x)
    HIPDNN_CPP_OUTPUT(Y, y)
    HIPDNN_CPP_OUTPUT(INDEX, index)
    /** Elements of zero padding before each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, pre_padding)
    /** Elements of zero padding after each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, post_padding)
    /** Stride of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, stride)
    /** Size of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, window)
    /** How a window is reduced. */
    HIPDNN_CPP_FIELD(ResampleMode, resample_mode, ResampleMode())
    /** The value of padding. */
    HIPDNN_CPP_FIELD(PaddingMode, padding_mode, PaddingMode())
    /** Whether the index tensor is written. */
    HIPDNN_CPP_FIELD(bool, generate_index, false)

    OperationKind kind() const override
    {
        return {"resample_fwd", HIPDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, HIPDNN_OPERATION_TYPE_RESAMPLE_FWD, HIPDNN_ATTR_RESAMPLE_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, inputs[InputNames::X], "x", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, outputs[OutputNames::Y], "y", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, outputs[OutputNames::INDEX], "index", Role::OptionalOutput);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_PRE_PADDINGS, pre_padding);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_POST_PADDINGS, post_padding);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_STRIDES, stride);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_WINDOW_DIMS, window);
        visit_mode(visitor, HIPDNN_ATTR_RESAMPLE_MODE, HIPDNN_TYPE_RESAMPLE_MODE, resample_mode);
        visit_mode(visitor, HIPDNN_ATTR_RESAMPLE_PADDING_MODE, HIPDNN_TYPE_PADDING_MODE, padding_mode, false);
        visit_flag(visitor, HIPDNN_ATTR_RESAMPLE_GENERATE_INDEX_EXT, generate_index);
    }
};

template <typename Derived>
class ResampleBackwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { DY, INDEX };
    enum class OutputNames { DX };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 2> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(DY, dy)
    HIPDNN_CPP_OUTPUT(DX, dx)
    HIPDNN_CPP_INPUT(INDEX, index)
    /** Elements of zero padding before each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, pre_padding)
    /** Elements of zero padding after each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, post_padding)
    /** Stride of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, stride)
    /** Size of the window along each spatial dimension. */
    HIPDNN_CPP_LIST(Dims, window)
    /** How a window is reduced. */
    HIPDNN_CPP_FIELD(ResampleMode, resample_mode, ResampleMode())
    /** The value of padding. */
    HIPDNN_CPP_FIELD(PaddingMode, padding_mode, PaddingMode())

    OperationKind kind() const override
    {
        return {"resample_bwd", HIPDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, HIPDNN_OPERATION_TYPE_RESAMPLE_BWD_EXT, HIPDNN_ATTR_RESAMPLE_COMP_TYPE};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, inputs[InputNames::DY], "dy", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, outputs[OutputNames::DX], "dx", Role::Output);
        visitor.tensor(HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, inputs[InputNames::INDEX], "index", Role::OptionalInput);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_PRE_PADDINGS, pre_padding);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_POST_PADDINGS, post_padding);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_STRIDES, stride);
        visitor.integers(HIPDNN_ATTR_RESAMPLE_WINDOW_DIMS, window);
        visit_mode(visitor, HIPDNN_ATTR_RESAMPLE_MODE, HIPDNN_TYPE_RESAMPLE_MODE, resample_mode);
        visit_mode(visitor, HIPDNN_ATTR_RESAMPLE_PADDING_MODE, HIPDNN_TYPE_PADDING_MODE, padding_mode, false);
    }
};

template <typename Derived>
class MoeGroupedMatmulFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { TOKEN, WEIGHT, FIRST_TOKEN_OFFSET, TOKEN_INDEX, TOKEN_KS };
    enum class OutputNames { OUTPUT };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 5> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(TOKEN, token)
    HIPDNN_CPP_INPUT(WEIGHT, weight)
    HIPDNN_CPP_INPUT(FIRST_TOKEN_OFFSET, first_token_offset)
    HIPDNN_CPP_INPUT(TOKEN_INDEX, token_index)
    HIPDNN_CPP_INPUT(TOKEN_KS, token_ks)
    HIPDNN_CPP_OUTPUT(OUTPUT, output)
    /** How rows are addressed. */
    HIPDNN_CPP_FIELD(MoeGroupedMatmulMode, mode, MoeGroupedMatmulMode())
    /** Number of experts per token. */
    HIPDNN_CPP_FIELD(int32_t, top_k, 0)

    OperationKind kind() const override
    {
        return {"moe_grouped_matmul", HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR, HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_EXT, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC, inputs[InputNames::TOKEN], "token", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC, inputs[InputNames::WEIGHT], "weight", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC, inputs[InputNames::FIRST_TOKEN_OFFSET], "first_token_offset", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC, inputs[InputNames::TOKEN_INDEX], "token_index", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC, inputs[InputNames::TOKEN_KS], "token_ks", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC, outputs[OutputNames::OUTPUT], "output", Role::Output);
        visit_mode(visitor, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE, HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE, mode, false);
        visit_number(visitor, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K, HIPDNN_TYPE_INT32, top_k);
    }
};

template <typename Derived>
class MoeGroupedMatmulBackwardFields : public Attributes<Derived>
{
public:
    using Self = Derived;
    enum class InputNames { DOUTPUT, TOKEN, FIRST_TOKEN_OFFSET };
    enum class OutputNames { DWEIGHT };
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, 3> inputs;
    Slots<OutputNames, 1> outputs;
    HIPDNN_CPP_INPUT(DOUTPUT, doutput)
    HIPDNN_CPP_INPUT(TOKEN, token)
    HIPDNN_CPP_INPUT(FIRST_TOKEN_OFFSET, first_token_offset)
    HIPDNN_CPP_OUTPUT(DWEIGHT, dweight)

    OperationKind kind() const override
    {
        return {"moe_grouped_matmul_bwd", HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR, HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_BWD_EXT, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC, inputs[InputNames::DOUTPUT], "doutput", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC, inputs[InputNames::TOKEN], "token", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC, inputs[InputNames::FIRST_TOKEN_OFFSET], "first_token_offset", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC, outputs[OutputNames::DWEIGHT], "dweight", Role::Output);
    }
};

} // namespace detail
} // namespace hipdnn
