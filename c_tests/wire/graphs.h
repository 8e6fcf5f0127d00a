/* SPDX-License-Identifier: MIT */

/* Graphs as the FlatBuffers library itself makes them, from code that its own compiler generated from the schema. The
 * program hands them to the backend, and the plugins compare them with what reaches them. */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "hipdnn_generated.h"

#include <memory>
#include <vector>

/* Plugins are compiled with code of other namespaces than the schema's own. */
#ifdef NAMESPACE
namespace hipdnn = NAMESPACE;
#endif

inline std::unique_ptr<hipdnn::TensorAttributesT> tensor(int64_t uid, const char* name, hipdnn::DataType type,
                                                         std::vector<int64_t> dims, std::vector<int64_t> strides)
{
    auto tensor = std::make_unique<hipdnn::TensorAttributesT>();
    tensor->uid = uid;
    tensor->name = name;
    tensor->data_type = type;
    tensor->dims = std::move(dims);
    tensor->strides = std::move(strides);
    return tensor;
}

/* Tensors in the order of their first use: x, w, y of the convolution; then in_0, out_0, in_1 of each pointwise node. */
inline std::vector<std::unique_ptr<hipdnn::TensorAttributesT>> tensors()
{
    std::vector<std::unique_ptr<hipdnn::TensorAttributesT>> all;
    all.push_back(tensor(11, "x", hipdnn::DataType::HALF, {2, 6, 9, 9}, {486, 81, 9, 1}));
    all.push_back(tensor(-2, "w", hipdnn::DataType::HALF, {5, 6, 3, 3}, {54, 9, 3, 1}));
    all.push_back(tensor(13, "", hipdnn::DataType::FLOAT, {2, 5, 4, 5}, {100, 20, 5, 1}));
    all.back()->virtual_ = true;
    all.push_back(tensor(14, "sum", hipdnn::DataType::FLOAT, {2, 5, 4, 5}, {100, 20, 5, 1}));
    all.back()->virtual_ = true;
    all.push_back(tensor(0, "summand", hipdnn::DataType::FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}));
    all.back()->value.Set(hipdnn::Float32Value(0.75F));
    all.push_back(tensor(INT64_C(1) << 40, "y", hipdnn::DataType::HALF, {2, 5, 4, 5}, {100, 1, 25, 5}));
    return all;
}

inline hipdnn::ConvolutionFwdAttributesT convolution()
{
    hipdnn::ConvolutionFwdAttributesT convolution;
    convolution.x_tensor_uid = 11;
    convolution.w_tensor_uid = -2;
    convolution.y_tensor_uid = 13;
    convolution.pre_padding = {1, 2};
    convolution.post_padding = {0, 2};
    convolution.stride = {2, 2};
    convolution.dilation = {1, 2};
    convolution.conv_mode = hipdnn::ConvMode::CROSS_CORRELATION;
    return convolution;
}

inline hipdnn::PointwiseAttributesT addition()
{
    hipdnn::PointwiseAttributesT addition;
    addition.operation = hipdnn::PointwiseMode::ADD;
    addition.in_0_tensor_uid = 13;
    addition.in_1_tensor_uid = 0;
    addition.out_0_tensor_uid = 14;
    return addition;
}

inline hipdnn::PointwiseAttributesT activation()
{
    hipdnn::PointwiseAttributesT activation;
    activation.operation = hipdnn::PointwiseMode::RELU_FWD;
    activation.in_0_tensor_uid = 14;
    activation.out_0_tensor_uid = INT64_C(1) << 40;
    activation.relu_lower_clip = 0.0F;
    activation.relu_upper_clip = 6.0F;
    return activation;
}

/* A node of either layout; only the newer one has a compute type. */
template <typename NodeT, typename AttributesT>
std::unique_ptr<NodeT> node(const char* name, AttributesT attributes)
{
    auto node = std::make_unique<NodeT>();
    node->name = name;
    node->attributes.Set(std::move(attributes));
    return node;
}

template <typename GraphT, typename NodeT>
GraphT fused()
{
    GraphT graph;
    graph.name = "fused";
    graph.compute_data_type = hipdnn::DataType::FLOAT;
    graph.intermediate_data_type = hipdnn::DataType::FLOAT;
    graph.io_data_type = hipdnn::DataType::HALF;
    graph.tensors = tensors();
    graph.nodes.push_back(node<NodeT>("conv", convolution()));
    graph.nodes.push_back(node<NodeT>("add", addition()));
    graph.nodes.push_back(node<NodeT>("relu", activation()));
    return graph;
}

inline hipdnn::GraphG1T fused_g1() { return fused<hipdnn::GraphG1T, hipdnn::NodeG1T>(); }

inline hipdnn::GraphT fused_g2()
{
    auto graph = fused<hipdnn::GraphT, hipdnn::NodeT>();
    for (auto& node : graph.nodes)
    {
        node->compute_data_type = hipdnn::DataType::FLOAT;
    }
    return graph;
}

inline hipdnn::KnobValueUnion whole(int64_t value)
{
    hipdnn::IntValueT number;
    number.value = value;
    hipdnn::KnobValueUnion all;
    all.Set(std::move(number));
    return all;
}

inline hipdnn::KnobValueUnion fraction(double value)
{
    hipdnn::FloatValueT number;
    number.value = value;
    hipdnn::KnobValueUnion all;
    all.Set(std::move(number));
    return all;
}

inline hipdnn::KnobValueUnion words(const char* value)
{
    hipdnn::StringValueT text;
    text.value = value;
    hipdnn::KnobValueUnion all;
    all.Set(std::move(text));
    return all;
}

inline std::unique_ptr<hipdnn::KnobT> knob(const char* id, hipdnn::KnobValueUnion value)
{
    auto knob = std::make_unique<hipdnn::KnobT>();
    knob->knob_id = id;
    knob->description = "What it is for.";
    knob->default_value = std::move(value);
    return knob;
}

/* A knob of each kind. */
inline std::vector<std::unique_ptr<hipdnn::KnobT>> knobs()
{
    std::vector<std::unique_ptr<hipdnn::KnobT>> all;
    hipdnn::IntConstraintT range;
    range.min_value = -4;
    range.max_value = INT64_C(1) << 40;
    range.step = 2;
    range.valid_values = {0, 6, 8};
    all.push_back(knob("whole", whole(6)));
    all.back()->constraint.Set(std::move(range));
    hipdnn::FloatConstraintT bounds;
    bounds.min_value = 0.125;
    bounds.max_value = 1e300;
    all.push_back(knob("fraction", fraction(0.75)));
    all.back()->constraint.Set(std::move(bounds));
    hipdnn::StringConstraintT texts;
    texts.max_length = 9;
    texts.valid_values = {"", "fast", "exact"};
    all.push_back(knob("words", words("fast")));
    all.back()->constraint.Set(std::move(texts));
    all.push_back(knob("plain", whole(-3)));
    all.back()->deprecated = true;
    return all;
}

inline std::unique_ptr<hipdnn::KnobSettingT> setting(const char* id, hipdnn::KnobValueUnion value)
{
    auto setting = std::make_unique<hipdnn::KnobSettingT>();
    setting->knob_id = id;
    setting->value = std::move(value);
    return setting;
}

/* What the program sets them to. */
inline std::vector<std::unique_ptr<hipdnn::KnobSettingT>> settings()
{
    std::vector<std::unique_ptr<hipdnn::KnobSettingT>> all;
    all.push_back(setting("words", words("exact")));
    all.push_back(setting("whole", whole(8)));
    all.push_back(setting("fraction", fraction(2.5)));
    all.push_back(setting("plain", whole(INT64_MIN)));
    return all;
}

/* What the plugins save of a context. */
inline std::vector<uint8_t> saved_payload()
{
    std::vector<uint8_t> bytes(259);
    for (size_t i = 0; i < bytes.size(); i++)
    {
        bytes[i] = static_cast<uint8_t>(i * 7);
    }
    return bytes;
}

#endif
