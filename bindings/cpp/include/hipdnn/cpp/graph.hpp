/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Graphs: operations on tensors, computed by an engine.
 */
#pragma once

#include "engine_ids.hpp"
#include "graph_autotune.hpp"
#include "handle.hpp"

namespace hipdnn
{

namespace detail
{

/** The settings of a graph; setters return the graph: `graph.set_name("a").set_io_data_type(...)`. */
template <typename Derived>
class GraphSettings : public GraphAutotune<Derived>
{
    using Base = GraphAutotune<Derived>;

protected:
    using Base::_name;
    using Base::_overrides;
    using Base::_preferred;
    using Base::_types;
    using Base::bar_engines;
    using Base::bar_workspaces_above;

public:
    Derived& set_name(const std::string& name) { return _name = name, self(); }
    /** The compute type of operations without their own. */
    Derived& set_compute_data_type(DataType type) { return _types.compute = type, self(); }
    /** The type of virtual tensors without one. */
    Derived& set_intermediate_data_type(DataType type) { return _types.intermediate = type, self(); }
    /** The type of other tensors without one. */
    Derived& set_io_data_type(DataType type) { return _types.io = type, self(); }
    /** The engine to prefer if it computes the graph. */
    Derived& set_preferred_engine_id_ext(std::optional<int64_t> engine) { return _preferred = engine, self(); }
    Derived& set_preferred_engine_id_ext(const std::string& engine)
    {
        _preferred = engine.empty() ? std::nullopt : std::optional<int64_t>(engine_id_of(engine));
        return self();
    }
    std::optional<int64_t> get_preferred_engine_id_ext() const { return _preferred; }
    /** Whether executions may give tensors other shapes; set before the graph is built. */
    Derived& set_override_shape_enabled(bool enabled) { return _overrides = enabled, self(); }
    /** Plans that need more workspace, in bytes, are not built or chosen. */
    Derived& deselect_workspace_greater_than(int64_t bytes) { return bar_workspaces_above(bytes), self(); }
    /** Plans of these engines are not built or chosen. */
    Derived& deselect_engines(const std::vector<std::string>& names)
    {
        std::vector<int64_t> ids;
        for (const std::string& name : names)
        {
            ids.push_back(engine_id_of(name));
        }
        return bar_engines(ids), self();
    }
    Derived& deselect_engines(const std::vector<int64_t>& ids) { return bar_engines(ids), self(); }

protected:
    Derived& self() { return static_cast<Derived&>(*this); }
};

} // namespace detail

/**
 * A graph of operations. Add operations, mark output tensors with set_output(true), build() it for a handle, and
 * execute() it as often as you like. Several threads may execute a built graph at once.
 */
class Graph : public detail::GraphSettings<Graph>
{
};

} // namespace hipdnn
