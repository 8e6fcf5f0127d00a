/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The graph of NVIDIA's frontend: its operations, its order of calls, its saved graphs, which have their plan with them.
 */
#pragma once

#include "attributes.hpp"

namespace cudnn_frontend
{
namespace graph
{

/** A graph. Calls that NVIDIA's frontend answers with a value answer a value, the others an error_t. */
class Graph : public ::hipdnn::detail::GraphSettings<Graph>
{
    using Base = ::hipdnn::detail::GraphSettings<Graph>;
    using Handle = hipdnnHandle_t;
    using Many = std::vector<Tensor>;
    template <size_t Count>
    using List = std::array<Tensor, Count>;

public:
    using Base::execute;
    using Base::tensor;

    /** A scalar, part of the graph or given by value at each execution. */
    template <typename Scalar, typename = std::enable_if_t<!std::is_same_v<std::decay_t<Scalar>, Tensor_attributes>>>
    Tensor tensor(const Scalar &scalar, ScalarType type)
    {
        Tensor made = std::make_shared<Tensor_attributes>(scalar);
        made->set_is_pass_by_value(type == ScalarType::RUNTIME_PARAM);
        return made;
    }

    /* Settings without a meaning here: plans are for the device that the handle has, and are compiled when they are built. */
    Graph &set_dynamic_shape_enabled(bool) { return *this; }
    Graph &set_sm_count(int32_t) { return *this; }
    Graph &set_sm_version(int32_t) { return *this; }
    template <typename Cache>
    Graph &set_kernel_cache(Cache &&)
    {
        return *this;
    }
    template <typename Properties>
    Graph &set_device_properties(Properties &&)
    {
        return *this;
    }
    Graph &deselect_shared_mem_greater_than(int64_t) { return *this; }
    Graph &select_numeric_notes(const std::vector<NumericalNote_t> &) { return *this; }
    Graph &deselect_numeric_notes(const std::vector<NumericalNote_t> &) { return *this; }

    /* Operations whose calls differ from ours. */
    List<2> resample(Tensor x, Resample_attributes attributes)
    {
        Tensor index;
        if (attributes.get_generate_index())
        {
            index = std::make_shared<Tensor_attributes>();
            index->set_is_virtual(true).set_data_type(DataType_t::INT32);
            attributes.set_index(index);
        }
        return {resample_fwd(std::move(x), std::move(attributes)), index};
    }
    List<3> rmsnorm_backward(Tensor dy, Tensor x, Tensor scale, Tensor inv_variance, Rmsnorm_backward_attributes attributes)
    {
        return Base::rmsnorm_backward(std::move(dy), std::move(x), std::move(scale), std::move(inv_variance), std::move(attributes));
    }
    List<2> sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes)
    {
        return attention(std::move(q), std::move(k), std::move(v), std::move(attributes));
    }
    List<2> scaled_dot_product_flash_attention(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes)
    {
        return attention(std::move(q), std::move(k), std::move(v), std::move(attributes));
    }
    List<3> sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o, Tensor stats, SDPA_backward_attributes attributes)
    {
        return attention_backward(std::move(q), std::move(k), std::move(v), std::move(o), std::move(d_o), std::move(stats), std::move(attributes));
    }
    /** o, stats (null without), amax_s, amax_o. */
    List<4> sdpa_fp8(Tensor q, Tensor k, Tensor v, Tensor descale_q, Tensor descale_k, Tensor descale_v, Tensor descale_s, Tensor scale_s,
                     Tensor scale_o, SDPA_fp8_attributes attributes)
    {
        List<2> amax;
        for (Tensor &one : amax)
        {
            one = std::make_shared<Tensor_attributes>();
            one->set_is_virtual(true).set_data_type(DataType_t::FLOAT);
        }
        attributes.set_descale_q(std::move(descale_q)).set_descale_k(std::move(descale_k)).set_descale_v(std::move(descale_v));
        attributes.set_descale_s(std::move(descale_s)).set_scale_s(std::move(scale_s)).set_scale_o(std::move(scale_o));
        attributes.set_amax_s(amax[0]).set_amax_o(amax[1]);
        const List<2> made = attention(std::move(q), std::move(k), std::move(v), std::move(attributes));
        return {made[0], made[1], amax[0], amax[1]};
    }
    /** Sums and sums of squares of each channel: a product and two reductions. */
    List<2> genstats(Tensor x, const Genstats_attributes &attributes)
    {
        const auto sum = [&](const Tensor &of, const char *word) {
            Reduction_attributes how;
            how.set_name(attributes.name.empty() ? "" : attributes.name + word).set_mode(ReductionMode_t::ADD);
            const Tensor made = reduction(of, how.set_compute_data_type(attributes.compute_data_type));
            ::hipdnn::Dims dims(x->get_dim().size(), 1);
            if (dims.size() > 1)
            {
                dims[1] = x->get_dim()[1];
            }
            made->set_dim(dims).set_stride(::hipdnn::packed_strides(dims));
            return made;
        };
        Pointwise_attributes square;
        square.set_mode(PointwiseMode_t::MUL).set_compute_data_type(attributes.compute_data_type);
        const Tensor plain = sum(x, "::SUM");
        return {plain, sum(pointwise(x, x, square), "::SQ_SUM")};
    }

    /* Operations that hipDNN does not have: their tensors can be used, and the graph is refused. */
    List<3> adalayernorm(Tensor, Tensor, Tensor, AdaLayernorm_attributes) { return refuse<3>("adalayernorm"); }
    List<3> adalayernorm_backward(Tensor, Tensor, Tensor, AdaLayernorm_backward_attributes) { return refuse<3>("adalayernorm_backward"); }
    List<3> instancenorm(Tensor, Tensor, Tensor, Instancenorm_attributes) { return refuse<3>("instancenorm"); }
    List<3> instancenorm_backward(Tensor, Tensor, Tensor, Instancenorm_backward_attributes) { return refuse<3>("instancenorm_backward"); }
    List<6> bn_finalize(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, BN_finalize_attributes) { return refuse<6>("bn_finalize"); }
    List<5> dbn_weight(Tensor, Tensor, Tensor, Tensor, Tensor, DBN_weight_attributes) { return refuse<5>("dbn_weight"); }
    Tensor slice(Tensor, Slice_attributes) { return refuse<1>("slice")[0]; }
    Tensor transpose(Tensor, Transpose_attributes) { return refuse<1>("transpose")[0]; }
    Tensor reshape(Tensor, Reshape_attributes) { return refuse<1>("reshape")[0]; }
    Tensor concatenate(Many, Concatenate_attributes) { return refuse<1>("concatenate")[0]; }
    Tensor rng(Tensor, Tensor, Rng_attributes) { return refuse<1>("rng")[0]; }

    /* The order of calls. A handle that is given once need not be given again. */
    error_t validate()
    {
        if (!_refused.empty())
        {
            return {error_code_t::GRAPH_NOT_SUPPORTED, _refused + ": hipDNN has no such operation"};
        }
        return Base::validate();
    }
    error_t build_operation_graph(Handle handle)
    {
        _handle = handle;
        HIPDNN_CPP_TRY(validate());
        return Base::build_operation_graph(handle);
    }
    error_t build_operation_graph() { return build_operation_graph(_handle); }
    error_t check_support() const { return Base::check_support(); }
    error_t check_support(Handle) const { return Base::check_support(); }
    error_t build_plans(BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool = false) { return Base::build_plans(policy); }
    error_t build_plans(Handle, BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool = false)
    {
        return Base::build_plans(policy);
    }
    error_t build_plan_at_index(int64_t index) { return Base::build_plan_at_index(index); }
    error_t build_plan_at_index(Handle, int64_t index) { return Base::build_plan_at_index(index); }
    error_t build(Handle handle, const std::vector<HeurMode_t> &modes = {HeurMode_t::A},
                  BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool = false)
    {
        HIPDNN_CPP_TRY(build_operation_graph(handle));
        HIPDNN_CPP_TRY(create_execution_plans(modes));
        HIPDNN_CPP_TRY(check_support());
        return build_plans(policy);
    }
    error_t build(const std::vector<HeurMode_t> &modes = {HeurMode_t::A},
                  BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool multithreaded = false)
    {
        return build(_handle, modes, policy, multithreaded);
    }
    error_t warmup(Handle) const { return Base::check_support(); }

    error_t get_workspace_size(int64_t &bytes) const { return Base::get_workspace_size(bytes); }
    /** The bytes of the chosen plan, 0 without one. */
    int64_t get_workspace_size() const
    {
        int64_t bytes = 0;
        return Base::get_workspace_size(bytes).is_good() ? bytes : 0;
    }
    /** The number of engines that compute the graph. */
    error_t get_engine_count(int64_t &count) const
    {
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(get_ranked_engine_ids(ids));
        count = static_cast<int64_t>(ids.size());
        return {};
    }
    error_t query_tensor_attributes_of_uid(int64_t uid, Tensor_attributes &found) const
    {
        const auto all = tensors_by_uid();
        const auto one = all.find(uid);
        if (one == all.end())
        {
            return {error_code_t::INVALID_VALUE, ::hipdnn::detail::join({"uid ", uid, ": the graph has no such tensor"})};
        }
        found = *one->second;
        return {};
    }
    std::vector<int64_t> get_variant_pack_uids_sorted() const
    {
        std::vector<int64_t> uids;
        for (const Tensor &one : tensors())
        {
            if (!one->get_is_virtual() && one->has_uid() && !one->get_has_compile_time_constant())
            {
                uids.push_back(one->get_uid());
            }
        }
        std::sort(uids.begin(), uids.end());
        return uids;
    }
    /** Executes each plan and chooses the fastest one, for all of which the workspace has to do. */
    error_t autotune(Handle handle, const ::hipdnn::VariantPack &pack, void *workspace, void *implementation = nullptr)
    {
        static_cast<void>(implementation);
        return Base::autotune(handle, pack, workspace, ::hipdnn::AutotuneConfig());
    }
    error_t autotune(Handle handle, const std::unordered_map<Tensor, void *> &tensors, void *workspace, void *implementation = nullptr)
    {
        ::hipdnn::VariantPack pack;
        HIPDNN_CPP_TRY(by_uid(tensors, pack));
        return autotune(handle, pack, workspace, implementation);
    }

    /** The graph and its chosen plan as bytes. */
    error_t serialize(std::vector<uint8_t> &bytes) const
    {
        std::vector<uint8_t> graph, plan;
        HIPDNN_CPP_TRY(Base::serialize(graph));
        HIPDNN_CPP_TRY(serialize_compiled_plan(plan));
        bytes.assign(MARK, MARK + sizeof MARK);
        for (size_t i = 0; i < 8; i++)
        {
            bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(graph.size()) >> (8 * i)));
        }
        bytes.insert(bytes.end(), graph.begin(), graph.end());
        bytes.insert(bytes.end(), plan.begin(), plan.end());
        return {};
    }
    /** A graph that executes at once. */
    error_t deserialize(Handle handle, const std::vector<uint8_t> &bytes)
    {
        constexpr size_t begin = sizeof MARK + 8;
        uint64_t size = 0;
        for (size_t i = 0; i < 8 && bytes.size() >= begin; i++)
        {
            size |= static_cast<uint64_t>(bytes[sizeof MARK + i]) << (8 * i);
        }
        if (bytes.size() < begin || !std::equal(MARK, MARK + sizeof MARK, bytes.begin()) || size > bytes.size() - begin)
        {
            return {error_code_t::INVALID_VALUE, "the bytes are no graph with a plan, expected what serialize() wrote"};
        }
        const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(begin + size);
        HIPDNN_CPP_TRY(Base::deserialize(handle, std::vector<uint8_t>(bytes.begin() + begin, middle)));
        Plan plan;
        HIPDNN_CPP_TRY(load_plan(handle, std::vector<uint8_t>(middle, bytes.end()), plan));
        _handle = handle;
        _plans.push_back(std::move(plan));
        return {};
    }

private:
    static constexpr uint8_t MARK[8] = {'h', 'i', 'p', 'd', 'n', 'n', 'G', 'P'};
    Handle _handle = nullptr;
    std::string _refused;

    template <size_t Count>
    List<Count> refuse(const char *operation)
    {
        _refused += (_refused.empty() ? "" : ", ") + std::string(operation);
        List<Count> made;
        for (Tensor &one : made)
        {
            one = std::make_shared<Tensor_attributes>();
            one->set_is_virtual(true);
        }
        return made;
    }
};

} // namespace graph
} // namespace cudnn_frontend
