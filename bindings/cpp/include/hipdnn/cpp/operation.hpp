/* SPDX-License-Identifier: MIT */

/**
 * @file
 * What all operations share: a name, a compute type, and attributes, which a visitor visits.
 */
#pragma once

#include "descriptor.hpp"
#include "shapes.hpp"

namespace hipdnn
{
namespace detail
{

/** Whether an operation reads or writes a tensor, and whether it is optional. */
enum class Role { Input, OptionalInput, Output, OptionalOutput };

inline bool is_input(Role role) { return role == Role::Input || role == Role::OptionalInput; }
inline bool is_required(Role role) { return role == Role::Input || role == Role::Output; }

/** A visitor of the attributes of an operation, one after the other. */
class Visitor
{
public:
    virtual ~Visitor() = default;
    virtual void tensor(hipdnnBackendAttributeName_t name, TensorPtr& tensor, const char* word, Role role) = 0;
    virtual void tensors(hipdnnBackendAttributeName_t name, std::vector<TensorPtr>& tensors, Role role) = 0;
    virtual void integers(hipdnnBackendAttributeName_t name, Dims& values) = 0;
    /** A single value, or several of one type; absent if count is 0. */
    virtual void values(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, size_t size,
                        int64_t& count, void* data) = 0;
    /** Bytes or text of any length. */
    virtual void bytes(hipdnnBackendAttributeName_t name, std::vector<uint8_t>& bytes) = 0;
};

template <typename Value>
void visit_value(Visitor& visitor, hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type,
                 std::optional<Value>& value)
{
    Value one = value.value_or(Value());
    int64_t count = value.has_value() ? 1 : 0;
    visitor.values(name, type, sizeof one, count, &one);
    value = count > 0 ? std::optional<Value>(one) : std::nullopt;
}

/** A number that is always there. */
template <typename Number>
void visit_number(Visitor& visitor, hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type,
                  Number& number)
{
    std::optional<Number> value = number;
    visit_value(visitor, name, type, value);
    number = value.value_or(0);
}

inline void visit_flag(Visitor& visitor, hipdnnBackendAttributeName_t name, bool& flag)
{
    int64_t count = 1;
    visitor.values(name, HIPDNN_TYPE_BOOLEAN, sizeof flag, count, &flag);
}

/** A mode with the C interface's number; left out if it is 0 and 0 means not set. */
template <typename Enum>
void visit_mode(Visitor& visitor, hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, Enum& mode,
                bool zero_is_unset = true)
{
    auto number = static_cast<int32_t>(mode);
    int64_t count = number == 0 && zero_is_unset ? 0 : 1;
    visitor.values(name, type, sizeof number, count, &number);
    mode = count > 0 ? static_cast<Enum>(number) : Enum();
}

inline void visit_type(Visitor& visitor, hipdnnBackendAttributeName_t name, DataType& type)
{
    const auto known = to_c(type);
    auto number = static_cast<int32_t>(known.value_or(HIPDNN_DATA_FLOAT));
    int64_t count = known.has_value() ? 1 : 0;
    visitor.values(name, HIPDNN_TYPE_DATA_TYPE, sizeof number, count, &number);
    type = count > 0 ? from_c(static_cast<hipdnnDataType_t>(number)) : DataType::NOT_SET;
}

/** Tensors by their names in an operation. */
template <typename Names, size_t Count>
class Slots
{
public:
    TensorPtr& operator[](Names name) { return _tensors[static_cast<size_t>(name)]; }
    const TensorPtr& operator[](Names name) const { return _tensors[static_cast<size_t>(name)]; }
    const TensorPtr& at(Names name) const { return _tensors[static_cast<size_t>(name)]; }
    size_t count(Names name) const { return _tensors[static_cast<size_t>(name)] != nullptr ? 1 : 0; }
    /** The number of tensors that are set. */
    size_t size() const
    {
        size_t set = 0;
        for (const auto& tensor : _tensors)
        {
            set += tensor != nullptr ? 1 : 0;
        }
        return set;
    }

private:
    TensorPtr _tensors[Count];
};

} // namespace detail

/** The C interface's numbers for a kind of operation. */
struct OperationKind
{
    const char* word;
    hipdnnBackendDescriptorType_t descriptor;
    hipdnnOperationType_ext_t type;
    hipdnnBackendAttributeName_t compute_type;
};

/** An operation of a graph, whatever its kind. */
class Operation
{
public:
    std::string name;
    DataType compute_data_type = DataType::NOT_SET;

    virtual ~Operation() = default;

    const std::string& get_name() const { return name; }
    DataType get_compute_data_type() const { return compute_data_type; }

    virtual OperationKind kind() const = 0;
    /** Visits all attributes except the name and the compute type. */
    virtual void visit(detail::Visitor& visitor) = 0;
    /**
     * Checks the shapes of inputs, and infers missing shapes of outputs.
     * @return INVALID_VALUE with the tensor, its shape and what was expected
     */
    virtual Error infer() = 0;

protected:
    Operation() = default;
    Operation(const Operation&) = default;
    Operation(Operation&&) = default;
    Operation& operator=(const Operation&) = default;
    Operation& operator=(Operation&&) = default;

    /** An error about this operation. */
    Error wrong(detail::Words what, ErrorCode code = ErrorCode::INVALID_VALUE) const
    {
        return wrong(detail::join(what).c_str(), code);
    }
    Error wrong(const char* what, ErrorCode code = ErrorCode::INVALID_VALUE) const
    {
        return {code, detail::join({kind().word, " \"", name, "\": ", what})};
    }

    /** An unsupported feature that programs may request. */
    Error unsupported(detail::Words what) const { return wrong(what, ErrorCode::GRAPH_NOT_SUPPORTED); }
    Error unsupported(const char* what) const { return wrong(what, ErrorCode::GRAPH_NOT_SUPPORTED); }

    /** An error if a size that follows from others does not fit 64 bits. */
    Error check_size(const char* word, size_t dimension, detail::Checked size) const
    {
        return size.fits() ? Error() : wrong({"dimension ", dimension, " of ", word, " does not fit 64 bits"});
    }

    Error check_rank(const char* word, const TensorPtr& tensor, size_t least) const
    {
        if (tensor->get_dim().size() < least)
        {
            return wrong({word, " has shape ", tensor->get_dim(), ", expected at least ", least, " dimensions"});
        }
        return {};
    }

    Error check_same(const char* word, const TensorPtr& tensor, const Dims& expected) const
    {
        if (!tensor->get_dim().empty() && tensor->get_dim() != expected)
        {
            return wrong({word, " has shape ", tensor->get_dim(), ", expected ", expected});
        }
        return {};
    }

    Error check_scalar(const char* word, const TensorPtr& tensor) const
    {
        if (tensor != nullptr && !tensor->get_dim().empty() && tensor->get_volume() != 1)
        {
            return wrong({word, " has shape ", tensor->get_dim(), ", expected one element"});
        }
        return {};
    }
};

/** The attributes of a kind of operation, whose setters return it. */
template <typename Self>
class Attributes : public Operation
{
public:
    Self& set_name(const std::string& value)
    {
        name = value;
        return static_cast<Self&>(*this);
    }
    Self& set_compute_data_type(DataType type)
    {
        compute_data_type = type;
        return static_cast<Self&>(*this);
    }

    /* The code of a kind is in templates of its class, which cost nothing in programs without that kind. */
    void visit(detail::Visitor& visitor) override { static_cast<Self&>(*this).each(visitor); }
    Error infer() override { return static_cast<Self&>(*this).shapes(); }
};

} // namespace hipdnn

/* A tensor that an operation reads or writes: its getter and its setter. */
#define HIPDNN_CPP_TENSOR(slot, word)                                             \
    ::hipdnn::TensorPtr get_##word() const { return slot; }                       \
    Self &set_##word(::hipdnn::TensorPtr tensor)                                  \
    {                                                                             \
        slot = std::move(tensor);                                                 \
        return static_cast<Self &>(*this);                                        \
    }
#define HIPDNN_CPP_INPUT(key, word) HIPDNN_CPP_TENSOR(inputs[InputNames::key], word)
#define HIPDNN_CPP_OUTPUT(key, word) HIPDNN_CPP_TENSOR(outputs[OutputNames::key], word)
/* An attribute: the member, its getter and its setter. */
#define HIPDNN_CPP_ATTRIBUTE(type, got, taken, word, initial)                     \
    type word = initial;                                                          \
    got get_##word() const { return word; }                                       \
    Self &set_##word(taken value)                                                 \
    {                                                                             \
        word = std::move(value);                                                  \
        return static_cast<Self &>(*this);                                        \
    }
#define HIPDNN_CPP_FIELD(type, word, initial) HIPDNN_CPP_ATTRIBUTE(type, type, type, word, initial)
#define HIPDNN_CPP_LIST(type, word) HIPDNN_CPP_ATTRIBUTE(type, const type &, type, word, {})
#define HIPDNN_CPP_OPTIONAL(type, word) HIPDNN_CPP_ATTRIBUTE(std::optional<type>, std::optional<type>, type, word, {})
