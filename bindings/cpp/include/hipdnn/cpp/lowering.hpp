/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Operations written to the library's descriptors.
 */
#pragma once

#include "operation.hpp"

#include <unordered_map>

namespace hipdnn
{
namespace detail
{

/** Objects by uid, or by address; of the one map type that programs use for their memory, as each further one costs compile time. */
using Index = std::unordered_map<int64_t, void*>;

/** Adds an object under a free key; false if the key is taken. The only place that adds, for the same reason. */
inline bool put(Index& index, int64_t key, const void* thing)
{
    return index.emplace(key, const_cast<void*>(thing)).second;
}

inline int64_t key_of(const void* address) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(address)); }

/** The bytes of a scalar. */
struct Scalar
{
    uint8_t bytes[8] = {};
    size_t count = 0;
};

/** The bytes of a scalar converted to its tensor's type, as it may have been given in another one. */
template <typename AnyTensor>
Scalar value_bytes(const AnyTensor& tensor)
{
    const auto& given = tensor.get_value_variant();
    const DataType type = tensor.get_data_type();
    DataType given_type = DataType::NOT_SET;
    double number = 0;
    int64_t integer = 0;
    uint8_t native[8] = {};
    const auto take = [&](const auto* value) {
        if (value != nullptr)
        {
            given_type = getDataTypeEnumFromType<std::decay_t<decltype(*value)>>();
            number = static_cast<double>(*value);
            integer = static_cast<int64_t>(*value);
            std::memcpy(native, value, sizeof *value);
        }
    };
    take(std::get_if<double>(&given));
    take(std::get_if<float>(&given));
    take(std::get_if<half>(&given));
    take(std::get_if<bfloat16>(&given));
    take(std::get_if<uint8_t>(&given));
    take(std::get_if<int32_t>(&given));
    take(std::get_if<int64_t>(&given));
    take(std::get_if<bool>(&given));
    Scalar made;
    made.count = bytes_of(type);
    const auto store = [&made](auto value) { std::memcpy(made.bytes, &value, sizeof value); };
    const bool raw = given_type == type || (given_type == DataType::UINT8 && made.count == 1);
    switch (raw ? DataType::NOT_SET : type)
    {
    case DataType::FLOAT: store(static_cast<float>(number)); break;
    case DataType::DOUBLE: store(number); break;
    case DataType::HALF: store(half(number)); break;
    case DataType::BFLOAT16: store(bfloat16(number)); break;
    case DataType::INT64: store(integer); break;
    case DataType::INT32: store(static_cast<int32_t>(integer)); break;
    case DataType::INT8:
    case DataType::UINT8: store(static_cast<uint8_t>(integer)); break;
    case DataType::BOOLEAN: store(number != 0); break;
    default: std::memcpy(made.bytes, native, sizeof native); break;
    }
    return made;
}

/** Visits all tensors of operations, and finds missing ones. */
template <typename>
class TensorWalkOf : public Visitor
{
public:
    std::vector<TensorPtr> inputs, outputs;
    /** The first missing required tensor. */
    const char* missing = nullptr;

    void tensor(hipdnnBackendAttributeName_t, TensorPtr& tensor, const char* word, Role role) override
    {
        if (tensor == nullptr)
        {
            missing = is_required(role) && missing == nullptr ? word : missing;
            return;
        }
        (is_input(role) ? inputs : outputs).push_back(tensor);
        if (tensor->get_ragged_offset() != nullptr)
        {
            const TensorPtr offset = tensor->get_ragged_offset();
            inputs.push_back(offset);
        }
    }
    void tensors(hipdnnBackendAttributeName_t name, std::vector<TensorPtr>& list, Role role) override
    {
        for (auto& one : list)
        {
            tensor(name, one, "one of a list", is_input(role) ? Role::Input : Role::Output);
        }
    }
    void integers(hipdnnBackendAttributeName_t, Dims&) override {}
    void values(hipdnnBackendAttributeName_t, hipdnnBackendAttributeType_t, size_t, int64_t&, void*) override {}
    void bytes(hipdnnBackendAttributeName_t, std::vector<uint8_t>&) override {}
};

using TensorWalk = TensorWalkOf<void>;

/** Descriptors of tensors, each made on first use. */
struct TensorDescriptors
{
    std::vector<Descriptor> owned;
    Index by_uid;
};

/** Writes the attributes of an operation to its descriptor. */
template <typename>
class WriterOf : public Visitor
{
public:
    WriterOf(TensorDescriptors& tensors, const Descriptor& operation) : _tensors(tensors), _operation(operation) {}

    /** The first failure. */
    const Error& error() const { return _error; }

    void tensor(hipdnnBackendAttributeName_t name, TensorPtr& tensor, const char*, Role) override
    {
        if (tensor != nullptr && _error.is_good())
        {
            const hipdnnBackendDescriptor_t raw = descriptor_of(*tensor);
            keep(_operation.set(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw));
        }
    }

    void tensors(hipdnnBackendAttributeName_t name, std::vector<TensorPtr>& list, Role) override
    {
        std::vector<hipdnnBackendDescriptor_t> raw;
        for (const auto& tensor : list)
        {
            if (_error.is_good())
            {
                raw.push_back(descriptor_of(*tensor));
            }
        }
        if (!raw.empty() && _error.is_good())
        {
            keep(_operation.set(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data()));
        }
    }

    void integers(hipdnnBackendAttributeName_t name, Dims& values) override
    {
        keep(_operation.set(name, HIPDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data()));
    }

    void values(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, size_t, int64_t& count,
                void* data) override
    {
        if (count > 0)
        {
            keep(_operation.set(name, type, count, data));
        }
    }

    void bytes(hipdnnBackendAttributeName_t name, std::vector<uint8_t>& bytes) override
    {
        if (!bytes.empty())
        {
            keep(_operation.set(name, HIPDNN_TYPE_CHAR, static_cast<int64_t>(bytes.size()), bytes.data()));
        }
    }

private:
    TensorDescriptors& _tensors;
    const Descriptor& _operation;
    Error _error;

    void keep(hipdnnStatus_t status)
    {
        if (_error.is_good())
        {
            _error = backend_error(status, "setting an attribute of an operation");
        }
    }

    hipdnnBackendDescriptor_t descriptor_of(const Tensor& tensor)
    {
        const auto found = _tensors.by_uid.find(tensor.get_uid());
        if (found != _tensors.by_uid.end())
        {
            return static_cast<hipdnnBackendDescriptor_t>(found->second);
        }
        Descriptor made(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
        const int64_t uid = tensor.get_uid(), alignment = tensor.get_alignment(),
                      multiplier = tensor.get_ragged_offset_multiplier();
        const auto type = to_c(tensor.get_data_type()).value_or(HIPDNN_DATA_FLOAT);
        keep(made.set(HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid));
        keep(made.set_text(HIPDNN_ATTR_TENSOR_NAME_EXT, tensor.get_name()));
        keep(made.set(HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, &type));
        keep(made.set(HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, static_cast<int64_t>(tensor.get_dim().size()),
                      tensor.get_dim().data()));
        keep(made.set(HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, static_cast<int64_t>(tensor.get_stride().size()),
                      tensor.get_stride().data()));
        keep(made.set_flag(HIPDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.get_is_virtual()));
        keep(made.set(HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, HIPDNN_TYPE_INT64, 1, &alignment));
        if (tensor.get_ragged_offset() != nullptr)
        {
            const hipdnnBackendDescriptor_t offset = descriptor_of(*tensor.get_ragged_offset());
            keep(made.set(HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &offset));
        }
        if (multiplier != 1)
        {
            keep(made.set(HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, HIPDNN_TYPE_INT64, 1, &multiplier));
        }
        /* A scalar passed at each execution has no value in the graph; its default is bound if an execution does not bind it. */
        if (tensor.get_is_runtime_pass_by_value())
        {
            keep(made.set_flag(HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, true));
        } else if (tensor.has_value())
        {
            const Scalar scalar = value_bytes(tensor);
            keep(made.set(HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, static_cast<int64_t>(scalar.count),
                          scalar.bytes));
        }
        if (_error.is_good())
        {
            _error = made.finalize(("finalizing tensor \"" + tensor.get_name() + "\"").c_str());
        }
        const hipdnnBackendDescriptor_t raw = made.get();
        put(_tensors.by_uid, uid, raw);
        _tensors.owned.push_back(std::move(made));
        return raw;
    }
};

using Writer = WriterOf<void>;

/** The finalized descriptor of an operation. */
template <typename AnyOperation>
Error lower(AnyOperation& operation, TensorDescriptors& tensors, Descriptor& descriptor)
{
    const OperationKind kind = operation.kind();
    const std::string attempt = std::string("lowering ") + kind.word + " \"" + operation.name + "\"";
    descriptor = Descriptor(kind.descriptor);
    if (!descriptor.valid())
    {
        return backend_error(HIPDNN_STATUS_NOT_SUPPORTED, attempt);
    }
    Writer writer(tensors, descriptor);
    operation.visit(writer);
    visit_type(writer, kind.compute_type, operation.compute_data_type);
    if (writer.error().is_bad())
    {
        return {writer.error().code, attempt + ": " + writer.error().err_msg};
    }
    HIPDNN_CPP_TRY(backend_error(descriptor.set_text(HIPDNN_ATTR_OPERATION_NAME_EXT, operation.name), attempt));
    return descriptor.finalize(attempt.c_str());
}

} // namespace detail
} // namespace hipdnn
