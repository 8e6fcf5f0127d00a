/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Reductions, pooling and block scales.
 */
#pragma once

#include "fields_other.hpp"

namespace hipdnn
{

/** Reduces the dimensions that are 1 in y and larger in x; all of them if y has no shape. */
class ReductionAttributes : public detail::ReductionFields<ReductionAttributes>
{
public:
    HIPDNN_CPP_OPTIONAL(ReductionMode, mode)

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        ReductionFields::each(visitor);
        ReductionMode known = mode.value_or(ReductionMode::NOT_SET);
        detail::visit_mode(visitor, HIPDNN_ATTR_REDUCTION_OPERATOR, HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE, known);
        mode = known == ReductionMode::NOT_SET ? std::nullopt : std::optional<ReductionMode>(known);
    }

    template <typename = void>
    Error shapes()
    {
        if (!mode || *mode == ReductionMode::NOT_SET)
        {
            return wrong("the mode is not set", ErrorCode::ATTRIBUTE_NOT_SET);
        }
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        const Dims& x = get_x()->get_dim();
        detail::fill_packed(get_y(), Dims(x.size(), 1));
        const Dims& y = get_y()->get_dim();
        bool fits = y.size() == x.size();
        for (size_t i = 0; fits && i < x.size(); i++)
        {
            fits = y[i] == x[i] || y[i] == 1;
        }
        return fits ? Error() : wrong({"y has shape ", y, ", expected 1 or x's number in each dimension of ", x});
    }
};

namespace detail
{

/** What both directions of pooling share. */
template <typename Fields>
class PoolingAttributes : public Fields
{
public:
    using typename Fields::Self;

    Self& set_resampling_mode(ResampleMode value) { return this->set_resample_mode(value); }

protected:
    Error check_pooling(size_t rank) const
    {
        if (this->resample_mode > ResampleMode::AVGPOOL_INCLUDE_PADDING || this->padding_mode > PaddingMode::ZERO_PAD)
        {
            return this->unsupported("the mode is one that hipDNN does not have");
        }
        const std::pair<const char*, const Dims*> lists[] = {{"pre_padding", &this->pre_padding},
                                                             {"post_padding", &this->post_padding},
                                                             {"stride", &this->stride},
                                                             {"window", &this->window}};
        for (const auto& list : lists)
        {
            const int64_t least = list.first[0] == 'p' ? 0 : 1;
            if (rank < 3 || list.second->size() != rank - 2 ||
                *std::min_element(list.second->begin(), list.second->end()) < least)
            {
                return this->wrong({list.first, " is ", *list.second, " for images of ", rank,
                                    " dimensions, expected one number for each but 2"});
            }
        }
        return {};
    }
};

} // namespace detail

/** Pooling: x [N, C, spatial], y [N, C, spatial], and the position of each maximum, index like y (INT8 or INT32). */
class ResampleFwdAttributes : public detail::PoolingAttributes<detail::ResampleForwardFields<ResampleFwdAttributes>>
{
public:
    Self& set_is_inference(bool inference) { return set_generate_index(!inference); }

    template <typename = void>
    Error shapes()
    {
        const Dims& x = get_x()->get_dim();
        HIPDNN_CPP_TRY(check_pooling(x.size()));
        if (generate_index && resample_mode == ResampleMode::MAXPOOL && get_index() == nullptr)
        {
            return wrong("index is missing, expected one where it is to be generated", ErrorCode::ATTRIBUTE_NOT_SET);
        }
        if (get_y()->get_dim().empty())
        {
            Dims dims = {x[0], x[1]};
            for (size_t i = 2; i < x.size(); i++)
            {
                const detail::Checked padded = detail::Checked(x[i]) + pre_padding[i - 2] + post_padding[i - 2];
                const detail::Checked size = (padded - window[i - 2]) / stride[i - 2] + 1;
                HIPDNN_CPP_TRY(check_size("y", i, size));
                dims.push_back(size.value());
            }
            get_y()->set_dim(dims);
        }
        detail::fill_shape(get_y(), x, get_x());
        if (get_index() != nullptr)
        {
            detail::fill_same(get_index(), get_y());
        }
        return {};
    }
};

/** Gradient of pooling: dy [N, C, spatial], index like dy for max pooling, dx [N, C, spatial]. */
class ResampleBwdAttributes : public detail::PoolingAttributes<detail::ResampleBackwardFields<ResampleBwdAttributes>>
{
public:
    /** If dx has no shape: the smallest image. */
    template <typename = void>
    Error shapes()
    {
        const Dims& dy = get_dy()->get_dim();
        HIPDNN_CPP_TRY(check_pooling(dy.size()));
        if (get_dx()->get_dim().empty())
        {
            Dims dims = {dy[0], dy[1]};
            for (size_t i = 2; i < dy.size(); i++)
            {
                const detail::Checked size = (detail::Checked(dy[i]) - 1) * stride[i - 2] + window[i - 2] -
                                             pre_padding[i - 2] - post_padding[i - 2];
                HIPDNN_CPP_TRY(check_size("dx", i, size));
                dims.push_back(size.value());
            }
            get_dx()->set_dim(dims);
        }
        detail::fill_shape(get_dx(), dy, get_dy());
        return {};
    }
};

/** Quantization with a scale per block: x, y like x, scale with one element per block along the axis. */
class BlockScaleQuantizeAttributes : public detail::BlockScaleQuantizeFields<BlockScaleQuantizeAttributes>
{
public:
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        const Dims& x = get_x()->get_dim();
        if (block_size.has_value() && *block_size < 1)
        {
            return wrong({"block_size is ", *block_size, ", expected at least 1"});
        }
        if (axis.has_value() && (*axis < 0 || *axis >= static_cast<int64_t>(x.size())))
        {
            return wrong({"axis is ", *axis, ", expected 0 to ", x.size() - 1});
        }
        HIPDNN_CPP_TRY(check_same("y", get_y(), x));
        if (block_size.has_value() && get_scale()->get_dim().empty())
        {
            Dims dims = x;
            int64_t& along = dims[axis.has_value() ? static_cast<size_t>(*axis) : x.size() - 1];
            along = along / *block_size + (along % *block_size > 0 ? 1 : 0);
            get_scale()->set_dim(dims);
        }
        for (const TensorPtr& tensor : {get_y(), get_scale()})
        {
            const Dims& dims = tensor == get_y() ? x : tensor->get_dim();
            if (transpose && tensor->get_stride().empty() && dims.size() == get_x()->get_stride().size())
            {
                tensor->set_stride(strides_along(dims, *get_x(), axis.value_or(static_cast<int64_t>(x.size()) - 1)));
            }
        }
        detail::fill_same(get_y(), get_x());
        if (!get_scale()->get_dim().empty())
        {
            detail::fill_shape(get_scale(), x, get_x());
        }
        return {};
    }
};

/** Dequantization by the scale of each block: x, scale with one element per block, y like x. */
class BlockScaleDequantizeAttributes : public detail::BlockScaleDequantizeFields<BlockScaleDequantizeAttributes>
{
public:
    std::vector<int32_t> block_size;

    const std::vector<int32_t>& get_block_size() const { return block_size; }
    Self& set_block_size(int32_t value, int32_t index = 0)
    {
        if (index >= 0 && index < 64)
        {
            block_size.resize(std::max(block_size.size(), static_cast<size_t>(index) + 1), 1);
            block_size[static_cast<size_t>(index)] = value;
        }
        return *this;
    }
    Self& set_block_size(const int32_t* values, int32_t length = 1)
    {
        if (values != nullptr && length > 0)
        {
            block_size.assign(values, values + length);
        }
        return *this;
    }
    Self& set_block_size(const std::vector<int32_t>& values) { return block_size = values, *this; }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        BlockScaleDequantizeFields::each(visitor);
        /* At most as many as a tensor has dimensions. */
        int32_t sizes[64];
        auto count = static_cast<int64_t>(std::min<size_t>(block_size.size(), 64));
        std::copy_n(block_size.begin(), count, sizes);
        visitor.values(HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE, HIPDNN_TYPE_INT32, sizeof sizes, count,
                       sizes);
        block_size.assign(sizes, sizes + count);
    }

    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("x", get_x(), 1));
        if (block_size.empty())
        {
            return wrong("block_size is not set", ErrorCode::ATTRIBUTE_NOT_SET);
        }
        if (block_size.size() > get_x()->get_dim().size() ||
            *std::min_element(block_size.begin(), block_size.end()) < 1)
        {
            return wrong({"block_size has ", block_size.size(), " numbers, expected at most ",
                          get_x()->get_dim().size(), ", each at least 1"});
        }
        HIPDNN_CPP_TRY(check_same("y", get_y(), get_x()->get_dim()));
        detail::fill_same(get_y(), get_x());
        return {};
    }
};

} // namespace hipdnn
