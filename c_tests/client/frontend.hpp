/* SPDX-License-Identifier: MIT */

/*
 * Graphs as a frontend of 2026 makes them: one descriptor for each tensor, made where it is first used, and attributes in the
 * order of its packers. And their execution: pointers by uid, other shapes, a workspace of exactly the size that was asked.
 */
#pragma once

#include "engines.hpp"

#include <HipdnnAttentionImplementation.h>
#include <HipdnnDiagonalAlignment.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace client
{

using Dims = std::vector<int64_t>;

/* The strides of a tensor without gaps, the last dimension innermost. */
inline Dims packed(const Dims& dims)
{
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i > 0; i--)
    {
        strides[i - 1] = strides[i] * dims[i];
    }
    return strides;
}

inline size_t elements(const Dims& dims)
{
    int64_t count = 1;
    for (const int64_t dim : dims)
    {
        count *= dim;
    }
    return static_cast<size_t>(count);
}

/* A tensor as the user of a frontend describes it. */
struct Tensor
{
    int64_t uid;
    Dims dims;
    hipdnnDataType_t type;
    Dims strides;
    bool is_virtual = false;
    bool comes_by_value = false;
    std::vector<char> value;
    std::shared_ptr<Tensor> offsets;
    int64_t multiplier = 1;

    Tensor(int64_t id, Dims sizes, hipdnnDataType_t of = HIPDNN_DATA_FLOAT)
        : uid(id), dims(std::move(sizes)), type(of), strides(packed(dims))
    {
    }

    Tensor with_strides(Dims other) const
    {
        Tensor made = *this;
        made.strides = std::move(other);
        return made;
    }

    Tensor between() const
    {
        Tensor made = *this;
        made.is_virtual = true;
        return made;
    }

    /* Its one element comes from the host at each execution. */
    Tensor by_value() const
    {
        Tensor made = *this;
        made.comes_by_value = true;
        return made;
    }

    /* Its one element is part of the graph. */
    template <typename Number>
    Tensor constant(Number number) const
    {
        Tensor made = *this;
        made.value.resize(sizeof number);
        std::memcpy(made.value.data(), &number, sizeof number);
        return made;
    }

    Tensor ragged(const Tensor& at, int64_t times = 1) const
    {
        Tensor made = *this;
        made.offsets = std::make_shared<Tensor>(at);
        made.multiplier = times;
        return made;
    }
};

/* A graph that is being made. */
class GraphMaker
{
public:
    explicit GraphMaker(const Session& session) : _session(session) {}

    /* Sets a tensor of an operation. */
    void put(Descriptor& operation, hipdnnBackendAttributeName_t name, const Tensor& tensor)
    {
        operation.set(name, descriptor_of(tensor));
    }

    Descriptor begin(hipdnnBackendDescriptorType_t type) const { return Descriptor(_session, type); }

    void end(Descriptor&& operation, const std::string& name)
    {
        operation.set_text(HIPDNN_ATTR_OPERATION_NAME_EXT, name).finalize();
        _operations.push_back(std::move(operation));
    }

    GraphMaker& allow_other_shapes()
    {
        _allows_other_shapes = true;
        return *this;
    }

    Descriptor finish(const std::string& name) const
    {
        std::vector<hipdnnBackendDescriptor_t> raw;
        for (const auto& operation : _operations)
        {
            raw.push_back(operation.raw());
        }
        Descriptor graph(_session, HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        graph.set(HIPDNN_ATTR_OPERATIONGRAPH_OPS, raw)
            .set_float(HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT)
            .set_float(HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT)
            .set_float(HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT)
            .set_flag(HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, _allows_other_shapes)
            .set_text(HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, name);
        bind_and_finalize(_session, graph);
        return graph;
    }

private:
    const Session& _session;
    std::map<int64_t, Descriptor> _tensors;
    std::vector<Descriptor> _operations;
    bool _allows_other_shapes = false;

    const Descriptor& descriptor_of(const Tensor& tensor)
    {
        const auto found = _tensors.find(tensor.uid);
        if (found != _tensors.end())
        {
            return found->second;
        }
        Descriptor made(_session, HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
        made.set_numbers(HIPDNN_ATTR_TENSOR_UNIQUE_ID, {tensor.uid})
            .set_text(HIPDNN_ATTR_TENSOR_NAME_EXT, "tensor " + std::to_string(tensor.uid))
            .set(HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, &tensor.type)
            .set_numbers(HIPDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims)
            .set_numbers(HIPDNN_ATTR_TENSOR_STRIDES, tensor.strides)
            .set_flag(HIPDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual)
            .set_numbers(HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
        if (tensor.offsets)
        {
            made.set(HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, descriptor_of(*tensor.offsets));
        }
        if (tensor.multiplier != 1)
        {
            made.set_numbers(HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, {tensor.multiplier});
        }
        if (!tensor.value.empty())
        {
            made.set(HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, static_cast<int64_t>(tensor.value.size()),
                     tensor.value.data());
        }
        made.set_flag(HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, tensor.comes_by_value);
        made.finalize();
        return _tensors.emplace(tensor.uid, std::move(made)).first->second;
    }
};

inline void add_convolution(GraphMaker& graph, const Tensor& x, const Tensor& w, const Tensor& y, const Dims& padding)
{
    const Dims ones(padding.size(), 1);
    const hipdnnConvolutionMode_t mode = HIPDNN_CROSS_CORRELATION;
    Descriptor operation = graph.begin(HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    graph.put(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    graph.put(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    graph.put(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    operation.set_numbers(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones)
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_DILATIONS, ones)
        .set(HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
        .set_float(HIPDNN_ATTR_CONVOLUTION_COMP_TYPE);
    graph.end(std::move(operation), "convolution");
}

inline void add_matmul(GraphMaker& graph, const Tensor& a, const Tensor& b, const Tensor& c)
{
    Descriptor operation = graph.begin(HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    graph.put(operation, HIPDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    graph.put(operation, HIPDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    graph.put(operation, HIPDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    operation.set_float(HIPDNN_ATTR_MATMUL_COMP_TYPE);
    graph.end(std::move(operation), "matmul");
}

inline void add_pointwise(GraphMaker& graph, hipdnnPointwiseMode_t mode, const std::vector<Tensor>& in,
                          const Tensor& out)
{
    constexpr hipdnnBackendAttributeName_t further[] = {HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT,
                                                        HIPDNN_ATTR_OPERATION_POINTWISE_IN_2_EXT};
    Descriptor operation = graph.begin(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    graph.put(operation, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, in.at(0));
    graph.put(operation, HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, out);
    for (size_t i = 1; i < in.size(); i++)
    {
        graph.put(operation, further[i - 1], in[i]);
    }
    operation.set(HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &mode)
        .set_float(HIPDNN_ATTR_POINTWISE_MATH_PREC);
    graph.end(std::move(operation), "pointwise");
}

/* The tensors of an attention. */
struct Attention
{
    Tensor q, k, v, o;
    std::optional<Tensor> mask = {}, scale = {}, q_lengths = {}, kv_lengths = {}, seed = {}, offset = {}, stats = {};
    float dropout = 0;
    bool causal = false;
};

inline void add_attention(GraphMaker& graph, const Attention& attention)
{
    Descriptor operation = graph.begin(HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    graph.put(operation, HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC, attention.q);
    graph.put(operation, HIPDNN_ATTR_OPERATION_SDPA_FWD_KDESC, attention.k);
    graph.put(operation, HIPDNN_ATTR_OPERATION_SDPA_FWD_VDESC, attention.v);
    graph.put(operation, HIPDNN_ATTR_OPERATION_SDPA_FWD_ODESC, attention.o);
    const std::pair<hipdnnBackendAttributeName_t, const std::optional<Tensor>&> optional[] = {
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_ATTN_MASK_EXT, attention.mask},
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, attention.scale},
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, attention.q_lengths},
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, attention.kv_lengths},
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_SEED_EXT, attention.seed},
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_OFFSET_EXT, attention.offset},
        {HIPDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, attention.stats},
    };
    for (const auto& one : optional)
    {
        if (one.second)
        {
            graph.put(operation, one.first, *one.second);
        }
    }
    operation.set_flag(HIPDNN_ATTR_SDPA_FWD_GENERATE_STATS_EXT, attention.stats.has_value())
        .set_flag(HIPDNN_ATTR_SDPA_FWD_ALIBI_MASK_EXT, false)
        .set_flag(HIPDNN_ATTR_SDPA_FWD_PADDING_MASK_EXT, attention.q_lengths.has_value())
        .set_flag(HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_EXT, attention.causal)
        .set_flag(HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT, false);
    if (attention.dropout > 0)
    {
        operation.set(HIPDNN_ATTR_SDPA_FWD_DROPOUT_PROBABILITY_EXT, HIPDNN_TYPE_FLOAT, 1, &attention.dropout);
    }
    const hipdnnDiagonalAlignment_t alignment = HIPDNN_DIAGONAL_ALIGNMENT_TOP_LEFT_EXT;
    const hipdnnAttentionImplementation_t implementation = HIPDNN_ATTENTION_IMPLEMENTATION_AUTO_EXT;
    operation.set(HIPDNN_ATTR_SDPA_FWD_DIAGONAL_ALIGNMENT_EXT, HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT, 1, &alignment)
        .set(HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT, HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT, 1, &implementation)
        .set_float(HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT);
    graph.end(std::move(operation), "attention");
}

/* Pointers by uid. */
using Bindings = std::map<int64_t, void*>;

/* Another shape for a tensor of a plan. */
struct OtherShape
{
    int64_t uid;
    Dims dims;
    Dims strides;
};

/* A finalized variant pack. */
inline Descriptor pack_of(const Session& session, const Bindings& bindings, void* workspace,
                          const std::vector<OtherShape>& others = {})
{
    std::vector<void*> pointers;
    std::vector<int64_t> uids;
    for (const auto& binding : bindings)
    {
        uids.push_back(binding.first);
        pointers.push_back(binding.second);
    }
    Descriptor pack(session, HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, static_cast<int64_t>(pointers.size()),
             pointers.data())
        .set_numbers(HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
        .set(HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!others.empty())
    {
        Dims ids, lengths, dims, strides;
        for (const auto& other : others)
        {
            ids.push_back(other.uid);
            lengths.push_back(static_cast<int64_t>(other.dims.size()));
            dims.insert(dims.end(), other.dims.begin(), other.dims.end());
            strides.insert(strides.end(), other.strides.begin(), other.strides.end());
        }
        pack.set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, ids)
            .set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, dims)
            .set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, strides)
            .set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, lengths);
    }
    pack.finalize();
    return pack;
}

/* Memory of exactly the size that a plan asks for, possibly none, followed by a guard. */
class Workspace
{
public:
    explicit Workspace(const Descriptor& plan)
        : _size(static_cast<size_t>(plan.number(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))),
          _memory(_size == 0 ? 0 : _size + GUARD, MARK)
    {
    }

    void* pointer() { return _memory.empty() ? nullptr : _memory.data(); }

    void check() const
    {
        const auto behind = _memory.begin() + static_cast<std::ptrdiff_t>(_memory.empty() ? 0 : _size);
        require(std::all_of(behind, _memory.end(), [](unsigned char byte) { return byte == MARK; }),
                "something was written behind the workspace");
    }

private:
    static constexpr size_t GUARD = 64;
    static constexpr unsigned char MARK = 0x5a;
    size_t _size;
    std::vector<unsigned char> _memory;
};

inline void run(const Session& session, const Descriptor& plan, const Bindings& bindings,
                const std::vector<OtherShape>& others = {})
{
    Workspace workspace(plan);
    const Descriptor pack = pack_of(session, bindings, workspace.pointer(), others);
    CLIENT_CHECK(session, hipdnnBackendExecute, session.handle(), plan.raw(), pack.raw());
    workspace.check();
}

/* Numbers that are the same in every run: multiples of 1/4 from -2 to 2. */
inline std::vector<float> numbers(size_t count, int seed)
{
    std::vector<float> made(count);
    for (size_t i = 0; i < count; i++)
    {
        made[i] = static_cast<float>((static_cast<int>(i) * 29 + seed * 13 + static_cast<int>(i / 7) * 3) % 17 - 8) / 4;
    }
    return made;
}

/* What was there before an execution. */
constexpr float UNTOUCHED = -9999;

inline void compare(const std::vector<float>& got, const std::vector<float>& want, float tolerance,
                    const std::string& what)
{
    require(got.size() == want.size(), what + ": another number of elements");
    for (size_t i = 0; i < got.size(); i++)
    {
        require(std::fabs(got[i] - want[i]) <= tolerance * std::max(1.0F, std::fabs(want[i])),
                what + ": element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
                    std::to_string(want[i]));
    }
}

/* The flows of today's frontends, each in its own process. */
void run_tuning(const Library& library);
void run_other_shapes(const Library& library);
void run_values(const Library& library);
void run_ragged(const Library& library);
void run_saving(const Library& library, const std::string& folder);
void run_loading(const Library& library, const std::string& folder);
void run_logs(const Library& library);
void run_choices(const Library& library);
void run_habits(const Library& library);
void run_provider(const Library& library);

} // namespace client
