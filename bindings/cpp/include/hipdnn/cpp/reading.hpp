/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Reads operations back from the library's descriptors, for example of a loaded graph.
 */
#pragma once

#include "attributes_attention.hpp"
#include "attributes_basic.hpp"
#include "attributes_layernorm.hpp"
#include "attributes_norm.hpp"
#include "attributes_other.hpp"
#include "attributes_reduce.hpp"

#include <unordered_map>

namespace hipdnn
{
namespace detail
{

/** Tensors by uid, shared by the operations that use them. */
using TensorsByUid = std::unordered_map<int64_t, TensorPtr>;

/** Reads the attributes of an operation from its descriptor. */
template <typename>
class ReaderOf : public Visitor
{
public:
    ReaderOf(TensorsByUid& tensors, const Descriptor& operation) : _tensors(tensors), _operation(operation) {}

    void tensor(hipdnnBackendAttributeName_t name, TensorPtr& tensor, const char*, Role) override
    {
        const Descriptor found = _operation.one(name);
        tensor = found.valid() ? tensor_of(found) : nullptr;
    }

    void tensors(hipdnnBackendAttributeName_t name, std::vector<TensorPtr>& list, Role) override
    {
        list.clear();
        for (const Descriptor& one : _operation.descriptors(name))
        {
            list.push_back(tensor_of(one));
        }
    }

    void integers(hipdnnBackendAttributeName_t name, Dims& values) override { values = _operation.integers(name); }

    void values(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, size_t size, int64_t& count,
                void* data) override
    {
        const size_t each = type == HIPDNN_TYPE_INT64 ? 8 : type == HIPDNN_TYPE_BOOLEAN ? 1 : 4;
        int64_t actual = 0;
        const auto room = static_cast<int64_t>(size / each);
        const bool read = _operation.get(name, type, room, &actual, data) == HIPDNN_STATUS_SUCCESS;
        count = read ? std::min(actual, room) : 0;
    }

    void bytes(hipdnnBackendAttributeName_t name, std::vector<uint8_t>& bytes) override
    {
        int64_t count = 0;
        bytes.clear();
        if (_operation.get(name, HIPDNN_TYPE_CHAR, 0, &count, nullptr) == HIPDNN_STATUS_SUCCESS && count > 0)
        {
            bytes.resize(static_cast<size_t>(count));
            _operation.get(name, HIPDNN_TYPE_CHAR, count, &count, bytes.data());
        }
    }

private:
    TensorsByUid& _tensors;
    const Descriptor& _operation;

    TensorPtr tensor_of(const Descriptor& descriptor)
    {
        int64_t uid = 0;
        descriptor.value(HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, uid);
        TensorPtr& known = _tensors[uid];
        if (known != nullptr)
        {
            return known;
        }
        known = std::make_shared<Tensor>();
        const TensorPtr made = known;
        hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
        bool is_virtual = false, by_value = false;
        int64_t alignment = 16, multiplier = 1;
        if (descriptor.value(HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, type))
        {
            made->set_data_type(from_c(type));
        }
        descriptor.value(HIPDNN_ATTR_TENSOR_IS_VIRTUAL, HIPDNN_TYPE_BOOLEAN, is_virtual);
        descriptor.value(HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, HIPDNN_TYPE_BOOLEAN, by_value);
        descriptor.value(HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, HIPDNN_TYPE_INT64, alignment);
        descriptor.value(HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, HIPDNN_TYPE_INT64, multiplier);
        read_value(descriptor, *made);
        made->set_uid(uid)
            .set_name(descriptor.text(HIPDNN_ATTR_TENSOR_NAME_EXT))
            .set_dim(descriptor.integers(HIPDNN_ATTR_TENSOR_DIMENSIONS))
            .set_stride(descriptor.integers(HIPDNN_ATTR_TENSOR_STRIDES))
            .set_is_virtual(is_virtual)
            .set_is_pass_by_value(by_value)
            .set_alignment(alignment)
            .set_ragged_offset_multiplier(multiplier);
        const Descriptor offsets = descriptor.one(HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
        if (offsets.valid())
        {
            made->set_ragged_offset(tensor_of(offsets));
        }
        return made;
    }

    template <typename T>
    static void store(Tensor& tensor, const uint8_t* bytes)
    {
        const DataType type = tensor.get_data_type();
        T value;
        std::memcpy(&value, bytes, sizeof value);
        tensor.set_value(value).set_data_type(type);
    }

    static void read_value(const Descriptor& descriptor, Tensor& tensor)
    {
        uint8_t bytes[8] = {};
        int64_t count = 0;
        const size_t size = bytes_of(tensor.get_data_type());
        if (descriptor.get(HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, sizeof bytes, &count, bytes) !=
                HIPDNN_STATUS_SUCCESS ||
            count <= 0 || static_cast<size_t>(count) != size)
        {
            return;
        }
        switch (tensor.get_data_type())
        {
        case DataType::FLOAT: store<float>(tensor, bytes); break;
        case DataType::DOUBLE: store<double>(tensor, bytes); break;
        case DataType::HALF: store<half>(tensor, bytes); break;
        case DataType::BFLOAT16: store<bfloat16>(tensor, bytes); break;
        case DataType::INT64: store<int64_t>(tensor, bytes); break;
        case DataType::INT32: store<int32_t>(tensor, bytes); break;
        case DataType::BOOLEAN: tensor.set_value(bytes[0] != 0); break;
        default: store<uint8_t>(tensor, bytes); break;
        }
    }
};

using Reader = ReaderOf<void>;

/** An operation of one class. A template on a tag, too, so that only programs that load graphs compile the classes that they do not name. */
template <typename, typename Kind>
std::shared_ptr<Operation> make_one()
{
    return std::make_shared<Kind>();
}

/** An operation of a kind, null for a kind that is unknown. */
template <typename Tag = void>
std::shared_ptr<Operation> make_operation(int32_t type)
{
    switch (type)
    {
    case HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT: return make_one<Tag, ConvFpropAttributes>();
    case HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_DATA_EXT: return make_one<Tag, ConvDgradAttributes>();
    case HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_WEIGHTS_EXT: return make_one<Tag, ConvWgradAttributes>();
    case HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT: return make_one<Tag, BatchnormInferenceAttributes>();
    case HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT: return make_one<Tag, BatchnormBackwardAttributes>();
    case HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT:
        return make_one<Tag, BatchnormInferenceAttributesVarianceExt>();
    case HIPDNN_OPERATION_TYPE_BATCHNORM_EXT: return make_one<Tag, BatchnormAttributes>();
    case HIPDNN_OPERATION_TYPE_POINTWISE_EXT: return make_one<Tag, PointwiseAttributes>();
    case HIPDNN_OPERATION_TYPE_MATMUL_EXT: return make_one<Tag, MatmulAttributes>();
    case HIPDNN_OPERATION_TYPE_RMSNORM_EXT: return make_one<Tag, RMSNormAttributes>();
    case HIPDNN_OPERATION_TYPE_LAYERNORM_EXT: return make_one<Tag, LayernormAttributes>();
    case HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT: return make_one<Tag, SdpaAttributes>();
    case HIPDNN_OPERATION_TYPE_BLOCK_SCALE_QUANTIZE_EXT: return make_one<Tag, BlockScaleQuantizeAttributes>();
    case HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT: return make_one<Tag, SdpaBackwardAttributes>();
    case HIPDNN_OPERATION_TYPE_BLOCK_SCALE_DEQUANTIZE_EXT: return make_one<Tag, BlockScaleDequantizeAttributes>();
    case HIPDNN_OPERATION_TYPE_CUSTOM_OP_EXT: return make_one<Tag, CustomOpAttributes>();
    case HIPDNN_OPERATION_TYPE_REDUCTION_EXT: return make_one<Tag, ReductionAttributes>();
    case HIPDNN_OPERATION_TYPE_RESAMPLE_FWD: return make_one<Tag, ResampleFwdAttributes>();
    case HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT: return make_one<Tag, RMSNormBackwardAttributes>();
    case HIPDNN_OPERATION_TYPE_LAYERNORM_BACKWARD_EXT: return make_one<Tag, LayernormBackwardAttributes>();
    case HIPDNN_OPERATION_TYPE_RESAMPLE_BWD_EXT: return make_one<Tag, ResampleBwdAttributes>();
    case HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_EXT: return make_one<Tag, MoeGroupedMatmulAttributes>();
    case HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_BWD_EXT: return make_one<Tag, MoeGroupedMatmulBwdAttributes>();
    default: return nullptr;
    }
}

/** The operations of a graph's descriptor. */
template <typename AnyDescriptor>
Error read_operations(const AnyDescriptor& graph, std::vector<std::shared_ptr<Operation>>& operations)
{
    TensorsByUid tensors;
    for (const Descriptor& descriptor : graph.descriptors(HIPDNN_ATTR_OPERATIONGRAPH_OPS))
    {
        int32_t type = 0;
        descriptor.value(HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, type);
        auto operation = make_operation(type);
        if (operation == nullptr)
        {
            return {ErrorCode::HIPDNN_BACKEND_ERROR, detail::join({"reading a graph: its operation of type ", type,
                                                                   " is one that these headers do not know"})};
        }
        Reader reader(tensors, descriptor);
        operation->visit(reader);
        visit_type(reader, operation->kind().compute_type, operation->compute_data_type);
        operation->name = descriptor.text(HIPDNN_ATTR_OPERATION_NAME_EXT);
        operations.push_back(std::move(operation));
    }
    if (operations.empty())
    {
        return {ErrorCode::INVALID_VALUE, "reading a graph: it has no operations"};
    }
    return {};
}

} // namespace detail
} // namespace hipdnn
