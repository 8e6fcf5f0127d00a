/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Grouped matmuls of a mixture of experts, and operations that only a plugin understands.
 */
#pragma once

#include "fields_other.hpp"

namespace hipdnn
{

/**
 * A matmul per expert: token [1, tokens, K], weight [experts, K, N], first_token_offset [experts, 1, 1] (INT32), output
 * [1, tokens, N]. With GATHER, token_index selects the rows that are read, with SCATTER those that are written.
 */
class MoeGroupedMatmulAttributes : public detail::MoeGroupedMatmulFields<MoeGroupedMatmulAttributes>
{
public:
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("token", get_token(), 3));
        HIPDNN_CPP_TRY(check_rank("weight", get_weight(), 3));
        const Dims &token = get_token()->get_dim(), &weight = get_weight()->get_dim();
        if (token.size() != 3 || weight.size() != 3 || token[2] != weight[1])
        {
            return wrong(
                {"token has shape ", token, " and weight ", weight, ", expected [1, tokens, K] and [experts, K, N]"});
        }
        /* With token_index, one row is computed for each of its elements. */
        const bool gathers = mode == MoeGroupedMatmulMode::GATHER && get_token_index() != nullptr;
        const int64_t rows = gathers ? get_token_index()->get_volume() : token[1];
        detail::fill_packed(get_output(), {1, rows, weight[2]});
        return {};
    }
};

/** Backward weights of a grouped matmul: doutput [1, tokens, N], token [1, tokens, K], dweight [experts, K, N]. */
class MoeGroupedMatmulBwdAttributes : public detail::MoeGroupedMatmulBackwardFields<MoeGroupedMatmulBwdAttributes>
{
public:
    /** If dweight has no shape: one expert per offset, columns innermost as grouped matmuls read them. */
    template <typename = void>
    Error shapes()
    {
        HIPDNN_CPP_TRY(check_rank("doutput", get_doutput(), 3));
        HIPDNN_CPP_TRY(check_rank("token", get_token(), 3));
        const Dims &doutput = get_doutput()->get_dim(), &token = get_token()->get_dim();
        if (doutput.size() != 3 || token.size() != 3 || doutput[1] != token[1])
        {
            return wrong({"doutput has shape ", doutput, " and token ", token, ", expected as many tokens"});
        }
        const Dims dims = {get_first_token_offset()->get_volume(), token[2], doutput[2]};
        if (get_dweight()->get_dim().empty())
        {
            get_dweight()->set_dim(dims);
        }
        if (get_dweight()->get_stride().empty())
        {
            get_dweight()->set_stride(strides_in_order(get_dweight()->get_dim(), {2, 0, 1}));
        }
        return {};
    }
};

/** An operation that a plugin identifies by its id; the plugin defines the bytes. */
class CustomOpAttributes : public Attributes<CustomOpAttributes>
{
    using Self = CustomOpAttributes;

public:
    std::vector<TensorPtr> inputs, outputs;
    std::vector<uint8_t> data;
    std::string custom_op_id;

    const std::vector<TensorPtr>& get_inputs() const { return inputs; }
    const std::vector<TensorPtr>& get_outputs() const { return outputs; }
    const std::vector<uint8_t>& get_data() const { return data; }
    const std::string& get_custom_op_id() const { return custom_op_id; }
    Self& set_inputs(std::vector<TensorPtr> value) { return inputs = std::move(value), *this; }
    Self& set_outputs(std::vector<TensorPtr> value) { return outputs = std::move(value), *this; }
    Self& set_data(std::vector<uint8_t> value) { return data = std::move(value), *this; }
    Self& set_custom_op_id(const std::string& value) { return custom_op_id = value, *this; }

    OperationKind kind() const override
    {
        return {"custom_op", HIPDNN_BACKEND_OPERATION_CUSTOM_OP_DESCRIPTOR_EXT, HIPDNN_OPERATION_TYPE_CUSTOM_OP_EXT,
                HIPDNN_ATTR_CUSTOM_OP_COMP_TYPE_EXT};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        visitor.tensors(HIPDNN_ATTR_OPERATION_CUSTOM_OP_INPUTS_EXT, inputs, detail::Role::Input);
        visitor.tensors(HIPDNN_ATTR_OPERATION_CUSTOM_OP_OUTPUTS_EXT, outputs, detail::Role::Output);
        std::vector<uint8_t> id(custom_op_id.begin(), custom_op_id.end());
        visitor.bytes(HIPDNN_ATTR_OPERATION_CUSTOM_OP_ID_EXT, id);
        custom_op_id.assign(id.begin(), id.end());
        while (!custom_op_id.empty() && custom_op_id.back() == '\0')
        {
            custom_op_id.pop_back();
        }
        visitor.bytes(HIPDNN_ATTR_OPERATION_CUSTOM_OP_DATA_EXT, data);
    }

    /** The program sets all shapes: only the plugin could infer those of outputs. */
    template <typename = void>
    Error shapes()
    {
        return custom_op_id.empty() ? wrong("custom_op_id is not set", ErrorCode::ATTRIBUTE_NOT_SET) : Error();
    }
};

} // namespace hipdnn
