/* SPDX-License-Identifier: MIT */

/* For each kind of node, a graph with one such node, all of whose fields have distinct values. The fields come from the schema,
 * so none can be forgotten. */
#ifndef NODES_H
#define NODES_H

#include "graphs.h"

#include <algorithm>
#include <string>

#include <flatbuffers/minireflect.h>

/* The kinds have the numbers from 1 to this one. */
constexpr int KINDS = static_cast<int>(hipdnn::NodeAttributes::MAX);

/* A field that is a list or a text. */
inline flatbuffers::Offset<void> outer_field(flatbuffers::FlatBufferBuilder& builder, flatbuffers::ElementaryType type,
                                             std::vector<int64_t>& numbers)
{
    const auto next = [&numbers] {
        numbers.push_back(static_cast<int64_t>(numbers.size()) + 1);
        return numbers.back();
    };
    switch (type)
    {
    case flatbuffers::ET_LONG: return builder.CreateVector(std::vector<int64_t>{next(), next(), next()}).Union();
    case flatbuffers::ET_INT:
        return builder.CreateVector(std::vector<int32_t>(2, static_cast<int32_t>(next()))).Union();
    case flatbuffers::ET_UCHAR:
        return builder.CreateVector(std::vector<uint8_t>(5, static_cast<uint8_t>(next()))).Union();
    case flatbuffers::ET_STRING: return builder.CreateString("text " + std::to_string(next())).Union();
    default: abort();
    }
}

/* A number; of an enumeration its last one. */
inline void add_number(flatbuffers::FlatBufferBuilder& builder, flatbuffers::voffset_t field,
                       flatbuffers::TypeCode code, const flatbuffers::TypeTable& type, std::vector<int64_t>& numbers)
{
    numbers.push_back(static_cast<int64_t>(numbers.size()) + 1);
    const int64_t number = numbers.back();
    if (code.sequence_ref >= 0)
    {
        const auto last = type.type_refs[code.sequence_ref]()->num_elems - 1;
        builder.AddElement<int8_t>(field, static_cast<int8_t>(last));
        return;
    }
    switch (code.base_type)
    {
    case flatbuffers::ET_LONG: builder.AddElement<int64_t>(field, number); break;
    case flatbuffers::ET_INT: builder.AddElement<int32_t>(field, static_cast<int32_t>(number)); break;
    case flatbuffers::ET_FLOAT: builder.AddElement<float>(field, static_cast<float>(number) + 0.25F); break;
    case flatbuffers::ET_BOOL: builder.AddElement<uint8_t>(field, 1); break;
    default: abort();
    }
}

/* The attributes of a kind, and the uids of tensors in them. */
inline hipdnn::NodeAttributesUnion attributes(hipdnn::NodeAttributes kind, std::vector<int64_t>& uids)
{
    const auto& kinds = *hipdnn::NodeAttributesTypeTable();
    const auto& type = *kinds.type_refs[kinds.type_codes[static_cast<size_t>(kind)].sequence_ref]();
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<void>> outer(type.num_elems);
    std::vector<int64_t> numbers;
    const auto keep_uids = [&](size_t field, size_t first) {
        const std::string name = type.names[field];
        if (name.find("tensor_uid") != std::string::npos || name == "peer_stats")
        {
            uids.insert(uids.end(), numbers.begin() + static_cast<ptrdiff_t>(first), numbers.end());
        }
    };
    const auto is_outer = [](flatbuffers::TypeCode code) {
        return code.is_repeating != 0 || code.base_type == flatbuffers::ET_STRING;
    };
    for (size_t i = 0; i < type.num_elems; i++)
    {
        if (is_outer(type.type_codes[i]))
        {
            const size_t first = numbers.size();
            outer[i] =
                outer_field(builder, static_cast<flatbuffers::ElementaryType>(type.type_codes[i].base_type), numbers);
            keep_uids(i, first);
        }
    }
    const auto start = builder.StartTable();
    for (size_t i = 0; i < type.num_elems; i++)
    {
        const auto field = static_cast<flatbuffers::voffset_t>(4 + 2 * i);
        if (is_outer(type.type_codes[i]))
        {
            builder.AddOffset(field, outer[i]);
        } else
        {
            const size_t first = numbers.size();
            add_number(builder, field, type.type_codes[i], type, numbers);
            keep_uids(i, first);
        }
    }
    builder.Finish(flatbuffers::Offset<void>(builder.EndTable(start)));
    hipdnn::NodeAttributesUnion all;
    all.type = kind;
    all.value =
        hipdnn::NodeAttributesUnion::UnPack(flatbuffers::GetRoot<uint8_t>(builder.GetBufferPointer()), kind, nullptr);
    return all;
}

/* The library may write tensors in another order than they came in. */
template <typename GraphT>
void sort_tensors(GraphT& graph)
{
    std::sort(graph.tensors.begin(), graph.tensors.end(), [](const auto& a, const auto& b) { return a->uid < b->uid; });
}

/* The graph of a kind, its number the last word of its name. */
template <typename GraphT, typename NodeT>
GraphT graph_of(int kind)
{
    std::vector<int64_t> uids;
    GraphT graph;
    graph.name = "node " + std::to_string(kind);
    graph.compute_data_type = hipdnn::DataType::FLOAT;
    graph.intermediate_data_type = hipdnn::DataType::HALF;
    graph.io_data_type = hipdnn::DataType::BFLOAT16;
    graph.nodes.push_back(std::make_unique<NodeT>());
    graph.nodes.front()->name = "the node";
    graph.nodes.front()->attributes = attributes(static_cast<hipdnn::NodeAttributes>(kind), uids);
    for (const int64_t uid : uids)
    {
        graph.tensors.push_back(tensor(uid, "", hipdnn::DataType::FLOAT, {uid, 2}, {2, 1}));
    }
    sort_tensors(graph);
    return graph;
}

inline hipdnn::GraphG1T graph_of_g1(int kind) { return graph_of<hipdnn::GraphG1T, hipdnn::NodeG1T>(kind); }

inline hipdnn::GraphT graph_of_g2(int kind)
{
    auto graph = graph_of<hipdnn::GraphT, hipdnn::NodeT>(kind);
    graph.nodes.front()->compute_data_type = hipdnn::DataType::FLOAT;
    return graph;
}

#endif
