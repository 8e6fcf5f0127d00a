/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Views of a program's memory: NVIDIA's transpose, reshape and slice.
 */
#pragma once

#include "compositions.hpp"

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace graph
{

/** Tensors that are views of others; executions bind only the others. */
template <typename Self>
class Views : public Compositions<Self>
{
    using Base = Compositions<Self>;
    using Dims = ::hipdnn::Dims;
    using Pack = ::hipdnn::VariantPack;
    using Checked = ::hipdnn::detail::Checked;

public:
    /** The tensor with its dimensions permuted, with permuted strides unless the result gets its own. */
    Tensor transpose(Tensor x, const Transpose_attributes& attributes)
    {
        const Dims& order = attributes.permutation;
        Dims seen(order.size(), 0), dims, strides;
        for (const int64_t at : order)
        {
            const bool known =
                at >= 0 && static_cast<size_t>(at) < order.size() && seen[static_cast<size_t>(at)]++ == 0;
            if (!known || order.size() != x->get_dim().size() || order.size() != x->get_stride().size())
            {
                return wrong("transpose", "the permutation has to have each dimension of the input once");
            }
            dims.push_back(x->get_dim()[static_cast<size_t>(at)]);
            strides.push_back(x->get_stride()[static_cast<size_t>(at)]);
        }
        return view("transpose", attributes, std::move(x), dims, strides, 0);
    }

    /** The elements, in memory order, in the shape of the attributes or the result; channels last without strides. */
    Tensor reshape(Tensor x, const Reshape_attributes& attributes)
    {
        if (x->get_stride() != ::hipdnn::packed_strides(x->get_dim()))
        {
            return wrong("reshape", "the input has to lie in memory without gaps");
        }
        const Dims& dim = attributes.dim;
        Tensor made =
            view("reshape", attributes, std::move(x), dim, dim.empty() ? dim : ::hipdnn::packed_strides(dim), 0);
        made->set_dim(dim).set_stride(attributes.stride);
        if (!_views.empty() && _views.back().result == made)
        {
            _views.back().reshaped = true;
        }
        return made;
    }

    /** A part of the tensor. */
    Tensor slice(Tensor x, const Slice_attributes& attributes)
    {
        Dims dims, strides;
        Checked offset = 0;
        const size_t count = x->get_dim().size();
        for (size_t i = 0; i < attributes.slices.size() && i < count && x->get_stride().size() == count; i++)
        {
            const int64_t first = attributes.slices[i].first, end = attributes.slices[i].second;
            const int64_t step = attributes.strides.size() == count ? attributes.strides[i] : 1;
            if (first < 0 || end <= first || end > x->get_dim()[i] || step < 1)
            {
                break;
            }
            dims.push_back((end - first - 1) / step + 1);
            strides.push_back((Checked(x->get_stride()[i]) * step).value());
            offset = offset + Checked(first) * x->get_stride()[i];
        }
        if (dims.size() != count || attributes.slices.size() != count || !(offset * 8).fits())
        {
            return wrong("slice", "expected a part of each dimension of the input, and steps of at least 1");
        }
        return view("slice", attributes, std::move(x), dims, strides, offset.value());
    }

protected:
    /** A tensor, its base, and its offset in the base, in elements. */
    struct View
    {
        Tensor base, part, result;
        int64_t offset = 0;
        bool reshaped = false;
    };
    std::vector<View> _views;

    /** Sets what views inherit from their base: the type, a uid to bind, and the shape of a reshaped result. */
    error_t settle_views()
    {
        int64_t next = int64_t{1} << 48;
        for (View& one : _views)
        {
            if (!one.base->has_uid())
            {
                one.base->set_uid(next++);
            }
            one.base->fill_from_context(this->_types);
            one.part->set_data_type(one.base->get_data_type());
            one.part->set_alignment(
                static_cast<int64_t>(std::max<size_t>(::hipdnn::detail::bytes_of(one.base->get_data_type()), 1)));
            if (one.part->get_dim().empty())
            {
                const Dims& dims = one.result->get_dim();
                one.part->set_dim(dims).set_stride(::hipdnn::packed_strides(dims));
            }
            if (one.reshaped && one.result->get_stride().empty())
            {
                one.result->set_stride(::hipdnn::channels_last_strides(one.part->get_dim()));
            }
            if (one.part->get_dim().empty() || one.part->get_volume() > one.base->get_volume())
            {
                return {error_code_t::INVALID_VALUE,
                        "reshape: the result has shape " + ::hipdnn::detail::text(one.part->get_dim()) +
                            ", expected as many elements as in " + ::hipdnn::detail::text(one.base->get_dim())};
            }
        }
        return {};
    }

    /** Views of a loaded graph, by uids. */
    error_t load_views(const std::vector<int64_t>& numbers)
    {
        const auto known = this->tensors_by_uid();
        _views.clear();
        for (size_t i = 0; i + 2 < numbers.size(); i += 3)
        {
            const auto part = known.find(numbers[i + 1]), base = known.find(numbers[i]);
            if (part == known.end() || numbers[i + 2] < 0 || !(Checked(numbers[i + 2]) * 8).fits())
            {
                return {error_code_t::INVALID_VALUE,
                        "the bytes name a tensor that the graph lacks, expected what serialize() wrote"};
            }
            View one;
            one.part = part->second;
            one.base = base == known.end() ? std::make_shared<Tensor_attributes>(*part->second) : base->second;
            one.base->set_uid(numbers[i]);
            one.offset = numbers[i + 2];
            _views.push_back(one);
        }
        return {};
    }

    /** Adds the memory of views to that of an execution. */
    error_t with_views(const Pack& given, Pack& all) const
    {
        all = given;
        for (const View& one : _views)
        {
            const auto memory = given.find(one.base->get_uid());
            if (memory == given.end() || memory->second == nullptr)
            {
                return {error_code_t::INVALID_VALUE,
                        "tensor \"" + one.base->get_name() + "\" has no memory, which another is a part of"};
            }
            const auto bytes = static_cast<int64_t>(::hipdnn::detail::bytes_of(one.base->get_data_type()));
            all[one.part->get_uid()] = static_cast<char*>(memory->second) + one.offset * bytes;
        }
        const auto known = this->tensors_by_uid();
        for (const View& one : _views)
        {
            if (known.count(one.base->get_uid()) == 0)
            {
                all.erase(one.base->get_uid());
            }
        }
        return {};
    }

private:
    template <typename Attributes>
    Tensor view(const char* word, const Attributes& attributes, Tensor x, const Dims& dims, const Dims& strides,
                int64_t offset)
    {
        if (x->get_is_virtual() || x->get_is_pass_by_value())
        {
            return wrong(word, "a result between operations is given, expected a tensor of the program's memory");
        }
        const std::string name = attributes.name.empty() ? std::string(word) : attributes.name;
        View made;
        made.part = std::make_shared<Tensor_attributes>();
        made.part->set_name(name + "::VIEW").set_dim(dims).set_stride(strides);
        made.base = std::move(x);
        made.offset = offset;
        made.result = this->change({name, DataType_t::FLOAT}, "OUT", PointwiseMode_t::IDENTITY, made.part);
        made.result->set_data_type(made.base->get_data_type());
        _views.push_back(made);
        return made.result;
    }

    Tensor wrong(const char* word, const char* reason)
    {
        return this->template refuse<1>((std::string(word) + " (" + reason + ")").c_str())[0];
    }
};

} // namespace graph
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
