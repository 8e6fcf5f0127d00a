/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Grouped matmuls of a mixture of experts, and operations that only a plugin understands.
 */
#pragma once

#include "operation.hpp"

namespace hipdnn
{

/**
 * A matmul per expert: token [1, tokens, K], weight [experts, K, N], first_token_offset [experts, 1, 1] (INT32), output
 * [1, tokens, N]. With GATHER, token_index selects the rows that are read, with SCATTER those that are written.
 */
class MoeGroupedMatmulAttributes : public Attributes<MoeGroupedMatmulAttributes>
{
    using Self = MoeGroupedMatmulAttributes;

public:
    enum class InputNames { TOKEN, WEIGHT, FIRST_TOKEN_OFFSET, TOKEN_INDEX, TOKEN_KS };
    enum class OutputNames { OUTPUT };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 5> inputs;
    detail::Slots<OutputNames, 1> outputs;

    HIPDNN_CPP_INPUT(TOKEN, token)
    HIPDNN_CPP_INPUT(WEIGHT, weight)
    HIPDNN_CPP_INPUT(FIRST_TOKEN_OFFSET, first_token_offset)
    HIPDNN_CPP_INPUT(TOKEN_INDEX, token_index)
    HIPDNN_CPP_INPUT(TOKEN_KS, token_ks)
    HIPDNN_CPP_OUTPUT(OUTPUT, output)
    HIPDNN_CPP_FIELD(MoeGroupedMatmulMode, mode, MoeGroupedMatmulMode::NONE)
    HIPDNN_CPP_FIELD(int32_t, top_k, 0)

    OperationKind kind() const override
    {
        return {"moe_grouped_matmul", HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR,
                HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_EXT, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC, inputs[InputNames::TOKEN], "token",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC, inputs[InputNames::WEIGHT], "weight",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC,
                       inputs[InputNames::FIRST_TOKEN_OFFSET], "first_token_offset", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC, inputs[InputNames::TOKEN_INDEX],
                       "token_index", Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC, inputs[InputNames::TOKEN_KS], "token_ks",
                       Role::OptionalInput);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC, outputs[OutputNames::OUTPUT], "output",
                       Role::Output);
        detail::visit_mode(visitor, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE, HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE,
                           mode, false);
        std::optional<int32_t> ways = top_k;
        detail::visit_value(visitor, HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K, HIPDNN_TYPE_INT32, ways);
        top_k = ways.value_or(0);
    }

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
class MoeGroupedMatmulBwdAttributes : public Attributes<MoeGroupedMatmulBwdAttributes>
{
    using Self = MoeGroupedMatmulBwdAttributes;

public:
    enum class InputNames { DOUTPUT, TOKEN, FIRST_TOKEN_OFFSET };
    enum class OutputNames { DWEIGHT };
    using input_names = InputNames;
    using output_names = OutputNames;
    detail::Slots<InputNames, 3> inputs;
    detail::Slots<OutputNames, 1> outputs;

    HIPDNN_CPP_INPUT(DOUTPUT, doutput)
    HIPDNN_CPP_INPUT(TOKEN, token)
    HIPDNN_CPP_INPUT(FIRST_TOKEN_OFFSET, first_token_offset)
    HIPDNN_CPP_OUTPUT(DWEIGHT, dweight)

    OperationKind kind() const override
    {
        return {"moe_grouped_matmul_bwd", HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR,
                HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_BWD_EXT,
                HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC};
    }

    template <typename Visitor>
    void each(Visitor& visitor)
    {
        using detail::Role;
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC, inputs[InputNames::DOUTPUT],
                       "doutput", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC, inputs[InputNames::TOKEN], "token",
                       Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC,
                       inputs[InputNames::FIRST_TOKEN_OFFSET], "first_token_offset", Role::Input);
        visitor.tensor(HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC, outputs[OutputNames::DWEIGHT],
                       "dweight", Role::Output);
    }

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
