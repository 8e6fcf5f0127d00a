/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Graphs as AMD's frontend saves them: with their built plan, if its engine can save it; and as objects of a JSON library.
 */
#pragma once

#include "../../hipdnn.hpp"

#include <algorithm>

namespace hipdnn_compat
{

/** The calls that save and load graphs. */
template <typename Derived>
class SavedGraph : public ::hipdnn::detail::GraphSettings<Derived>
{
    using Base = ::hipdnn::detail::GraphSettings<Derived>;
    using Bytes = std::vector<uint8_t>;
    using Plan = typename Base::Plan;

    /** Whether a type is a class of JSON values, as nlohmann::json. */
    template <typename Json>
    using IfJson = decltype(std::string(std::declval<const Json&>().dump()), Json::parse(std::string()));

public:
    using Base::deserialize;
    using Base::serialize;

    /** The graph and its active plan, or the graph alone if that was not built or cannot be saved. */
    ::hipdnn::Error serialize(Bytes& bytes) const
    {
        const Plan* plan = this->active();
        if (plan == nullptr || !plan->ready() || !this->_graph.valid() || !saves_plans(plan->engine))
        {
            return Base::serialize(bytes);
        }
        size_t size = 0;
        const hipdnnStatus_t told = get(*plan, 0, size, nullptr);
        // A library without the function saves no plans.
        if (told == HIPDNN_STATUS_VERSION_MISMATCH)
        {
            return Base::serialize(bytes);
        }
        HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(told, "serializing the graph and its plan"));
        bytes.resize(size);
        HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(get(*plan, size, size, bytes.data()),
                                                       "serializing the graph and its plan"));
        bytes.resize(size);
        return {};
    }
    ::hipdnn::Error serialize(Bytes& bytes)
    {
        HIPDNN_CPP_TRY(this->ensure_lowered());
        return static_cast<const SavedGraph&>(*this).serialize(bytes);
    }

    /** Loads a graph; with a handle also its plan, if there is one: then it can be executed at once. */
    ::hipdnn::Error deserialize(hipdnnHandle_t handle, const Bytes& bytes)
    {
        HIPDNN_CPP_TRY(Base::deserialize(handle, bytes));
        int contents = 0;
        const hipdnnStatus_t told =
            HIPDNN_CPP_CALL(hipdnnBackendGetSerializedBinaryContents_ext)(bytes.data(), bytes.size(), &contents);
        // A library without the function saves no plans.
        if (told != HIPDNN_STATUS_VERSION_MISMATCH)
        {
            HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(told, "loading the graph"));
        }
        if (handle == nullptr || (contents & HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN) == 0)
        {
            return {};
        }
        Plan plan;
        HIPDNN_CPP_TRY(Base::load_plan(handle, bytes, plan));
        this->_plans.push_back(std::move(plan));
        return {};
    }
    ::hipdnn::Error deserialize(const Bytes& bytes) { return deserialize(nullptr, bytes); }
    ::hipdnn::Error from_binary(hipdnnHandle_t handle, const Bytes& bytes) { return deserialize(handle, bytes); }
    ::hipdnn::Error from_binary(const Bytes& bytes) { return deserialize(bytes); }
    std::pair<Bytes, ::hipdnn::Error> to_binary() { return Base::template made<Bytes>(*this); }
    std::pair<Bytes, ::hipdnn::Error> to_binary() const { return Base::template made<Bytes>(*this); }

    template <typename Json, typename = IfJson<Json>>
    ::hipdnn::Error serialize(Json& json) const
    {
        return parse(*this, json);
    }
    template <typename Json, typename = IfJson<Json>>
    ::hipdnn::Error serialize(Json& json)
    {
        return parse(*this, json);
    }
    template <typename Json, typename = IfJson<Json>>
    ::hipdnn::Error deserialize(hipdnnHandle_t handle, const Json& json)
    {
        return deserialize(handle, std::string(json.dump()));
    }
    template <typename Json, typename = IfJson<Json>>
    ::hipdnn::Error deserialize(const Json& json)
    {
        return deserialize(std::string(json.dump()));
    }

private:
    bool saves_plans(int64_t engine) const
    {
        const auto saves = ::hipdnn::BehaviorNote::SUPPORTS_EXECUTION_PLAN_SERIALIZATION;
        std::vector<::hipdnn::BehaviorNote> notes;
        return this->get_behavior_notes_for_engine(engine, notes).is_good() &&
               std::count(notes.begin(), notes.end(), saves) != 0;
    }

    hipdnnStatus_t get(const Plan& plan, size_t room, size_t& size, uint8_t* bytes) const
    {
        return HIPDNN_CPP_CALL(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext)(this->_graph.get(), plan.plan.get(),
                                                                                 room, &size, bytes);
    }

    template <typename Self, typename Json>
    static ::hipdnn::Error parse(Self& self, Json& json)
    {
        std::string text;
        HIPDNN_CPP_TRY(self.serialize(text));
        json = Json::parse(text);
        return {};
    }
};

} // namespace hipdnn_compat
