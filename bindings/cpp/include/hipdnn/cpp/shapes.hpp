/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Layouts and shapes: infers what tensors lack from the others.
 */
#pragma once

#include "tensor.hpp"

#include <algorithm>

namespace hipdnn
{

/** Packed strides, the last dimension innermost. Those that do not fit 64 bits stay at INT64_MAX, here and below. */
inline Dims packed_strides(const Dims& dims)
{
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size(); i > 1; i--)
    {
        strides[i - 2] = (detail::Checked(strides[i - 1]) * dims[i - 1]).value();
    }
    return strides;
}

/** The order of dimensions in memory, 0 for the innermost one: {3, 0, 2, 1} is channels last. */
inline Dims stride_order(const Dims& strides)
{
    const size_t count = strides.size();
    /* Ties: channels count as innermost if they can be and a later dimension has a larger stride; else the last dimension wins. */
    bool channels_last = count > 2, farther = false;
    for (size_t i = 0; i < count && channels_last; i++)
    {
        channels_last = strides[i] <= strides[0] && (i == 0 ? strides[0] > strides[1] : strides[i] >= strides[1]);
        farther = farther || (i > 1 && strides[i] > strides[1]);
    }
    channels_last = channels_last && farther;
    const auto is_inner = [&](size_t a, size_t b) {
        if (strides[a] != strides[b])
        {
            return strides[a] < strides[b];
        }
        return channels_last && (a == 1 || b == 1) ? a == 1 : a > b;
    };
    /* A dimension's position is the number of dimensions inside of it. */
    Dims order(count, 0);
    for (size_t i = 0; i < count; i++)
    {
        for (size_t other = 0; other < count; other++)
        {
            order[i] += other != i && is_inner(other, i) ? 1 : 0;
        }
    }
    return order;
}

/** Packed strides in an order of dimensions, which has at least as many. */
inline Dims strides_in_order(const Dims& dims, const Dims& order)
{
    Dims strides(dims.size(), 1);
    int64_t step = 1;
    for (size_t place = 0; place < order.size(); place++)
    {
        for (size_t i = 0; i < dims.size(); i++)
        {
            if (order[i] == static_cast<int64_t>(place))
            {
                strides[i] = step;
                step = (detail::Checked(step) * dims[i]).value();
            }
        }
    }
    return strides;
}

/** Packed strides with one dimension innermost, and the others in the order of x. */
inline Dims strides_along(const Dims& dims, const Tensor& x, int64_t along)
{
    const Dims &sizes = x.get_dim(), &steps = x.get_stride();
    Dims order;
    for (size_t i = 0; i < dims.size(); i++)
    {
        /* Before the first with a larger stride; among equal strides, dimensions of 1 are inner. */
        const auto is_outer = [&](int64_t other) {
            const auto place = static_cast<size_t>(other);
            return steps[place] > steps[i] || (steps[place] == steps[i] && sizes[i] == 1 && sizes[place] != 1);
        };
        order.insert(std::find_if(order.begin(), order.end(), is_outer), static_cast<int64_t>(i));
    }
    std::rotate(order.begin(), std::find(order.begin(), order.end(), along), order.end());
    Dims strides(dims.size(), 1);
    int64_t step = 1;
    for (const int64_t place : order)
    {
        strides[static_cast<size_t>(place)] = step;
        step = (detail::Checked(step) * dims[static_cast<size_t>(place)]).value();
    }
    return strides;
}

/** Channels last strides: N, D, H, W, C in memory. */
inline Dims channels_last_strides(const Dims& dims)
{
    Dims order(dims.size(), 0);
    for (size_t i = dims.size(); i > 2; i--)
    {
        order[i - 1] = static_cast<int64_t>(dims.size() - i + 1);
    }
    if (dims.size() > 1)
    {
        order[0] = static_cast<int64_t>(dims.size() - 1);
    }
    return strides_in_order(dims, order);
}

namespace detail
{

inline std::string text(const Dims& dims) { return join({dims}); }

/** Gives a tensor its shape if it has none, and strides in the order of another tensor. */
inline void fill_shape(const TensorPtr& tensor, const Dims& dims, const TensorPtr& like)
{
    if (tensor->get_dim().empty())
    {
        tensor->set_dim(dims);
    }
    if (tensor->get_stride().empty())
    {
        const Dims& strides = like->get_stride();
        tensor->set_stride(strides.size() == tensor->get_dim().size()
                               ? strides_in_order(tensor->get_dim(), stride_order(strides))
                               : packed_strides(tensor->get_dim()));
    }
}

/** Gives a tensor the shape and the strides of another if it has none. */
inline void fill_same(const TensorPtr& tensor, const TensorPtr& like)
{
    if (tensor->get_dim().empty())
    {
        tensor->set_dim(like->get_dim());
    }
    if (tensor->get_stride().empty())
    {
        tensor->set_stride(like->get_stride().size() == tensor->get_dim().size() ? like->get_stride()
                                                                                 : packed_strides(tensor->get_dim()));
    }
}

/** Gives a tensor its shape if it has none, and packed strides. */
inline void fill_packed(const TensorPtr& tensor, const Dims& dims)
{
    if (tensor->get_dim().empty())
    {
        tensor->set_dim(dims);
    }
    if (tensor->get_stride().empty())
    {
        tensor->set_stride(packed_strides(tensor->get_dim()));
    }
}

/** The shape that two shapes broadcast to, aligned at the last dimension; false if they do not. */
inline bool broadcast(Dims& common, const Dims& other)
{
    if (other.size() > common.size())
    {
        common.insert(common.begin(), other.size() - common.size(), 1);
    }
    const size_t offset = common.size() - other.size();
    for (size_t i = 0; i < other.size(); i++)
    {
        int64_t& dim = common[offset + i];
        if (dim != other[i] && dim != 1 && other[i] != 1)
        {
            return false;
        }
        dim = std::max(dim, other[i]);
    }
    return true;
}

/** The shape of a normalization's statistics: 1 where the scale is larger than 1, else like its input. */
inline Dims statistics_dims(const Dims& x, const Dims& scale)
{
    Dims dims(x.size(), 1);
    for (size_t i = 0; i < x.size(); i++)
    {
        /* A scale of lower rank belongs to the last dimensions. */
        const bool has = scale.size() <= x.size() && i >= x.size() - scale.size();
        dims[i] = has && scale[i - (x.size() - scale.size())] != 1 ? 1 : x[i];
    }
    if (scale.empty())
    {
        dims.assign(x.size(), 1);
        dims[0] = x[0];
    }
    return dims;
}

} // namespace detail
} // namespace hipdnn
