/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Graphs with their plan as bytes, and the hash of equal graphs.
 */
#pragma once

#include "attributes.hpp"

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace detail
{

/** The parts of a saved graph. */
struct Saved
{
    std::vector<uint8_t> graph, plan;
    std::vector<int64_t> views; ///< Of each: the uid of the tensor, the uid of the part, the first element.

    void write(std::vector<uint8_t>& bytes) const
    {
        bytes.assign(MARK, MARK + sizeof MARK);
        append(bytes, static_cast<int64_t>(graph.size()));
        append(bytes, static_cast<int64_t>(views.size()));
        for (const int64_t number : views)
        {
            append(bytes, number);
        }
        bytes.insert(bytes.end(), graph.begin(), graph.end());
        bytes.insert(bytes.end(), plan.begin(), plan.end());
    }

    error_t read(const std::vector<uint8_t>& bytes)
    {
        const error_t wrong(error_code_t::INVALID_VALUE,
                            "the bytes are not a graph with a plan, expected what serialize() wrote");
        if (bytes.size() < BEGIN || std::memcmp(bytes.data(), MARK, sizeof MARK) != 0)
        {
            return wrong;
        }
        const auto size = static_cast<uint64_t>(number(bytes, sizeof MARK)),
                   count = static_cast<uint64_t>(number(bytes, sizeof MARK + 8));
        if (count > (bytes.size() - BEGIN) / 8 || count % 3 != 0 || size > bytes.size() - BEGIN - count * 8)
        {
            return wrong;
        }
        for (size_t i = 0; i < count; i++)
        {
            views.push_back(number(bytes, BEGIN + i * 8));
        }
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(BEGIN + count * 8),
                   middle = begin + static_cast<std::ptrdiff_t>(size);
        graph.assign(begin, middle);
        plan.assign(middle, bytes.end());
        return {};
    }

private:
    static constexpr uint8_t MARK[8] = {'h', 'i', 'p', 'd', 'n', 'n', 'G', 'Q'};
    static constexpr size_t BEGIN = sizeof MARK + 16;

    static void append(std::vector<uint8_t>& bytes, int64_t number)
    {
        for (size_t i = 0; i < 8; i++)
        {
            bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(number) >> (8 * i)));
        }
    }
    static int64_t number(const std::vector<uint8_t>& bytes, size_t at)
    {
        uint64_t made = 0;
        for (size_t i = 0; i < 8; i++)
        {
            made |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
        }
        return static_cast<int64_t>(made);
    }
};

/** Hashes operations; tensors by the order in which they are first used. */
class KeyVisitor : public ::hipdnn::detail::Visitor
{
public:
    uint64_t hash = 0xcbf29ce484222325U;
    bool without_shapes = false;

    void add(int64_t number) { hash = (hash ^ static_cast<uint64_t>(number)) * 0x100000001b3U; }
    void tensor(hipdnnBackendAttributeName_t name, ::hipdnn::TensorPtr& tensor, const char*,
                ::hipdnn::detail::Role) override
    {
        if (tensor == nullptr)
        {
            return;
        }
        add(name);
        add(_seen.emplace(tensor.get(), static_cast<int64_t>(_seen.size())).first->second);
        add(static_cast<int64_t>(tensor->get_data_type()));
        add(tensor->get_is_virtual() ? 1 : 0);
        for (const ::hipdnn::Dims* list : {&tensor->get_dim(), &tensor->get_stride()})
        {
            for (size_t i = 0; i < list->size() && !without_shapes; i++)
            {
                add((*list)[i]);
            }
        }
        if (tensor->has_value())
        {
            const auto scalar = ::hipdnn::detail::value_bytes(*tensor);
            values(name, HIPDNN_TYPE_CHAR, sizeof scalar.bytes, 1, scalar.bytes);
        }
    }
    void tensors(hipdnnBackendAttributeName_t name, std::vector<::hipdnn::TensorPtr>& list,
                 ::hipdnn::detail::Role role) override
    {
        for (auto& one : list)
        {
            tensor(name, one, "", role);
        }
    }
    void integers(hipdnnBackendAttributeName_t name, ::hipdnn::Dims& numbers) override
    {
        add(name);
        for (const int64_t number : numbers)
        {
            add(number);
        }
    }
    void values(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, size_t size, int64_t& count,
                void* data) override
    {
        values(name, type, size, static_cast<const int64_t&>(count), static_cast<const void*>(data));
    }
    void bytes(hipdnnBackendAttributeName_t name, std::vector<uint8_t>& data) override
    {
        values(name, HIPDNN_TYPE_CHAR, data.size(), 1, data.data());
    }

private:
    std::unordered_map<const void*, int64_t> _seen;

    void values(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, size_t size, const int64_t& count,
                const void* data)
    {
        const size_t each = type == HIPDNN_TYPE_INT64     ? 8
                            : type == HIPDNN_TYPE_BOOLEAN ? 1
                            : type == HIPDNN_TYPE_CHAR    ? size
                                                          : 4;
        add(name);
        for (size_t i = 0; i < std::min(size, each * static_cast<size_t>(count)); i++)
        {
            add(static_cast<const uint8_t*>(data)[i]);
        }
    }
};

template <typename Graph>
uint64_t key_of(const Graph& graph, bool without_shapes)
{
    KeyVisitor visitor;
    visitor.without_shapes = without_shapes;
    for (const DataType_t type :
         {graph.get_io_data_type(), graph.get_intermediate_data_type(), graph.get_compute_data_type()})
    {
        visitor.add(static_cast<int64_t>(type));
    }
    for (const auto& operation : graph.operations())
    {
        visitor.add(operation->kind().descriptor);
        visitor.add(static_cast<int64_t>(operation->compute_data_type));
        operation->visit(visitor);
    }
    return visitor.hash;
}

} // namespace detail
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
