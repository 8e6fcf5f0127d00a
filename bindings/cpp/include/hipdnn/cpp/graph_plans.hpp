/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Execution of plans, and graphs and plans as bytes.
 */
#pragma once

#include "graph_engines.hpp"

namespace hipdnn
{

/** Another shape and strides for a tensor of a plan. */
struct OverrideEntry
{
    Dims shape;
    Dims stride;
};

/** Memory of tensors by uid. */
using VariantPack = std::unordered_map<int64_t, void*>;

namespace detail
{

/** Calls that run plans, save and load them. */
template <typename Derived>
class GraphPlans : public GraphEngines<Derived>
{
    using Base = GraphEngines<Derived>;

protected:
    using Base::_active;
    using Base::_default_uids;
    using Base::_default_values;
    using Base::_graph;
    using Base::_operations;
    using Base::_overrides;
    using Base::_plans;
    using Base::active;
    using Base::check_index;
    using Base::must_plan;
    using Base::reset_plans;
    using Base::take;
    using Plan = typename Base::Plan;

public:
    using Base::tensors_by_uid;

    /**
     * Computes: starts the plan on the handle's stream, with memory for each tensor that is not virtual.
     * @param pack addresses by uid, on the plan's device; scalars passed by value are in host memory
     * @param workspace get_workspace_size() bytes, or null if that is 0
     * @return INVALID_VALUE without a built plan; HIPDNN_BACKEND_ERROR with the engine's reason
     */
    Error execute(hipdnnHandle_t handle, const VariantPack& pack, void* workspace) const
    {
        const Plan* plan = active();
        return plan == nullptr || !plan->ready() ? must_plan() : run(handle, *plan, pack, workspace, nullptr);
    }
    /** The same with addresses by tensor. */
    Error execute(hipdnnHandle_t handle, const std::unordered_map<TensorPtr, void*>& tensors, void* workspace) const
    {
        VariantPack pack;
        HIPDNN_CPP_TRY(by_uid(tensors, pack));
        return execute(handle, pack, workspace);
    }
    /** The engine of the active plan, also where a preferred one was not taken. */
    Error get_execution_plan_engine_id(int64_t& engine) const
    {
        const Plan* plan = active();
        return plan == nullptr ? must_plan() : (engine = plan->engine, Error());
    }
    Error execute_plan_at_index(hipdnnHandle_t handle, const VariantPack& pack, void* workspace, int64_t index) const
    {
        HIPDNN_CPP_TRY(check_index(index));
        const Plan& plan = _plans[static_cast<size_t>(index)];
        return plan.barred || !plan.ready() ? must_plan() : run(handle, plan, pack, workspace, nullptr);
    }
    Error execute_plan_at_index(hipdnnHandle_t handle, const std::unordered_map<TensorPtr, void*>& tensors,
                                void* workspace, int64_t index) const
    {
        VariantPack pack;
        HIPDNN_CPP_TRY(by_uid(tensors, pack));
        return execute_plan_at_index(handle, pack, workspace, index);
    }

    /** Computes with other shapes for some tensors; requires set_override_shape_enabled(true) before building. */
    Error execute(hipdnnHandle_t handle, const VariantPack& pack, void* workspace, const std::vector<int64_t>& uids,
                  const std::vector<Dims>& shapes, const std::vector<Dims>& strides) const
    {
        const Plan* plan = active();
        if (plan == nullptr || !plan->ready())
        {
            return must_plan();
        }
        if (uids.empty() && shapes.empty() && strides.empty())
        {
            return execute(handle, pack, workspace);
        }
        /* A plan loaded on its own has no graph to check with. */
        if (!_operations.empty() && !_overrides)
        {
            return {ErrorCode::INVALID_VALUE, "the graph was built without set_override_shape_enabled(true)"};
        }
        if (shapes.size() != uids.size() || strides.size() != uids.size())
        {
            return {ErrorCode::INVALID_VALUE, detail::join({uids.size(), " uids, ", shapes.size(), " shapes and ",
                                                            strides.size(), " lists of strides, expected as many"})};
        }
        Overrides overrides;
        const auto known = tensors_by_uid();
        for (size_t i = 0; i < uids.size(); i++)
        {
            const auto tensor = known.find(uids[i]);
            const std::string who = "override of uid " + std::to_string(uids[i]);
            if (pack.count(uids[i]) == 0 || (!known.empty() && tensor == known.end()))
            {
                return {ErrorCode::INVALID_VALUE,
                        detail::join({who, ": expected a tensor of the graph that the variant pack has"})};
            }
            if (shapes[i].empty() || shapes[i].size() != strides[i].size() ||
                (!known.empty() && tensor->second->get_dim().size() != shapes[i].size()))
            {
                return {ErrorCode::INVALID_VALUE, detail::join({who, ": shape ", shapes[i], " and strides ", strides[i],
                                                                ", expected as many as the tensor has dimensions"})};
            }
            overrides.uids.push_back(uids[i]);
            overrides.lengths.push_back(static_cast<int64_t>(shapes[i].size()));
            overrides.shapes.insert(overrides.shapes.end(), shapes[i].begin(), shapes[i].end());
            overrides.strides.insert(overrides.strides.end(), strides[i].begin(), strides[i].end());
        }
        return run(handle, *plan, pack, workspace, &overrides);
    }
    Error execute(hipdnnHandle_t handle, const VariantPack& pack, void* workspace,
                  const std::unordered_map<int64_t, OverrideEntry>& overrides) const
    {
        std::vector<int64_t> uids;
        std::vector<Dims> shapes, strides;
        for (const auto& one : overrides)
        {
            uids.push_back(one.first);
            shapes.push_back(one.second.shape);
            strides.push_back(one.second.stride);
        }
        return execute(handle, pack, workspace, uids, shapes, strides);
    }

    /** The chosen plan as bytes, for from_compiled_plan_binary() of another process. */
    Error serialize_compiled_plan(std::vector<uint8_t>& bytes) const
    {
        const Plan* plan = active();
        if (plan == nullptr || !plan->ready())
        {
            return must_plan();
        }
        size_t size = 0;
        const char* attempt = "serializing the plan";
        HIPDNN_CPP_TRY(backend_error(
            HIPDNN_CPP_CALL(hipdnnBackendGetSerializedExecutionPlan_ext)(plan->plan.get(), 0, &size, nullptr),
            attempt));
        bytes.resize(size);
        HIPDNN_CPP_TRY(backend_error(
            HIPDNN_CPP_CALL(hipdnnBackendGetSerializedExecutionPlan_ext)(plan->plan.get(), size, &size, bytes.data()),
            attempt));
        bytes.resize(size);
        return {};
    }
    std::pair<std::vector<uint8_t>, Error> to_compiled_plan_binary() const
    {
        std::vector<uint8_t> bytes;
        Error error = serialize_compiled_plan(bytes);
        return {std::move(bytes), std::move(error)};
    }

    /** Loads a plan on its own: it can be executed, but has no graph. */
    Error deserialize_compiled_plan(hipdnnHandle_t handle, const std::vector<uint8_t>& bytes)
    {
        Plan plan;
        HIPDNN_CPP_TRY(load_plan(handle, bytes, plan));
        reset_plans();
        _graph.reset();
        _operations.clear();
        _overrides = false;
        _plans.push_back(std::move(plan));
        return {};
    }
    Error from_compiled_plan_binary(hipdnnHandle_t handle, const std::vector<uint8_t>& bytes)
    {
        return deserialize_compiled_plan(handle, bytes);
    }

    /** Loads a graph written by serialize(); with a handle it is ready for plans. */
    Error deserialize(hipdnnHandle_t handle, const std::vector<uint8_t>& bytes)
    {
        Descriptor graph;
        HIPDNN_CPP_TRY(backend_error(
            HIPDNN_CPP_CALL(hipdnnBackendCreateAndDeserializeGraph_ext)(graph.place(), bytes.data(), bytes.size()),
            "loading the graph"));
        HIPDNN_CPP_TRY(take(std::move(graph), handle));
        reset_plans();
        return {};
    }
    Error deserialize(const std::vector<uint8_t>& bytes) { return deserialize(nullptr, bytes); }
    Error deserialize(hipdnnHandle_t handle, const std::string& json)
    {
        Descriptor graph;
        HIPDNN_CPP_TRY(backend_error(
            HIPDNN_CPP_CALL(hipdnnBackendCreateAndDeserializeJsonGraph_ext)(graph.place(), json.data(), json.size()),
            "reading the graph"));
        HIPDNN_CPP_TRY(take(std::move(graph), handle));
        reset_plans();
        return {};
    }
    Error deserialize(const std::string& json) { return deserialize(nullptr, json); }
    Error from_binary(hipdnnHandle_t handle, const std::vector<uint8_t>& bytes) { return deserialize(handle, bytes); }
    Error from_binary(const std::vector<uint8_t>& bytes) { return deserialize(bytes); }
    Error from_json(hipdnnHandle_t handle, const std::string& json) { return deserialize(handle, json); }
    Error from_json(const std::string& json) { return deserialize(json); }

protected:
    struct Overrides
    {
        std::vector<int64_t> uids, lengths, shapes, strides;
    };

    static Error load_plan(hipdnnHandle_t handle, const std::vector<uint8_t>& bytes, Plan& plan)
    {
        HIPDNN_CPP_TRY(backend_error(HIPDNN_CPP_CALL(hipdnnBackendCreateAndDeserializeExecutionPlan_ext)(
                                         handle, plan.plan.place(), bytes.data(), bytes.size()),
                                     "loading the plan"));
        plan.plan.value(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, plan.workspace);
        plan.plan.value(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT, HIPDNN_TYPE_INT64, plan.engine);
        plan.finalized = true;
        return {};
    }

    template <typename Tensors>
    static Error by_uid(const Tensors& tensors, VariantPack& pack)
    {
        for (const auto& one : tensors)
        {
            if (one.first == nullptr || !one.first->has_uid())
            {
                return {ErrorCode::INVALID_VALUE, "the variant pack has a tensor that is null or without a uid"};
            }
            pack[one.first->get_uid()] = one.second;
        }
        return {};
    }

    /** Executes a plan. Allocates no memory for up to 32 tensors. */
    Error run(hipdnnHandle_t handle, const Plan& plan, const VariantPack& pack, void* workspace,
              const Overrides* overrides) const
    {
        constexpr size_t FEW = 32;
        int64_t few_uids[FEW], *uids = few_uids;
        void *few_pointers[FEW], **pointers = few_pointers;
        std::unique_ptr<int64_t[]> many_uids;
        std::unique_ptr<void*[]> many_pointers;
        const size_t most = pack.size() + _default_uids.size();
        if (most > FEW)
        {
            many_uids.reset(new int64_t[most]);
            many_pointers.reset(new void*[most]);
            uids = many_uids.get();
            pointers = many_pointers.get();
        }
        int64_t count = 0;
        for (const auto& one : pack)
        {
            uids[count] = one.first;
            pointers[count++] = one.second;
        }
        for (size_t i = 0; i < _default_uids.size(); i++)
        {
            if (pack.find(_default_uids[i]) == pack.end())
            {
                uids[count] = _default_uids[i];
                pointers[count++] = const_cast<int64_t*>(&_default_values[i]);
            }
        }
        const Descriptor bound(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        hipdnnStatus_t status =
            bound.set(HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, count, pointers);
        const auto set = [&](hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, size_t length,
                             const void* values) {
            status =
                status == HIPDNN_STATUS_SUCCESS ? bound.set(name, type, static_cast<int64_t>(length), values) : status;
        };
        set(HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, static_cast<size_t>(count), uids);
        set(HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
        if (overrides != nullptr)
        {
            const auto& more = *overrides;
            set(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, more.uids.size(),
                more.uids.data());
            set(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, more.shapes.size(),
                more.shapes.data());
            set(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, more.strides.size(),
                more.strides.data());
            set(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, more.lengths.size(),
                more.lengths.data());
        }
        status = status == HIPDNN_STATUS_SUCCESS ? HIPDNN_CPP_CALL(hipdnnBackendFinalize)(bound.get()) : status;
        if (status != HIPDNN_STATUS_SUCCESS)
        {
            return backend_error(status, "binding memory to tensors");
        }
        status = HIPDNN_CPP_CALL(hipdnnBackendExecute)(handle, plan.plan.get(), bound.get());
        return status == HIPDNN_STATUS_SUCCESS ? Error() : backend_error(status, "executing the plan");
    }
};

} // namespace detail
} // namespace hipdnn
