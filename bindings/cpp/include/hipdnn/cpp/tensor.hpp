/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Tensors of a graph: shape, type and role. Memory comes with each execution.
 */
#pragma once

#include "checked.hpp"
#include "error.hpp"
#include "types.hpp"

#include <memory>
#include <string>
#include <variant>

namespace hipdnn
{

/** The types that tensors and operations inherit from their graph if they have none. */
struct GraphTypes
{
    DataType compute = DataType::NOT_SET;
    DataType intermediate = DataType::NOT_SET;
    DataType io = DataType::NOT_SET;
};

/** A layout of the elements that programs for cuDNN may request; only NONE is supported. */
enum class TensorReordering { NONE = 0, INT8x32 = 1, F16x16 = 2, F8_128x4 = 3 };

/**
 * A tensor of a graph.
 *
 * Dimensions are in the order that the operation documents, such as N, C, H, W; strides are in elements and define the layout.
 * A tensor with a value is a scalar: part of the graph, or (set_is_pass_by_value) read from host memory at each execution.
 */
class Tensor
{
public:
    /** A scalar's value; the first alternative means none. */
    using ValueVariant = std::variant<std::monostate, double, float, half, bfloat16, uint8_t, int32_t, int64_t, bool>;
    using pass_by_values_t = ValueVariant;
    using uid_t = int64_t;

    Tensor() = default;

    /** A scalar that is part of the graph. */
    template <typename T, typename = std::enable_if_t<is_scalar_of_graph<T>()>>
    Tensor(const T& scalar)
    {
        set_value(scalar);
    }

    /** A scalar that is part of the graph, or a default for one that is passed at each execution. */
    template <typename T, typename = std::enable_if_t<is_scalar_of_graph<T>()>>
    Tensor(const T& scalar, ScalarType type)
    {
        set_value(scalar);
        _by_value = type == ScalarType::RUNTIME_PARAM;
    }

    Tensor& set_name(const std::string& name) { return _name = name, *this; }
    const std::string& get_name() const { return _name; }

    Tensor& set_data_type(DataType type) { return _type = type, *this; }
    DataType get_data_type() const { return _type; }

    /** @param dims sizes, each at least 1 */
    Tensor& set_dim(const Dims& dims) { return _dims = dims, *this; }
    const Dims& get_dim() const { return _dims; }
    /** The number of elements; INT64_MAX if there are more. */
    int64_t get_volume() const
    {
        detail::Checked volume = 1;
        for (const int64_t dim : _dims)
        {
            volume = volume * dim;
        }
        return volume.value();
    }

    /** @param strides in elements, one for each dimension */
    Tensor& set_stride(const Dims& strides) { return _strides = strides, *this; }
    const Dims& get_stride() const { return _strides; }

    /** A number unique in the graph, by which executions bind memory. */
    Tensor& set_uid(int64_t uid) { return _uid = uid, _has_uid = true, *this; }
    Tensor& clear_uid() { return _uid = 0, _has_uid = false, *this; }
    int64_t get_uid() const { return _uid; }
    bool has_uid() const { return _has_uid; }

    /** Whether the tensor exists only inside the graph, without memory of the caller's. */
    Tensor& set_is_virtual(bool is_virtual) { return _virtual = is_virtual, *this; }
    bool get_is_virtual() const { return _virtual; }
    /** Whether the caller gets the tensor, the opposite of virtual. */
    Tensor& set_output(bool output) { return set_is_virtual(!output); }

    /** @param bytes the alignment of its memory; 16 by default */
    Tensor& set_alignment(int64_t bytes) { return _alignment = bytes, *this; }
    int64_t get_alignment() const { return _alignment; }

    /** The beginning of each batch, for ragged batches without padding: INT32 or INT64, one more than batches. */
    Tensor& set_ragged_offset(const std::shared_ptr<Tensor>& offset) { return _ragged_offset = offset, *this; }
    std::shared_ptr<Tensor> get_ragged_offset() const { return _ragged_offset; }
    bool has_ragged_offset() const { return _ragged_offset != nullptr; }
    /** The factor from ragged offsets to elements, 1 by default. */
    Tensor& set_ragged_offset_multiplier(int64_t factor) { return _ragged_multiplier = factor, *this; }
    int64_t get_ragged_offset_multiplier() const { return _ragged_multiplier; }

    Tensor& set_reordering_type(TensorReordering type) { return _reordering = type, *this; }
    TensorReordering get_reordering_type() const { return _reordering; }

    /** Makes the tensor a scalar of the graph: its type, dimension 1 and value. */
    template <typename T>
    Tensor& set_value(T value)
    {
        static_assert(is_scalar_of_graph<T>(), "not a type that a scalar of a graph can have");
        _value = value;
        _by_value = false;
        _type = getDataTypeEnumFromType<T>();
        _dims = _strides = {1};
        return *this;
    }
    Tensor& clear_value() { return _value = {}, *this; }
    const ValueVariant& get_value_variant() const { return _value; }
    bool has_value() const { return !std::holds_alternative<std::monostate>(_value); }

    /** Whether the scalar is read from host memory at each execution. */
    Tensor& set_is_pass_by_value(bool by_value) { return _by_value = by_value, *this; }
    Tensor& set_as_runtime_parameter() { return clear_value().set_is_pass_by_value(true); }
    bool get_is_runtime_pass_by_value() const { return _by_value; }
    bool get_is_pass_by_value() const { return _by_value || has_value(); }

    /** The default of a scalar that is passed at each execution. */
    std::optional<pass_by_values_t> get_pass_by_value() const
    {
        return _by_value && has_value() ? std::optional<pass_by_values_t>(_value) : std::nullopt;
    }
    template <typename T>
    std::optional<T> get_pass_by_value() const
    {
        const T* value = _by_value ? std::get_if<T>(&_value) : nullptr;
        return value == nullptr ? std::nullopt : std::optional<T>(*value);
    }

    template <typename = void>
    Tensor& set_compile_time_constant(const pass_by_values_t& value)
    {
        std::visit(
            [this](const auto& scalar) {
                static_cast<void>(this); // clang misses the use where there is no value
                if constexpr (!std::is_same_v<std::decay_t<decltype(scalar)>, std::monostate>)
                {
                    set_value(scalar);
                }
            },
            value);
        return *this;
    }
    bool get_has_compile_time_constant() const { return !_by_value && has_value(); }
    std::optional<pass_by_values_t> get_compile_time_constant() const
    {
        return get_has_compile_time_constant() ? std::optional<pass_by_values_t>(_value) : std::nullopt;
    }
    template <typename T>
    std::optional<T> get_compile_time_constant() const
    {
        const T* value = _by_value ? nullptr : std::get_if<T>(&_value);
        return value == nullptr ? std::nullopt : std::optional<T>(*value);
    }

    /** Inherits the graph's type for such tensors, if it has none. */
    Tensor& fill_from_context(const GraphTypes& types)
    {
        if (_type == DataType::NOT_SET)
        {
            _type = _virtual ? types.intermediate : types.io;
        }
        return *this;
    }

    bool validate_dims_set_and_positive() const
    {
        for (const int64_t dim : _dims)
        {
            if (dim <= 0)
            {
                return false;
            }
        }
        return !_dims.empty();
    }

    bool validate_dims_and_strides_set_and_positive() const
    {
        for (const int64_t stride : _strides)
        {
            if (stride <= 0)
            {
                return false;
            }
        }
        return validate_dims_set_and_positive() && _strides.size() == _dims.size();
    }

    /**
     * Whether everything is set that the graph needs.
     * @return ATTRIBUTE_NOT_SET for a missing type or shape, INVALID_VALUE for a wrong one
     */
    Error validate() const
    {
        const std::string who = "tensor \"" + _name + "\"";
        if (_type == DataType::NOT_SET)
        {
            return {ErrorCode::ATTRIBUTE_NOT_SET,
                    detail::join({who, " has no data type, expected one of its own or of its graph"})};
        }
        if (!detail::to_c(_type))
        {
            return {
                ErrorCode::GRAPH_NOT_SUPPORTED,
                detail::join({who, " has data type number ", static_cast<int>(_type), ", which hipDNN does not have"})};
        }
        if (_virtual && (_by_value || has_value()))
        {
            return {ErrorCode::INVALID_VALUE,
                    detail::join({who, " is virtual and passed by value, expected one of both"})};
        }
        if (_dims.empty())
        {
            return {ErrorCode::ATTRIBUTE_NOT_SET, detail::join({who, " has no dimensions"})};
        }
        if (_dims.size() != _strides.size())
        {
            return {ErrorCode::INVALID_VALUE, detail::join({who, " has ", _dims.size(), " dimensions and ",
                                                            _strides.size(), " strides, expected as many"})};
        }
        if (!validate_dims_set_and_positive())
        {
            return {ErrorCode::INVALID_VALUE, detail::join({who, " has a dimension below 1"})};
        }
        detail::Checked last = 0, volume = 1;
        for (size_t i = 0; i < _dims.size(); i++)
        {
            last = last + detail::Checked(_dims[i] - 1) * _strides[i];
            volume = volume * _dims[i];
        }
        if (!(last + 1).fits() || !volume.fits())
        {
            return {ErrorCode::INVALID_VALUE, detail::join({who, " has shape ", _dims, " and strides ", _strides,
                                                            ", expected elements that 64 bits can count"})};
        }
        if (_alignment < 1)
        {
            return {ErrorCode::INVALID_VALUE,
                    detail::join({who, " has alignment ", _alignment, ", expected at least 1"})};
        }
        if (_reordering != TensorReordering::NONE)
        {
            return {ErrorCode::GRAPH_NOT_SUPPORTED,
                    detail::join({who, " has reordered elements, which hipDNN does not compute"})};
        }
        return {};
    }

    /* Comparisons are templates, so that a program without them need not compile those of values. */

    /** Equality except for names and uids. */
    template <typename = void>
    bool logicallyEquals(const Tensor& other) const
    {
        return _type == other._type && _dims == other._dims && _strides == other._strides &&
               _virtual == other._virtual && _by_value == other._by_value && _value == other._value;
    }
    template <typename = void>
    bool operator==(const Tensor& other) const
    {
        return logicallyEquals(other) && _name == other._name && _has_uid == other._has_uid && _uid == other._uid;
    }
    template <typename = void>
    bool operator!=(const Tensor& other) const
    {
        return !(*this == other);
    }

private:
    int64_t _uid = 0;
    std::string _name;
    Dims _dims;
    Dims _strides;
    ValueVariant _value;
    std::shared_ptr<Tensor> _ragged_offset;
    int64_t _ragged_multiplier = 1;
    int64_t _alignment = 16;
    DataType _type = DataType::NOT_SET;
    TensorReordering _reordering = TensorReordering::NONE;
    bool _has_uid = false;
    bool _virtual = false;
    bool _by_value = false;
};

/** A tensor shared by its user and the operations of a graph. */
using TensorPtr = std::shared_ptr<Tensor>;

} // namespace hipdnn
