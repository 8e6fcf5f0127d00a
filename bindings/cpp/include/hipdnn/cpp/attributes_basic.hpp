/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Convolutions, matmul and pointwise operations.
 */
#pragma once

#include "fields_other.hpp"

namespace hipdnn
{

namespace detail
{

/** What the three convolutions share. */
template <typename Fields>
class ConvolutionAttributes : public Fields
{
public:
    using typename Fields::Self;
    ConvolutionMode math_mode = ConvolutionMode::CROSS_CORRELATION;

    /** @param padding elements before and after each spatial dimension */
    Self& set_padding(const Dims& padding) { return this->set_pre_padding(padding).set_post_padding(padding); }
    Self& set_convolution_mode(ConvolutionMode mode) { return math_mode = mode, static_cast<Self&>(*this); }
    ConvolutionMode get_convolution_mode() const { return math_mode; }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        Fields::each(visitor);
        int32_t number = math_mode == ConvolutionMode::CONVOLUTION ? HIPDNN_CONVOLUTION : HIPDNN_CROSS_CORRELATION;
        int64_t count = math_mode == ConvolutionMode::NOT_SET ? 0 : 1;
        visitor.values(HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, sizeof number, count, &number);
        math_mode = count == 0                     ? ConvolutionMode::NOT_SET
                    : number == HIPDNN_CONVOLUTION ? ConvolutionMode::CONVOLUTION
                                                   : ConvolutionMode::CROSS_CORRELATION;
    }

protected:
    /** Checks the lists for an image of this rank. */
    Error check_windows(size_t rank) const
    {
        const std::pair<const char*, const Dims*> lists[] = {{"pre_padding", &this->pre_padding},
                                                             {"post_padding", &this->post_padding},
                                                             {"stride", &this->stride},
                                                             {"dilation", &this->dilation}};
        for (const auto& list : lists)
        {
            if (list.second->empty())
            {
                return this->wrong({list.first, " is not set"}, ErrorCode::ATTRIBUTE_NOT_SET);
            }
            const int64_t least = list.first[0] == 'p' ? 0 : 1;
            if (list.second->size() != rank - 2 || *std::min_element(list.second->begin(), list.second->end()) < least)
            {
                return this->wrong(
                    {list.first, " is ", *list.second, ", expected ", rank - 2, " numbers of at least ", least});
            }
        }
        return {};
    }

    /** Checks that images and filters agree in their channels, and returns the number of output images. */
    Error output_of(const Dims& x, const Dims& w, Dims& y) const
    {
        if (x.size() != w.size())
        {
            return this->wrong({"the filter has shape ", w, ", expected ", x.size(), " dimensions"});
        }
        if (x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0)
        {
            return this->wrong({"images of ", x[1], " channels and a filter of shape ", w,
                                " do not fit, expected groups of equal size"});
        }
        y = {x[0], w[0]};
        for (size_t i = 2; i < x.size(); i++)
        {
            const Checked padded = Checked(x[i]) + this->pre_padding[i - 2] + this->post_padding[i - 2];
            const Checked room = padded - (Checked(this->dilation[i - 2]) * (w[i] - 1) + 1);
            HIPDNN_CPP_TRY(this->check_size("the padded image or the dilated filter", i, room));
            if (room.value() < 0)
            {
                return this->wrong({"dimension ", i, " of the image is ", x[i], ", too small for a filter of ", w[i]});
            }
            const Checked size = room / this->stride[i - 2] + 1;
            HIPDNN_CPP_TRY(this->check_size("the result", i, size));
            y.push_back(size.value());
        }
        return {};
    }

    Error check_image(const char* word, const TensorPtr& tensor) const
    {
        if (!tensor->validate_dims_and_strides_set_and_positive() || tensor->get_dim().size() < 3)
        {
            return this->wrong({word, " has shape ", tensor->get_dim(), " and strides ", tensor->get_stride(),
                                ", expected at least 3 positive numbers each"});
        }
        return {};
    }
};

} // namespace detail

/** Convolution: x [N, C, spatial], w [K, C / groups, filter], y [N, K, spatial]. */
class ConvFpropAttributes : public detail::ConvolutionAttributes<detail::ConvolutionForwardFields<ConvFpropAttributes>>
{
public:
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_image("x", get_x()));
        HIPDNN_CPP_TRY(check_image("w", get_w()));
        HIPDNN_CPP_TRY(check_windows(get_x()->get_dim().size()));
        Dims dims;
        HIPDNN_CPP_TRY(output_of(get_x()->get_dim(), get_w()->get_dim(), dims));
        HIPDNN_CPP_TRY(check_same("y", get_y(), dims));
        detail::fill_shape(get_y(), dims, get_x());
        return {};
    }
};

/** Backward data of a convolution: dy [N, K, spatial], w [K, C / groups, filter], dx [N, C, spatial]. */
class ConvDgradAttributes
    : public detail::ConvolutionAttributes<detail::ConvolutionBackwardDataFields<ConvDgradAttributes>>
{
public:
    /** If dx has no shape: one group, and the smallest image. */
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_image("dy", get_dy()));
        HIPDNN_CPP_TRY(check_image("w", get_w()));
        const Dims &dy = get_dy()->get_dim(), &w = get_w()->get_dim();
        HIPDNN_CPP_TRY(check_windows(dy.size()));
        if (w.size() != dy.size() || w[0] != dy[1])
        {
            return wrong(
                {"the filter has shape ", w, ", expected as many dimensions as dy and ", dy[1], " output channels"});
        }
        if (get_dx()->get_dim().empty())
        {
            Dims dims = {dy[0], w[1]};
            for (size_t i = 2; i < dy.size(); i++)
            {
                const detail::Checked filter = detail::Checked(dilation[i - 2]) * (w[i] - 1) + 1;
                const detail::Checked size =
                    detail::Checked(dy[i] - 1) * stride[i - 2] + filter - pre_padding[i - 2] - post_padding[i - 2];
                HIPDNN_CPP_TRY(check_size("dx", i, size));
                dims.push_back(size.value());
            }
            get_dx()->set_dim(dims);
        }
        Dims expected;
        const Dims& dx = get_dx()->get_dim();
        if (dx.size() != dy.size() || !get_dx()->validate_dims_set_and_positive())
        {
            return wrong({"dx has shape ", dx, ", expected ", dy.size(), " positive numbers"});
        }
        HIPDNN_CPP_TRY(output_of(dx, w, expected));
        HIPDNN_CPP_TRY(check_same("dy", get_dy(), expected));
        detail::fill_shape(get_dx(), dx, get_dy());
        return {};
    }
};

/** Backward weights of a convolution: dy [N, K, spatial], x [N, C, spatial], dw [K, C / groups, filter]. */
class ConvWgradAttributes
    : public detail::ConvolutionAttributes<detail::ConvolutionBackwardFilterFields<ConvWgradAttributes>>
{
public:
    /** If dw has no shape: one group, and the largest filter. */
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_image("x", get_x()));
        HIPDNN_CPP_TRY(check_image("dy", get_dy()));
        const Dims &x = get_x()->get_dim(), &dy = get_dy()->get_dim();
        HIPDNN_CPP_TRY(check_windows(x.size()));
        if (dy.size() != x.size() || dy[0] != x[0])
        {
            return wrong({"dy has shape ", dy, ", expected as many dimensions and images as x ", x});
        }
        if (get_dw()->get_dim().empty())
        {
            Dims dims = {dy[1], x[1]};
            for (size_t i = 2; i < x.size(); i++)
            {
                const detail::Checked padded = detail::Checked(x[i]) + pre_padding[i - 2] + post_padding[i - 2];
                const detail::Checked room = padded - detail::Checked(stride[i - 2]) * (dy[i] - 1) - 1;
                if (!room.fits() || room.value() < 0 || room.value() % dilation[i - 2] >= stride[i - 2])
                {
                    return wrong({"the filter's shape does not follow from x ", x, " and dy ", dy});
                }
                const detail::Checked size = room / dilation[i - 2] + 1;
                HIPDNN_CPP_TRY(check_size("dw", i, size));
                dims.push_back(size.value());
            }
            get_dw()->set_dim(dims);
        }
        Dims expected;
        const Dims& dw = get_dw()->get_dim();
        if (!get_dw()->validate_dims_set_and_positive() || dw.size() != x.size())
        {
            return wrong({"dw has shape ", dw, ", expected ", x.size(), " positive numbers"});
        }
        HIPDNN_CPP_TRY(output_of(x, dw, expected));
        HIPDNN_CPP_TRY(check_same("dy", get_dy(), expected));
        detail::fill_shape(get_dw(), dw, get_x());
        return {};
    }
};

/** Matrix product: a [batch, M, K], b [batch, K, N], c [batch, M, N]; batches broadcast if one divides the other. */
class MatmulAttributes : public detail::MatmulFields<MatmulAttributes>
{
public:
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("a", get_a(), 2));
        HIPDNN_CPP_TRY(check_rank("b", get_b(), 2));
        const Dims &a = get_a()->get_dim(), &b = get_b()->get_dim();
        const size_t rank = a.size();
        if (b.size() != rank || a[rank - 1] != b[rank - 2])
        {
            return wrong(
                {"a has shape ", a, " and b ", b, ", expected as many dimensions and a's columns as b's rows"});
        }
        Dims c = a;
        c[rank - 1] = b[rank - 1];
        for (size_t i = 0; i + 2 < rank; i++)
        {
            if (a[i] < 1 || b[i] < 1 || (a[i] % b[i] != 0 && b[i] % a[i] != 0))
            {
                return wrong(
                    {"dimension ", i, " is ", a[i], " in a and ", b[i], " in b, expected one to divide the other"});
            }
            c[i] = std::max(a[i], b[i]);
        }
        HIPDNN_CPP_TRY(check_same("c", get_c(), c));
        detail::fill_packed(get_c(), c);
        return {};
    }
};

/** A pointwise function of one, two or three tensors, which broadcast. */
class PointwiseAttributes : public detail::PointwiseFields<PointwiseAttributes>
{
public:
    template <typename = void>
    Error shapes()
    {
        if (mode == PointwiseMode::NOT_SET)
        {
            return wrong("the mode is not set", ErrorCode::ATTRIBUTE_NOT_SET);
        }
        const auto wanted = static_cast<size_t>(pointwise_inputs(mode));
        if (wanted == 0)
        {
            return unsupported({"mode number ", static_cast<int>(mode), " is one that hipDNN does not have"});
        }
        if (inputs.size() != wanted)
        {
            return wrong({inputs.size(), " inputs, expected ", wanted, " for this mode"});
        }
        Dims dims;
        for (const auto name_of : {InputNames::IN_0, InputNames::IN_1, InputNames::IN_2})
        {
            const TensorPtr& tensor = inputs.at(name_of);
            if (tensor != nullptr && !detail::broadcast(dims, tensor->get_dim()))
            {
                return wrong({"input \"", tensor->get_name(), "\" has shape ", tensor->get_dim(),
                              ", which does not broadcast with ", dims});
            }
        }
        const TensorPtr& out = outputs[OutputNames::OUT_0];
        Dims common = dims;
        if (!out->get_dim().empty() && (!detail::broadcast(common, out->get_dim()) || common != out->get_dim()))
        {
            return wrong({"out_0 has shape ", out->get_dim(), ", expected ", dims});
        }
        if (out->get_dim().empty())
        {
            out->set_dim(dims);
        }
        /* The last input with the shape, which the maps of both frontends name first. */
        for (const auto name_of : {InputNames::IN_2, InputNames::IN_1, InputNames::IN_0})
        {
            const TensorPtr& tensor = inputs.at(name_of);
            if (tensor != nullptr && out->get_stride().empty() && tensor->get_dim() == out->get_dim())
            {
                out->set_stride(tensor->get_stride());
            }
        }
        detail::fill_packed(out, dims);
        return {};
    }
};

} // namespace hipdnn
