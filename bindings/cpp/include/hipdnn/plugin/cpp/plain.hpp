/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Parts of plans of plain data: packed tensors and convolution windows, read from a graph and checked.
 */
#pragma once

#include "engine.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace hipdnn_plugin
{

/** The element type of a C++ type; UNSET for others. */
template <typename Element>
constexpr DataType type_of()
{
    return std::is_same_v<Element, float>     ? DataType::FLOAT
           : std::is_same_v<Element, double>  ? DataType::DOUBLE
           : std::is_same_v<Element, int8_t>  ? DataType::INT8
           : std::is_same_v<Element, uint8_t> ? DataType::UINT8
           : std::is_same_v<Element, int32_t> ? DataType::INT32
           : std::is_same_v<Element, int64_t> ? DataType::INT64
                                              : DataType::UNSET;
}

/** A packed tensor in a program's memory, the last dimension fastest. */
template <typename ElementType, size_t Rank>
struct Packed
{
    using Element = ElementType;
    using Index = std::array<int64_t, Rank>;

    int64_t uid;
    Index dims;

    /** An operation's tensor by the name of its field without `_tensor_uid`. @throws Refusal for others */
    static Packed of(const Graph& graph, const Node& node, const std::string& field)
    {
        const Tensor* tensor = graph.tensor(node, field);
        support(tensor != nullptr && tensor->is_plain(type_of<Element>(), Rank),
                "a tensor is absent, of another type or rank, or not packed");
        Packed made{tensor->uid, {}};
        std::copy(tensor->dims.begin(), tensor->dims.end(), made.dims.begin());
        return made;
    }
    /** Whether sizes are positive, and so small that sums of a few products of two of them fit 64 bits. */
    bool is_sound() const
    {
        int64_t product = 1;
        for (const int64_t dim : dims)
        {
            if (dim < 1 || dim > (int64_t{1} << 40) / product)
            {
                return false;
            }
            product *= dim;
        }
        return true;
    }
    int64_t volume() const
    {
        int64_t product = 1;
        for (const int64_t dim : dims)
        {
            product *= dim;
        }
        return product;
    }
    bool contains(const Index& index) const
    {
        bool inside = true;
        for (size_t i = 0; i < Rank; i++)
        {
            inside = inside && index[i] >= 0 && index[i] < dims[i];
        }
        return inside;
    }
    /** The offset of the element with an index, in elements. */
    int64_t at(const Index& index) const
    {
        int64_t place = 0;
        for (size_t i = 0; i < Rank; i++)
        {
            place = place * dims[i] + index[i];
        }
        return place;
    }
    /** The index of the element at an offset. */
    Index index(int64_t place) const
    {
        Index made{};
        for (size_t i = Rank; i-- > 0; place /= dims[i])
        {
            made[i] = place % dims[i];
        }
        return made;
    }
};

/** The window of a filter on an image, for each dimension after the first two. */
template <size_t Spatial>
struct Window
{
    std::array<int64_t, Spatial> padding, step, hole;

    /** A convolution's window. @throws Refusal if it flips filters, or its padding differs between sides */
    static Window of(const Node& node)
    {
        support(node.integer("conv_mode") != CONV_CONVOLUTION && node.list("pre_padding") == node.list("post_padding"),
                "filters are flipped, or the padding differs from side to side");
        return {numbers(node.list("pre_padding")), numbers(node.list("stride")), numbers(node.list("dilation"))};
    }
    /** The position in the image for an element of the filter and of the result; outside of the image it is padding. */
    int64_t at(size_t dimension, int64_t result, int64_t filter) const
    {
        return result * step[dimension] + filter * hole[dimension] - padding[dimension];
    }
    /** Whether the sizes of a convolution without groups match, and no index overflows. */
    template <typename X, typename W, typename Y>
    bool fits(const Packed<X, Spatial + 2>& x, const Packed<W, Spatial + 2>& w, const Packed<Y, Spatial + 2>& y) const
    {
        bool fit = x.is_sound() && w.is_sound() && y.is_sound() && x.dims[0] == y.dims[0] && x.dims[1] == w.dims[1] &&
                   w.dims[0] == y.dims[1];
        for (size_t i = 0; i < Spatial; i++)
        {
            fit = fit && is_sound(padding[i], 0) && is_sound(step[i], 1) && is_sound(hole[i], 1) &&
                  at(i, y.dims[i + 2] - 1, w.dims[i + 2] - 1) < x.dims[i + 2] + padding[i];
        }
        return fit;
    }

private:
    static bool is_sound(int64_t number, int64_t least) { return number >= least && number < int64_t{1} << 20; }
    static std::array<int64_t, Spatial> numbers(const std::vector<int64_t>& list)
    {
        support(list.size() == Spatial, "a list has more or fewer numbers than are supported");
        std::array<int64_t, Spatial> made{};
        std::copy(list.begin(), list.end(), made.begin());
        return made;
    }
};

namespace detail
{

template <Kind>
using NodeOf = const Node&;

template <Kind... Kinds, size_t... At>
std::tuple<NodeOf<Kinds>...> first_nodes(const Graph& graph, std::index_sequence<At...>)
{
    return {graph.nodes[At]...};
}

} // namespace detail

/**
 * The operations of a graph that is a chain of these kinds: each reads a virtual tensor that the previous one writes.
 * @throws Refusal for other graphs
 */
template <Kind... Kinds>
std::tuple<detail::NodeOf<Kinds>...> chain(const Graph& graph)
{
    const Kind kinds[] = {Kinds...};
    bool matches = graph.nodes.size() == sizeof...(Kinds);
    for (size_t i = 0; matches && i < sizeof...(Kinds); i++)
    {
        matches = graph.nodes[i].kind == kinds[i] && (i == 0 || graph.is_passed_on(graph.nodes[i - 1], graph.nodes[i]));
    }
    support(matches, "the graph is not the chain of operations that is supported");
    return detail::first_nodes<Kinds...>(graph, std::make_index_sequence<sizeof...(Kinds)>());
}

} // namespace hipdnn_plugin
