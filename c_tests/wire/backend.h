/* SPDX-License-Identifier: MIT */

/* Shared helpers for descriptors. */
#ifndef BACKEND_H
#define BACKEND_H

#include "../check.h"
#include "graphs.h"

#include <string>

inline hipdnnBackendDescriptor_t make(hipdnnBackendDescriptorType_t type)
{
    hipdnnBackendDescriptor_t descriptor = nullptr;
    REQUIRE_OK(hipdnnBackendCreateDescriptor(type, &descriptor));
    return descriptor;
}

template <typename T>
inline void set(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name,
                hipdnnBackendAttributeType_t type, const std::vector<T>& values)
{
    REQUIRE_OK(hipdnnBackendSetAttribute(descriptor, name, type, static_cast<int64_t>(values.size()), values.data()));
}

inline void set_text(hipdnnBackendDescriptor_t descriptor, hipdnnBackendAttributeName_t name, const std::string& text)
{
    REQUIRE_OK(
        hipdnnBackendSetAttribute(descriptor, name, HIPDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data()));
}

inline hipdnnBackendDescriptor_t finish(hipdnnBackendDescriptor_t descriptor)
{
    REQUIRE_OK(hipdnnBackendFinalize(descriptor));
    return descriptor;
}

template <typename Table>
inline hipdnnBackendDescriptor_t from_bytes(const typename Table::NativeTableType& graph)
{
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Table::Pack(builder, &graph));
    hipdnnBackendDescriptor_t descriptor = nullptr;
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&descriptor, builder.GetBufferPointer(), builder.GetSize()));
    return descriptor;
}

#endif
