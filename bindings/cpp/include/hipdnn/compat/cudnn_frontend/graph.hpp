/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The graph of NVIDIA's frontend: its operations, its order of calls, and its saved graphs, which include their plan.
 */
#pragma once

#include "executions.hpp"
#include "saved.hpp"

#include "../../cpp/modules.hpp"

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace graph
{

/** A graph. Calls that return a value in NVIDIA's frontend return a value here, the others an error_t. */
class Graph : public Executions<Graph>
{
    using Base = Executions<Graph>;
    using Handle = hipdnnHandle_t;
    using Pack = ::hipdnn::VariantPack;
    using Memory = std::unordered_map<Tensor, void*>;

public:
    using Base::execute;
    using Base::execute_plan_at_index;
    using Base::sdpa_fp8;
    using Base::tensor;

    /** A scalar, part of the graph or passed by value at each execution. */
    template <typename Scalar, typename = std::enable_if_t<!std::is_same_v<std::decay_t<Scalar>, Tensor_attributes>>>
    Tensor tensor(const Scalar& scalar, ScalarType type)
    {
        Tensor made = std::make_shared<Tensor_attributes>(scalar);
        made->set_is_pass_by_value(type == ScalarType::RUNTIME_PARAM);
        return made;
    }

    /* Settings without effect here: plans are for the handle's device, and are compiled when they are built. */
    Graph& set_dynamic_shape_enabled(bool) { return *this; }
    Graph& set_sm_count(int32_t) { return *this; }
    Graph& set_sm_version(int32_t) { return *this; }
    Graph& set_kernel_cache(const std::shared_ptr<KernelCache>&) { return *this; }
    /** Refused: plans are made on the device that they are for. */
    Graph& set_device_properties(const std::shared_ptr<const DeviceProperties>&)
    {
        refuse<1>((std::string("set_device_properties: ") + DeviceProperties::REASON).c_str());
        return *this;
    }
    Graph& deselect_shared_mem_greater_than(int64_t) { return *this; }

    /* Operations whose calls differ from ours. */
    Tensor pointwise(Tensor a, Pointwise_attributes attributes)
    {
        return Base::pointwise(std::move(a), Base::compared(std::move(attributes)));
    }
    /** Functions of one tensor ignore the second. */
    Tensor pointwise(Tensor a, Tensor b, Pointwise_attributes attributes)
    {
        return attributes.get_mode() == PointwiseMode_t::IDENTITY
                   ? pointwise(std::move(a), std::move(attributes))
                   : Base::pointwise(std::move(a), std::move(b), Base::compared(std::move(attributes)));
    }
    Tensor pointwise(Tensor a, Tensor b, Tensor c, Pointwise_attributes attributes)
    {
        return Base::pointwise(std::move(a), std::move(b), std::move(c), Base::compared(std::move(attributes)));
    }
    List<2> resample(Tensor x, Resample_attributes attributes)
    {
        Tensor index;
        attributes.set_generate_index(attributes.get_generate_index() &&
                                      attributes.get_resample_mode() == ResampleMode_t::MAXPOOL);
        if (attributes.get_generate_index())
        {
            index = std::make_shared<Tensor_attributes>();
            index->set_is_virtual(true).set_data_type(DataType_t::INT32);
            attributes.set_index(index);
        }
        return {resample_fwd(std::move(x), std::move(attributes)), index};
    }
    List<3> rmsnorm_backward(Tensor dy, Tensor x, Tensor scale, Tensor inv_variance,
                             Rmsnorm_backward_attributes attributes)
    {
        return Base::rmsnorm_backward(std::move(dy), std::move(x), std::move(scale), std::move(inv_variance),
                                      std::move(attributes));
    }
    List<2> sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes)
    {
        if (attributes.score_mod)
        {
            return attention_with_function(std::move(q), std::move(k), std::move(v), std::move(attributes));
        }
        return attention(std::move(q), std::move(k), std::move(v), std::move(attributes));
    }
    List<2> scaled_dot_product_flash_attention(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes)
    {
        return sdpa(std::move(q), std::move(k), std::move(v), std::move(attributes));
    }
    List<3> sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o, Tensor stats,
                          SDPA_backward_attributes attributes)
    {
        if (attributes.dsink_token != nullptr)
        {
            this->sink_gradient(o, d_o, stats, attributes);
        }
        return attention_backward(std::move(q), std::move(k), std::move(v), std::move(o), std::move(d_o),
                                  std::move(stats), std::move(attributes));
    }
    /** o, stats (null without), amax_s, amax_o. */
    List<4> sdpa_fp8(Tensor q, Tensor k, Tensor v, Tensor descale_q, Tensor descale_k, Tensor descale_v,
                     Tensor descale_s, Tensor scale_s, Tensor scale_o, SDPA_fp8_attributes attributes)
    {
        List<2> amax;
        for (Tensor& one : amax)
        {
            one = std::make_shared<Tensor_attributes>();
            one->set_is_virtual(true).set_data_type(DataType_t::FLOAT);
        }
        attributes.set_descale_q(std::move(descale_q))
            .set_descale_k(std::move(descale_k))
            .set_descale_v(std::move(descale_v));
        attributes.set_descale_s(std::move(descale_s)).set_scale_s(std::move(scale_s)).set_scale_o(std::move(scale_o));
        attributes.set_amax_s(amax[0]).set_amax_o(amax[1]);
        const List<2> made = attention(std::move(q), std::move(k), std::move(v), std::move(attributes));
        return {made[0], made[1], amax[0], amax[1]};
    }
    /* The order of calls. A handle that was given once need not be given again. */
    error_t validate()
    {
        if (!_refused.empty())
        {
            return {error_code_t::GRAPH_NOT_SUPPORTED, _refused + ": hipDNN has no such operation"};
        }
        HIPDNN_CPP_TRY(notes_error());
        HIPDNN_CPP_TRY(settle_views());
        return Base::validate();
    }
    error_t build_operation_graph(Handle handle)
    {
        _handle = handle;
        HIPDNN_CPP_TRY(validate());
        return Base::build_operation_graph(handle);
    }
    error_t build_operation_graph() { return build_operation_graph(_handle); }
    /** Plans of GPU engines if there is a GPU: programs for cuDNN keep their tensors there. */
    error_t create_execution_plans(const std::vector<HeurMode_t>& modes = {HeurMode_t::FALLBACK})
    {
        HIPDNN_CPP_TRY(notes_error());
        /* Modes of cuDNN's heuristics are accepted; engines are ranked as without one. */
        static_cast<void>(modes);
        HIPDNN_CPP_TRY(Base::create_execution_plans({HeurMode_t::FALLBACK}));
        std::string fallback;
        ::hipdnn::detail::modules::read_variable("HIPDNN_CPU_FALLBACK", fallback);
        if ((fallback.empty() || fallback == "0") && ::hipdnn::detail::modules::has_gpu())
        {
            HIPDNN_CPP_TRY(cudnn_frontend::detail::drop_host_plans(_plans, _active,
                                                                   [this](int64_t id) { return engine_name(id); }));
        }
        settle_notes();
        return plans_error();
    }
    error_t check_support() const
    {
        HIPDNN_CPP_TRY(plans_error());
        return Base::check_support();
    }
    error_t check_support(Handle) const { return check_support(); }
    error_t build_plans(BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool = false)
    {
        HIPDNN_CPP_TRY(plans_error());
        return Base::build_plans(policy);
    }
    error_t build_plans(Handle, BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool = false)
    {
        return build_plans(policy);
    }
    error_t build_plan_at_index(int64_t index)
    {
        HIPDNN_CPP_TRY(plans_error());
        return Base::build_plan_at_index(index);
    }
    error_t build_plan_at_index(Handle, int64_t index) { return build_plan_at_index(index); }
    error_t build(Handle handle, const std::vector<HeurMode_t>& modes = {HeurMode_t::A},
                  BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool = false)
    {
        HIPDNN_CPP_TRY(build_operation_graph(handle));
        HIPDNN_CPP_TRY(create_execution_plans(modes));
        HIPDNN_CPP_TRY(check_support());
        return build_plans(policy);
    }
    error_t build(const std::vector<HeurMode_t>& modes = {HeurMode_t::A},
                  BuildPlanPolicy_t policy = BuildPlanPolicy_t::HEURISTICS_CHOICE, bool multithreaded = false)
    {
        return build(_handle, modes, policy, multithreaded);
    }

    error_t get_workspace_size(int64_t& bytes) const { return Base::get_workspace_size(bytes); }
    /** The workspace size of the chosen plan, 0 without one. */
    int64_t get_workspace_size() const
    {
        int64_t bytes = 0;
        return Base::get_workspace_size(bytes).is_good() ? bytes : 0;
    }
    int64_t get_workspace_size_plan_at_index(int64_t index) const
    {
        return std::max<int64_t>(Base::get_workspace_size_plan_at_index(index), 0);
    }
    error_t get_workspace_size_plan_at_index(int64_t index, int64_t& bytes) const
    {
        return Base::get_workspace_size_plan_at_index(index, bytes);
    }

    /* Engines by their rank: 0 is the best for the graph. */

    /** The number of engines that compute the graph. */
    error_t get_engine_count(int64_t& count) const
    {
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(get_ranked_engine_ids(ids));
        count = static_cast<int64_t>(ids.size());
        return {};
    }
    /** The knobs of an engine that cuDNN's interface can express: integers, of a known kind. */
    error_t get_knobs_for_engine(int64_t index, std::vector<Knob>& knobs) const
    {
        std::vector<::hipdnn::Knob> native;
        HIPDNN_CPP_TRY(native_knobs(index, native));
        knobs = cudnn_frontend::detail::knobs_of(native);
        return {};
    }
    /** Adds a plan of an engine with knobs set. */
    error_t create_execution_plan(int64_t index, const std::unordered_map<KnobType_t, int64_t>& values)
    {
        std::vector<::hipdnn::Knob> native;
        HIPDNN_CPP_TRY(native_knobs(index, native));
        std::vector<::hipdnn::KnobSetting> settings;
        HIPDNN_CPP_TRY(cudnn_frontend::detail::settings_of(values, native, settings));
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(get_ranked_engine_ids(ids));
        Plan plan;
        HIPDNN_CPP_TRY(make_plan(ids[static_cast<size_t>(index)], settings, plan));
        _plans.push_back(std::move(plan));
        settle_notes();
        return plans_error();
    }
    /** The engine of a plan by its rank, and its knob settings. */
    error_t get_engine_and_knobs_at_index(int64_t plan, int64_t& engine,
                                          std::unordered_map<KnobType_t, int64_t>& values) const
    {
        HIPDNN_CPP_TRY(check_index(plan));
        const Plan& found = _plans[static_cast<size_t>(plan)];
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(get_ranked_engine_ids(ids));
        engine = std::find(ids.begin(), ids.end(), found.engine) - ids.begin();
        values.clear();
        for (const auto& one : found.settings == nullptr ? std::vector<::hipdnn::KnobSetting>() : *found.settings)
        {
            const KnobType_t type = cudnn_frontend::detail::knob_type(one.knobId());
            if (const auto* integer = std::get_if<int64_t>(&one.value()))
            {
                values[type] = *integer;
            }
        }
        return {};
    }
    /** A hash of operations, shapes and settings, independent of uids and names. */
    size_t key(bool without_shapes = false) const
    {
        return static_cast<size_t>(cudnn_frontend::detail::key_of(*this, without_shapes));
    }
    /** The graph as JSON if it was built, else its operations. */
    std::string print() const
    {
        std::string text;
        if (!_graph.valid() || Base::serialize(text).is_bad())
        {
            text.clear();
            for (const auto& operation : _operations)
            {
                text += std::string(operation->kind().word) + " \"" + operation->name + "\"\n";
            }
        }
        return text;
    }
    error_t query_tensor_attributes_of_uid(int64_t uid, Tensor_attributes& found) const
    {
        const auto all = tensors_by_uid();
        const auto one = all.find(uid);
        if (one == all.end())
        {
            return {error_code_t::INVALID_VALUE,
                    ::hipdnn::detail::join({"uid ", uid, ": the graph has no such tensor"})};
        }
        found = *one->second;
        return {};
    }
    std::vector<int64_t> get_variant_pack_uids_sorted() const
    {
        std::vector<int64_t> uids;
        for (const Tensor& one : tensors())
        {
            if (!one->get_is_virtual() && one->has_uid() && !one->get_has_compile_time_constant())
            {
                uids.push_back(one->get_uid());
            }
        }
        std::sort(uids.begin(), uids.end());
        return uids;
    }
    error_t execute(Handle handle, const Pack& pack, void* workspace) const
    {
        Pack all;
        HIPDNN_CPP_TRY(_views.empty() ? error_t() : with_views(pack, all));
        return Base::execute(handle, _views.empty() ? pack : all, workspace);
    }
    error_t execute(Handle handle, const Memory& memory, void* workspace) const
    {
        Pack pack;
        HIPDNN_CPP_TRY(by_uid(memory, pack));
        return execute(handle, pack, workspace);
    }
    error_t execute_plan_at_index(Handle handle, const Pack& pack, void* workspace, int64_t index) const
    {
        Pack all;
        HIPDNN_CPP_TRY(_views.empty() ? error_t() : with_views(pack, all));
        return Base::execute_plan_at_index(handle, _views.empty() ? pack : all, workspace, index);
    }
    error_t execute_plan_at_index(Handle handle, const Memory& memory, void* workspace, int64_t index) const
    {
        Pack pack;
        HIPDNN_CPP_TRY(by_uid(memory, pack));
        return execute_plan_at_index(handle, pack, workspace, index);
    }

    /** Executes each plan and chooses the fastest one; the workspace must suffice for all. */
    error_t autotune(Handle handle, const Pack& pack, void* workspace, void* implementation = nullptr)
    {
        static_cast<void>(implementation);
        Pack all;
        HIPDNN_CPP_TRY(with_views(pack, all));
        return Base::autotune(handle, all, workspace, ::hipdnn::AutotuneConfig());
    }
    error_t autotune(Handle handle, const Memory& tensors, void* workspace, void* implementation = nullptr)
    {
        Pack pack;
        HIPDNN_CPP_TRY(by_uid(tensors, pack));
        return autotune(handle, pack, workspace, implementation);
    }

    /** The graph, its chosen plan, if there is one, and its views as bytes. */
    error_t serialize(std::vector<uint8_t>& bytes) const
    {
        cudnn_frontend::detail::Saved saved;
        if (!_operations.empty())
        {
            HIPDNN_CPP_TRY(Base::serialize(saved.graph));
            if (active() != nullptr && active()->ready())
            {
                HIPDNN_CPP_TRY(serialize_compiled_plan(saved.plan));
            }
        }
        for (const View& one : _views)
        {
            for (const int64_t number : {one.base->get_uid(), one.part->get_uid(), one.offset})
            {
                saved.views.push_back(number);
            }
        }
        saved.write(bytes);
        return {};
    }
    error_t serialize(std::vector<uint8_t>& bytes)
    {
        HIPDNN_CPP_TRY(_operations.empty() ? error_t() : ensure_lowered());
        return static_cast<const Graph&>(*this).serialize(bytes);
    }
    /** Loads a graph, which can be executed at once if it was saved with a plan; `planned` requires that. */
    error_t deserialize(Handle handle, const std::vector<uint8_t>& bytes, bool planned = false)
    {
        cudnn_frontend::detail::Saved saved;
        HIPDNN_CPP_TRY(saved.read(bytes));
        HIPDNN_CPP_TRY(load(handle, saved));
        _handle = handle;
        if (saved.plan.empty())
        {
            return planned ? must_plan() : error_t();
        }
        Plan plan;
        HIPDNN_CPP_TRY(load_plan(handle, saved.plan, plan));
        _plans.push_back(std::move(plan));
        return {};
    }
    /** Loads a graph without its plan. */
    error_t deserialize(const std::vector<uint8_t>& bytes, bool = false)
    {
        cudnn_frontend::detail::Saved saved;
        HIPDNN_CPP_TRY(saved.read(bytes));
        return load(nullptr, saved);
    }

private:
    Handle _handle = nullptr;

    error_t load(Handle handle, const cudnn_frontend::detail::Saved& saved)
    {
        if (saved.graph.empty())
        {
            return {};
        }
        HIPDNN_CPP_TRY(Base::deserialize(handle, saved.graph));
        return load_views(saved.views);
    }

    error_t native_knobs(int64_t index, std::vector<::hipdnn::Knob>& knobs) const
    {
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(get_ranked_engine_ids(ids));
        if (index < 0 || static_cast<size_t>(index) >= ids.size())
        {
            return {error_code_t::INVALID_VALUE,
                    ::hipdnn::detail::join({"engine index ", index, ", expected 0 to below ", ids.size()})};
        }
        return Base::get_knobs_for_engine(ids[static_cast<size_t>(index)], knobs);
    }

    /** Attention with a score function of the program's: matmul, the function, a softmax, matmul. */
    List<2> attention_with_function(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes)
    {
        const bool plain = !attributes.padding_mask && !attributes.causal_mask &&
                           !attributes.causal_mask_bottom_right && !attributes.alibi_mask && !attributes.left_bound &&
                           !attributes.right_bound && attributes.inputs.size() <= (attributes.get_scale() ? 1U : 0U) &&
                           attributes.outputs.size() == 0;
        if (!plain || k->get_dim().size() != 4 || q->get_dim().size() != 4 || q->get_dim()[1] != k->get_dim()[1] ||
            k->get_is_virtual())
        {
            return refuse<2>("sdpa with set_score_mod beside masks, a bias, dropout or fewer heads of k (expected "
                             "these in the function)");
        }
        const Part part{attributes.name.empty() ? "sdpa" : attributes.name, attributes.compute_data_type};
        Matmul_attributes product;
        product.set_name(part.word("QK")).set_compute_data_type(part.compute);
        const Tensor turned =
            transpose(k, Transpose_attributes().set_name(part.word("K")).set_permutation({0, 1, 3, 2}));
        Tensor scores = Base::matmul(q, turned, product);
        ::hipdnn::Dims rows = q->get_dim(), dims = rows;
        dims[3] = k->get_dim()[2];
        rows[3] = 1;
        scores->set_dim(dims).set_stride(::hipdnn::packed_strides(dims));
        if (attributes.attn_scale_value)
        {
            scores = combine(part, "SCALED", PointwiseMode_t::MUL, scores,
                             std::make_shared<Tensor_attributes>(*attributes.attn_scale_value));
        } else if (attributes.get_scale() != nullptr)
        {
            scores = combine(part, "SCALED", PointwiseMode_t::MUL, scores, attributes.get_scale());
        }
        /* The function adds to this graph, so the pointer does not own it. */
        scores = attributes.score_mod(std::shared_ptr<Graph>(this, [](Graph*) {}), scores);
        const Tensor most = reduce(part, "MAX", ReductionMode_t::MAX, scores, rows);
        const Tensor powers =
            change(part, "EXP", PointwiseMode_t::EXP, combine(part, "LESS_MAX", PointwiseMode_t::SUB, scores, most));
        const Tensor sum = reduce(part, "SUM", ReductionMode_t::ADD, powers, rows);
        product.set_name(part.word("PV"));
        const Tensor o = Base::matmul(combine(part, "P", PointwiseMode_t::DIV, powers, sum), std::move(v), product);
        const bool keeps = attributes.generate_stats.value_or(false);
        return {o, keeps ? combine(part, "STATS", PointwiseMode_t::ADD, most,
                                   change(part, "LOG", PointwiseMode_t::LOG, sum))
                         : nullptr};
    }
};

template <typename Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream, const Graph& graph)
{
    return stream << graph.print().c_str();
}

} // namespace graph
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
