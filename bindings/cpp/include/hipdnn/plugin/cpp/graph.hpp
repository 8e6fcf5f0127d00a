/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Graphs as plugins get them: plain structs, read from the bytes of both interface generations.
 */
#pragma once

#include "bytes.hpp"

#include <map>
#include <optional>

namespace hipdnn_plugin
{

/** Types of elements, by their numbers on the wire. */
enum class DataType : int8_t {
    UNSET,
    FLOAT,
    HALF,
    BFLOAT16,
    DOUBLE,
    UINT8,
    INT32,
    INT8,
    FP8_E4M3,
    FP8_E5M2,
    FP8_E8M0,
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    INT4,
    INT64,
    BOOLEAN,
    FP8_E4M3_FNUZ,
    FP8_E5M2_FNUZ
};

/** Kinds of operations, by their numbers on the wire. */
enum class Kind : uint8_t {
    NONE,
    BatchnormInference,
    Pointwise,
    BatchnormBackward,
    Batchnorm,
    ConvolutionFwd,
    ConvolutionBwd,
    ConvolutionWrw,
    BatchnormInferenceVarianceExt,
    Matmul,
    RMSNorm,
    Layernorm,
    Sdpa,
    BlockScaleDequantize,
    BlockScaleQuantize,
    SdpaBackward,
    CustomOp,
    RMSNormBackward,
    Reduction,
    ResampleFwd,
    LayernormBackward,
    ResampleBwd,
    MoeGroupedMatmul,
    MoeGroupedMatmulBwd
};

/* Numbers of modes on the wire: `operation` of Pointwise and `conv_mode` of convolutions. Others are in hipdnn.fbs. */
enum PointwiseMode : int64_t { POINTWISE_ADD = 2, POINTWISE_MUL = 30, POINTWISE_RELU_FWD = 34, POINTWISE_SUB = 42 };
enum ConvMode : int64_t { CONV_UNSET = 0, CONV_CONVOLUTION = 1, CONV_CROSS_CORRELATION = 2 };

/** A tensor of a graph. */
struct Tensor
{
    int64_t uid = 0;
    std::string name;
    DataType type = DataType::UNSET;
    std::vector<int64_t> strides; ///< In elements, one for each dimension.
    std::vector<int64_t> dims;
    bool is_virtual = false;
    std::optional<double> value;           ///< Of a scalar: its constant, or its default if an execution gives none.
    bool is_runtime_pass_by_value = false; ///< Memory is on the host at execution.
    std::optional<int64_t> ragged_offset_uid;
    int64_t alignment = 16; ///< Bytes.
    int64_t ragged_offset_multiplier = 1;

    int64_t volume() const
    {
        int64_t product = 1;
        for (const int64_t dim : dims)
        {
            product *= dim;
        }
        return product;
    }
    /** Whether it is a program's memory, of this type and rank and packed. */
    bool is_plain(DataType of, size_t rank) const
    {
        return type == of && dims.size() == rank && is_packed() && !is_virtual && !value;
    }
    /** Whether it is packed in the order of the dimensions. */
    bool is_packed() const
    {
        int64_t next = 1;
        for (size_t i = dims.size(); i-- > 0;)
        {
            if (dims[i] != 1 && strides[i] != next)
            {
                return false;
            }
            next *= dims[i];
        }
        return true;
    }
};

/** An operation: its fields by their names in hipdnn.fbs; an optional field that is not set is absent. */
struct Node
{
    std::string name;
    DataType compute_type = DataType::UNSET; ///< UNSET in graphs of 2025.
    Kind kind = Kind::NONE;
    std::map<std::string, int64_t> integers; ///< Uids of tensors (`x_tensor_uid`), modes, flags and counts.
    std::map<std::string, double> reals;
    std::map<std::string, std::vector<int64_t>> lists;
    std::map<std::string, std::string> texts;

    /** The uid of a tensor by the name of its field without `_tensor_uid`; absent if the operation has none. */
    std::optional<int64_t> uid(const std::string& field) const { return integer(field + "_tensor_uid"); }
    std::optional<int64_t> integer(const std::string& field) const
    {
        const auto found = integers.find(field);
        return found == integers.end() ? std::nullopt : std::optional<int64_t>(found->second);
    }
    std::optional<double> real(const std::string& field) const
    {
        const auto found = reals.find(field);
        return found == reals.end() ? std::nullopt : std::optional<double>(found->second);
    }
    /** Whether the operation reads or writes a tensor. */
    bool uses(int64_t tensor) const
    {
        for (const auto& field : integers)
        {
            if (is_uid(field.first) && field.second == tensor)
            {
                return true;
            }
        }
        return false;
    }
    /** Whether a field is the uid of a tensor. */
    static bool is_uid(const std::string& field)
    {
        return field.size() > 11 && field.compare(field.size() - 11, 11, "_tensor_uid") == 0;
    }
    /** A list, empty if it is absent. */
    std::vector<int64_t> list(const std::string& field) const
    {
        const auto found = lists.find(field);
        return found == lists.end() ? std::vector<int64_t>() : found->second;
    }
};

namespace detail
{

/** Fields in the order of the schema: l long, i int, b byte, f float, s text; upper case for lists; ? for optional ones. */
inline const char* fields_of(Kind kind)
{
#define U "_tensor_uid:l "
#define O "_tensor_uid:l? "
#define PADS "pre_padding:L post_padding:L stride:L "
    switch (kind)
    {
    case Kind::BatchnormInference: return "x" U "mean" U "inv_variance" U "scale" U "bias" U "y" U;
    case Kind::Pointwise:
        return "operation:b relu_lower_clip:f? relu_upper_clip:f? relu_lower_clip_slope:f? axis" O "in_0" U "in_1" O
               "in_2" O "out_0" U "swish_beta:f? elu_alpha:f? softplus_beta:f? ";
    case Kind::BatchnormBackward:
        return "dy" U "x" U "mean" O "inv_variance" O "scale" U "peer_stats:L dx" U "dscale" U "dbias" U;
    case Kind::Batchnorm:
        return "x" U "scale" U "bias" U "epsilon" U "peer_stats:L prev_running_mean" O "prev_running_variance" O
               "momentum" O "y" U "mean" O "inv_variance" O "next_running_mean" O "next_running_variance" O;
    case Kind::ConvolutionFwd: return "x" U "w" U "y" U PADS "dilation:L conv_mode:b ";
    case Kind::ConvolutionBwd: return "dy" U "w" U "dx" U PADS "dilation:L conv_mode:b ";
    case Kind::ConvolutionWrw: return "x" U "dy" U "dw" U PADS "dilation:L conv_mode:b ";
    case Kind::BatchnormInferenceVarianceExt: return "x" U "mean" U "variance" U "scale" U "bias" U "y" U "epsilon" U;
    case Kind::Matmul: return "a" U "b" U "c" U;
    case Kind::RMSNorm: return "x" U "scale" U "epsilon" U "y" U "bias" O "inv_rms" O "forward_phase:b ";
    case Kind::Layernorm:
        return "x" U "scale" U "bias" U "epsilon" U "y" U "normalized_dim_count:l mean" O "inv_variance" O
               "forward_phase:b ";
    case Kind::Sdpa:
        return "q" U "k" U "v" U "o" U "attn_mask" O "scale" O "seq_len_q" O "seq_len_kv" O "seed" O "offset" O
               "dropout_mask" O "dropout_scale" O "page_table_k" O "page_table_v" O "block_mask" O "sink_token" O
               "descale_q" O "descale_k" O "descale_v" O "descale_s" O "scale_s" O "scale_o" O "stats" O "max" O
               "sum_exp" O "rng_dump" O "amax_s" O "amax_o" O
               "generate_stats:b? alibi_mask:b padding_mask:b causal_mask:b causal_mask_bottom_right:b "
               "dropout_probability:f? "
               "attn_scale_value:f? left_bound:l? right_bound:l? max_seq_len_kv:i? diagonal_alignment:b "
               "mma_core_mode:b implementation:b ";
    case Kind::BlockScaleDequantize: return "x" U "scale" U "y" U "block_size:I is_negative_scale:b ";
    case Kind::BlockScaleQuantize: return "x" U "y" U "scale" U "block_size:i axis:l? transpose:b ";
    case Kind::SdpaBackward:
        return "q" U "k" U "v" U "o" U "do" U "stats" U "dq" U "dk" U "dv" U "scale" O "attn_mask" O "seq_len_q" O
               "seq_len_kv" O "seed" O "offset" O "dropout_mask" O "dropout_scale" O "dropout_scale_inv" O "dbias" O
               "alibi_mask:b padding_mask:b causal_mask:b "
               "causal_mask_bottom_right:b dropout_probability:f? attn_scale_value:f? left_bound:l? right_bound:l? "
               "diagonal_alignment:b ";
    case Kind::CustomOp: return "custom_op_id:s input_tensor_uids:L output_tensor_uids:L data:B ";
    case Kind::RMSNormBackward: return "dy" U "x" U "scale" U "inv_rms" O "dx" U "dscale" U "dbias" O;
    case Kind::Reduction: return "mode:b in" U "out" U "is_deterministic:b ";
    case Kind::ResampleFwd:
        return "x" U "y" U "index" O PADS "window:L resample_mode:b padding_mode:b generate_index:b? ";
    case Kind::LayernormBackward:
        return "dy" U "x" U "scale" U "mean" O "inv_variance" O "epsilon" O "dx" U "dscale" U "dbias" U
               "normalized_dim_count:l ";
    case Kind::ResampleBwd: return "dy" U "dx" U "index" O PADS "window:L resample_mode:b padding_mode:b ";
    case Kind::MoeGroupedMatmul:
        return "token" U "weight" U "first_token_offset" U "token_index" O "token_ks" O "output" U "mode:b top_k:i ";
    case Kind::MoeGroupedMatmulBwd: return "doutput" U "token" U "first_token_offset" U "dweight" U;
    case Kind::NONE: break;
    }
#undef U
#undef O
#undef PADS
    throw std::invalid_argument("operation " + std::to_string(static_cast<int>(kind)) +
                                " is unknown, expected 1 to 23");
}

template <typename Number>
std::vector<int64_t> widened(const std::vector<Number>& list)
{
    return std::vector<int64_t>(list.begin(), list.end());
}

inline void read_fields(const Table& table, Node& node)
{
    size_t slot = 0;
    for (const char* at = fields_of(node.kind); *at != '\0'; slot++)
    {
        const char *colon = std::strchr(at, ':'), *space = std::strchr(colon, ' ');
        const std::string name(at, colon);
        const char type = colon[1];
        const bool absent = space[-1] == '?' && !table.has(slot);
        at = space + 1;
        if (absent)
        {
            continue;
        }
        switch (type)
        {
        case 'l': node.integers[name] = table.number<int64_t>(slot, 0); break;
        case 'i': node.integers[name] = table.number<int32_t>(slot, 0); break;
        case 'b': node.integers[name] = table.number<uint8_t>(slot, 0); break;
        case 'f': node.reals[name] = static_cast<double>(table.number<float>(slot, 0)); break;
        case 's': node.texts[name] = table.text(slot); break;
        case 'L': node.lists[name] = table.numbers<int64_t>(slot); break;
        case 'I': node.lists[name] = widened(table.numbers<int32_t>(slot)); break;
        default: node.lists[name] = widened(table.numbers<uint8_t>(slot)); break;
        }
    }
}

inline std::optional<double> read_value(const Table& tensor)
{
    switch (tensor.number<uint8_t>(6, 0))
    {
    case 0: return std::nullopt;
    case 1:
    case 2:
    case 3: return static_cast<double>(tensor.in_struct<float>(7));
    case 4:
    case 8: return tensor.in_struct<uint8_t>(7);
    case 5: return tensor.in_struct<int32_t>(7);
    case 6: return tensor.in_struct<double>(7);
    case 7: return static_cast<double>(tensor.in_struct<int64_t>(7));
    default: throw std::invalid_argument("a tensor's value is of an unknown type");
    }
}

} // namespace detail

/** Operations on tensors. */
struct Graph
{
    std::string name;
    DataType compute_type = DataType::UNSET, intermediate_type = DataType::UNSET, io_type = DataType::UNSET;
    std::vector<Tensor> tensors;
    std::vector<Node> nodes; ///< Tensors are written before they are read.
    bool is_override_shape_enabled = false;

    /** An operation's tensor by the name of its field without `_tensor_uid`; null if it has none. */
    const Tensor* tensor(const Node& node, const std::string& field) const { return tensor(node.uid(field)); }
    /** The tensor with a uid; null if the graph has none. */
    const Tensor* tensor(std::optional<int64_t> uid) const
    {
        for (const Tensor& one : tensors)
        {
            if (uid == one.uid)
            {
                return &one;
            }
        }
        return nullptr;
    }

    /** Whether two operations share only virtual tensors, which the first writes for the second, and at least one. */
    bool is_passed_on(const Node& from, const Node& to) const
    {
        size_t shared = 0, passed = 0;
        for (const Tensor& one : tensors)
        {
            if (from.uses(one.uid) && to.uses(one.uid))
            {
                shared++;
                passed += one.is_virtual ? 1 : 0;
            }
        }
        return shared > 0 && shared == passed;
    }

    /**
     * Reads a graph and checks it: every uid of an operation belongs to a tensor, and sizes are positive.
     * @throws std::invalid_argument if the bytes are not a graph
     */
    static Graph read(const void* data, size_t size)
    {
        const detail::Table root = detail::Table::root({static_cast<const uint8_t*>(data), size});
        Graph graph;
        graph.name = root.text(0);
        graph.compute_type = static_cast<DataType>(root.number<int8_t>(1, 0));
        graph.intermediate_type = static_cast<DataType>(root.number<int8_t>(2, 0));
        graph.io_type = static_cast<DataType>(root.number<int8_t>(3, 0));
        graph.is_override_shape_enabled = root.number<uint8_t>(7, 0) != 0;
        for (const detail::Table& one : root.tables(4))
        {
            graph.tensors.push_back(read_tensor(one));
        }
        for (const detail::Table& one : root.tables(5))
        {
            graph.nodes.push_back(read_node(one));
            for (const auto& field : graph.nodes.back().integers)
            {
                const std::string& word = field.first;
                if (Node::is_uid(word) && graph.tensor(field.second) == nullptr)
                {
                    throw std::invalid_argument(word + " is " + std::to_string(field.second) +
                                                ", expected the uid of a tensor");
                }
            }
        }
        return graph;
    }

private:
    static Tensor read_tensor(const detail::Table& table)
    {
        Tensor made;
        made.uid = table.number<int64_t>(0, 0);
        made.name = table.text(1);
        made.type = static_cast<DataType>(table.number<int8_t>(2, 0));
        made.strides = table.numbers<int64_t>(3);
        made.dims = table.numbers<int64_t>(4);
        made.is_virtual = table.number<uint8_t>(5, 0) != 0;
        made.value = detail::read_value(table);
        made.is_runtime_pass_by_value = table.number<uint8_t>(8, 0) != 0;
        made.ragged_offset_uid = table.has(9) ? std::optional<int64_t>(table.number<int64_t>(9, 0)) : std::nullopt;
        made.alignment = table.number<int64_t>(10, 16);
        made.ragged_offset_multiplier = table.number<int64_t>(11, 1);
        const std::string who = "tensor " + std::to_string(made.uid);
        if (made.dims.size() != made.strides.size())
        {
            throw std::invalid_argument(who + " has another number of strides than of dimensions");
        }
        int64_t volume = 1;
        for (const int64_t dim : made.dims)
        {
            if (dim < 1 || dim > INT64_MAX / 16 / volume)
            {
                throw std::invalid_argument(who + " has a dimension of " + std::to_string(dim));
            }
            volume *= dim;
        }
        return made;
    }

    /** The operation of a node: in 2025 one field earlier than in 2026, where it is the fourth. */
    static Node read_node(const detail::Table& table)
    {
        const size_t kind = table.has(3) ? 2 : 1;
        Node made;
        made.name = table.text(0);
        made.compute_type = kind == 2 ? static_cast<DataType>(table.number<int8_t>(1, 0)) : DataType::UNSET;
        made.kind = static_cast<Kind>(table.number<uint8_t>(kind, 0));
        detail::read_fields(table.table(kind + 1), made);
        return made;
    }
};

} // namespace hipdnn_plugin
