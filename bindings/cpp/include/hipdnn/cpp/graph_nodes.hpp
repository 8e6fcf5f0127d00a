/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The contents of a graph: operations in order, their tensors, and the library's descriptor of them.
 */
#pragma once

#include "lowering.hpp"
#include "reading.hpp"

namespace hipdnn
{
namespace detail
{

/** Operations and tensors: checked, ordered, written to the library and read from it. */
template <typename Derived>
class GraphNodes
{
public:
    GraphNodes(GraphNodes&&) = default;
    GraphNodes& operator=(GraphNodes&&) = default;
    /** A copy has the same operations, tensors and plans; later additions do not affect the original. */
    GraphNodes(const GraphNodes&) = default;
    GraphNodes& operator=(const GraphNodes&) = default;

    const std::string& get_name() const { return _name; }
    DataType get_compute_data_type() const { return _types.compute; }
    DataType get_intermediate_data_type() const { return _types.intermediate; }
    DataType get_io_data_type() const { return _types.io; }

    /** A tensor with these properties. */
    static TensorPtr tensor(const Tensor& tensor) { return std::make_shared<Tensor>(tensor); }
    /** A copy of a tensor, without its uid. */
    static TensorPtr tensor_like(const TensorPtr& tensor, const std::string& name = "")
    {
        TensorPtr made = std::make_shared<Tensor>(*tensor);
        made->clear_uid().set_name(name);
        return made;
    }

    /**
     * Orders the operations so that tensors are written before they are read, infers every tensor's type and shape,
     * and checks everything. It may be called repeatedly.
     * @return INVALID_VALUE for a duplicate uid, a cycle or a wrong shape; ATTRIBUTE_NOT_SET for something missing;
     *     GRAPH_NOT_SUPPORTED for something that hipDNN lacks
     */
    Error validate()
    {
        HIPDNN_CPP_TRY(check_uids());
        HIPDNN_CPP_TRY(sort());
        for (const auto& operation : _operations)
        {
            TensorWalk walk;
            operation->visit(walk);
            const std::string who = std::string(operation->kind().word) + " \"" + operation->name + "\"";
            if (walk.missing != nullptr)
            {
                return {ErrorCode::ATTRIBUTE_NOT_SET, detail::join({who, ": ", walk.missing, " is missing"})};
            }
            if (operation->compute_data_type == DataType::NOT_SET)
            {
                operation->compute_data_type = _types.compute;
            }
            for (const auto* list : {&walk.inputs, &walk.outputs})
            {
                for (const TensorPtr& tensor : *list)
                {
                    tensor->fill_from_context(_types);
                }
            }
            HIPDNN_CPP_TRY(operation->infer());
            for (const auto* list : {&walk.inputs, &walk.outputs})
            {
                for (const TensorPtr& tensor : *list)
                {
                    const Error error = tensor->validate();
                    if (error.is_bad())
                    {
                        return {error.code, who + ": " + error.err_msg};
                    }
                }
            }
        }
        return {};
    }

    /** The graph's tensors with uids. */
    std::unordered_map<int64_t, TensorPtr> tensors_by_uid() const
    {
        std::unordered_map<int64_t, TensorPtr> found;
        for (const TensorPtr& tensor : tensors())
        {
            if (tensor->has_uid())
            {
                found[tensor->get_uid()] = tensor;
            }
        }
        return found;
    }

    /** The graph's tensors in the order in which operations use them. */
    std::vector<TensorPtr> tensors() const
    {
        std::vector<TensorPtr> found;
        Index seen;
        for (const auto& operation : _operations)
        {
            TensorWalk walk;
            operation->visit(walk);
            for (const auto* list : {&walk.inputs, &walk.outputs})
            {
                for (const TensorPtr& tensor : *list)
                {
                    if (put(seen, key_of(tensor.get()), nullptr))
                    {
                        found.push_back(tensor);
                    }
                }
            }
        }
        return found;
    }

    const std::vector<std::shared_ptr<Operation>>& operations() const { return _operations; }

    /** Whether executions may override the shapes of tensors. Set before the graph is built. */
    bool is_override_shape_enabled() const { return _overrides; }
    /** The engine to prefer if it computes the graph. */
    std::optional<int64_t> get_preferred_engine_id() const { return _preferred; }

    /**
     * Validates the graph and passes it to the library, for the engines of a handle.
     * @return as validate(), or HIPDNN_BACKEND_ERROR with the library's reason
     */
    Error build_operation_graph(hipdnnHandle_t handle) { return lower_all(handle); }

    /** The graph as bytes; passes it to the library first if necessary. */
    Error serialize(std::vector<uint8_t>& bytes)
    {
        HIPDNN_CPP_TRY(ensure_lowered());
        return static_cast<const GraphNodes&>(*this).serialize(bytes);
    }
    Error serialize(std::vector<uint8_t>& bytes) const
    {
        HIPDNN_CPP_TRY(require_lowered());
        size_t size = 0;
        HIPDNN_CPP_TRY(
            backend_error(HIPDNN_CPP_CALL(hipdnnBackendGetSerializedBinaryGraph_ext)(_graph.get(), 0, &size, nullptr),
                          "serializing the graph"));
        bytes.resize(size);
        return backend_error(
            HIPDNN_CPP_CALL(hipdnnBackendGetSerializedBinaryGraph_ext)(_graph.get(), size, &size, bytes.data()),
            "serializing the graph");
    }

    /** The graph as JSON. */
    Error serialize(std::string& json)
    {
        HIPDNN_CPP_TRY(ensure_lowered());
        return static_cast<const GraphNodes&>(*this).serialize(json);
    }
    Error serialize(std::string& json) const
    {
        HIPDNN_CPP_TRY(require_lowered());
        size_t size = 0;
        HIPDNN_CPP_TRY(
            backend_error(HIPDNN_CPP_CALL(hipdnnBackendGetSerializedJsonGraph_ext)(_graph.get(), 0, &size, nullptr),
                          "writing the graph as JSON"));
        json.resize(size);
        HIPDNN_CPP_TRY(
            backend_error(HIPDNN_CPP_CALL(hipdnnBackendGetSerializedJsonGraph_ext)(_graph.get(), size, &size, &json[0]),
                          "writing the graph as JSON"));
        /* The size includes the NUL at the end. */
        json.resize(size > 0 ? size - 1 : 0);
        return {};
    }

    std::pair<std::vector<uint8_t>, Error> to_binary() { return made<std::vector<uint8_t>>(*this); }
    std::pair<std::vector<uint8_t>, Error> to_binary() const { return made<std::vector<uint8_t>>(*this); }
    std::pair<std::string, Error> to_json() { return made<std::string>(*this); }
    std::pair<std::string, Error> to_json() const { return made<std::string>(*this); }

protected:
    std::string _name;
    GraphTypes _types;
    std::vector<std::shared_ptr<Operation>> _operations;
    std::optional<int64_t> _preferred;
    bool _overrides = false;
    /** Whether, as in AMD's frontend, a graph in parts that share no tensor is rejected, and operations are ordered breadth first. */
    bool _as_amd = false;
    Descriptor _graph;
    bool _graph_finalized = false;
    /** Scalars that are bound if an execution does not bind them, and their bytes. */
    std::vector<int64_t> _default_uids;
    std::vector<int64_t> _default_values;

    GraphNodes() = default;

    template <typename Text, typename Self>
    static std::pair<Text, Error> made(Self& self)
    {
        Text text;
        Error error = self.serialize(text);
        return {std::move(text), std::move(error)};
    }

    static Error must_build()
    {
        return {ErrorCode::INVALID_VALUE, "the graph is not built, call build_operation_graph() first"};
    }
    bool is_built() const { return _graph.valid() && _graph_finalized; }
    Error require_lowered() const { return _graph.valid() ? Error() : must_build(); }
    Error ensure_lowered() { return _graph.valid() ? Error() : lower_all(nullptr); }

    /** Sets the handle of a graph that was loaded or lowered without one. */
    Error finalize_graph(hipdnnHandle_t handle)
    {
        HIPDNN_CPP_TRY(backend_error(_graph.set(HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle),
                                     "setting the graph's handle"));
        HIPDNN_CPP_TRY(_graph.finalize("finalizing the graph"));
        _graph_finalized = true;
        return {};
    }

    /** Takes over a graph of the library; with a handle it is ready for plans. */
    Error take(Descriptor graph, hipdnnHandle_t handle)
    {
        std::vector<std::shared_ptr<Operation>> operations;
        HIPDNN_CPP_TRY(read_operations(graph, operations));
        const auto type = [&graph](hipdnnBackendAttributeName_t name) {
            hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
            return graph.value(name, HIPDNN_TYPE_DATA_TYPE, type) ? from_c(type) : DataType::NOT_SET;
        };
        _types = {type(HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT),
                  type(HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT),
                  type(HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT)};
        _name = graph.text(HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT);
        int64_t engine = 0;
        const bool prefers = graph.value(HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, HIPDNN_TYPE_INT64, engine);
        _preferred = prefers ? std::optional<int64_t>(engine) : std::nullopt;
        _overrides = false;
        graph.value(HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, _overrides);
        _operations = std::move(operations);
        _graph = std::move(graph);
        _graph_finalized = false;
        return handle == nullptr ? Error() : finalize_graph(handle);
    }

    /** Gives tensors without uids the lowest free ones. */
    void assign_uids()
    {
        const std::vector<TensorPtr> all = tensors();
        Index used;
        for (const TensorPtr& tensor : all)
        {
            if (tensor->has_uid())
            {
                put(used, tensor->get_uid(), nullptr);
            }
        }
        int64_t next = 0;
        for (const TensorPtr& tensor : all)
        {
            if (!tensor->has_uid())
            {
                while (used.find(next) != used.end())
                {
                    next++;
                }
                tensor->set_uid(next++);
            }
        }
    }

    Error check_uids() const
    {
        Index seen;
        for (const TensorPtr& tensor : tensors())
        {
            if (tensor->has_uid() && !put(seen, tensor->get_uid(), tensor.get()))
            {
                const auto* other = static_cast<const Tensor*>(seen.find(tensor->get_uid())->second);
                return {ErrorCode::INVALID_VALUE,
                        detail::join({"uid ", tensor->get_uid(), " belongs to tensor \"", other->get_name(),
                                      "\" and to \"", tensor->get_name(), "\", expected one of its own for each"})};
            }
        }
        return {};
    }

    /** Orders writers before readers; otherwise in the program's order, or breadth first as in AMD's frontend. */
    Error sort()
    {
        const size_t count = _operations.size();
        /* Operations by number. Readers wait for their writers; operations that share a tensor get the lowest number of their part. */
        std::vector<int64_t> writers, readers, waits(count, 0), parts(count, 0);
        Index writer_of;
        for (size_t i = 0; i < count; i++)
        {
            TensorWalk walk;
            _operations[i]->visit(walk);
            parts[i] = static_cast<int64_t>(i);
            for (const TensorPtr& tensor : walk.outputs)
            {
                if (!put(writer_of, key_of(tensor.get()), &parts[i]))
                {
                    return {ErrorCode::INVALID_VALUE, detail::join({"tensor \"", tensor->get_name(),
                                                                    "\" is written by two operations, expected one"})};
                }
            }
        }
        for (size_t i = 0; i < count; i++)
        {
            TensorWalk walk;
            _operations[i]->visit(walk);
            for (const TensorPtr& tensor : walk.inputs)
            {
                const auto found = writer_of.find(key_of(tensor.get()));
                if (found == writer_of.end())
                {
                    continue;
                }
                const int64_t writer = static_cast<const int64_t*>(found->second) - parts.data(),
                              reader = static_cast<int64_t>(i);
                writers.push_back(writer);
                readers.push_back(reader);
                waits[i]++;
                const int64_t part = parts[static_cast<size_t>(writer)], old = parts[i];
                for (int64_t& other : parts)
                {
                    other = other == old ? part : other;
                }
            }
        }
        for (const int64_t part : parts)
        {
            if (_as_amd && part != parts[0])
            {
                return {ErrorCode::INVALID_VALUE,
                        "the graph has parts that share no tensor, expected a graph for each"};
            }
        }
        Dims ready;
        for (size_t i = 0; i < count; i++)
        {
            if (waits[i] == 0)
            {
                ready.push_back(static_cast<int64_t>(i));
            }
        }
        std::vector<std::shared_ptr<Operation>> ordered;
        while (!ready.empty())
        {
            const auto place = _as_amd ? ready.begin() : std::min_element(ready.begin(), ready.end());
            const int64_t next = *place;
            ready.erase(place);
            ordered.push_back(std::shared_ptr<Operation>(_operations[static_cast<size_t>(next)]));
            for (size_t i = 0; i < writers.size(); i++)
            {
                if (writers[i] == next && --waits[static_cast<size_t>(readers[i])] == 0)
                {
                    ready.push_back(readers[i]);
                }
            }
        }
        if (ordered.size() < count)
        {
            return {ErrorCode::INVALID_VALUE,
                    "the operations form a circle, expected tensors that are written before they are read"};
        }
        _operations = std::move(ordered);
        return {};
    }

private:
    /** Passes the graph to the library; without a handle it can only be serialized. */
    Error lower_all(hipdnnHandle_t handle)
    {
        assign_uids();
        HIPDNN_CPP_TRY(validate());
        if (_operations.empty())
        {
            return {ErrorCode::INVALID_VALUE, "the graph has no operations"};
        }
        TensorDescriptors made;
        std::vector<Descriptor> operations;
        std::vector<hipdnnBackendDescriptor_t> raw;
        for (const auto& operation : _operations)
        {
            operations.push_back(Descriptor());
            HIPDNN_CPP_TRY(lower(*operation, made, operations.back()));
            raw.push_back(operations.back().get());
        }
        Descriptor graph(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        const char* attempt = "making the graph";
        HIPDNN_CPP_TRY(backend_error(graph.set(HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                               static_cast<int64_t>(raw.size()), raw.data()),
                                     attempt));
        const std::pair<hipdnnBackendAttributeName_t, DataType> types[] = {
            {HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT, _types.compute},
            {HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT, _types.intermediate},
            {HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT, _types.io}};
        for (const auto& type : types)
        {
            if (const auto number = to_c(type.second))
            {
                HIPDNN_CPP_TRY(backend_error(graph.set(type.first, HIPDNN_TYPE_DATA_TYPE, 1, &*number), attempt));
            }
        }
        HIPDNN_CPP_TRY(backend_error(graph.set_text(HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, _name), attempt));
        if (_preferred)
        {
            HIPDNN_CPP_TRY(backend_error(
                graph.set(HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, HIPDNN_TYPE_INT64, 1, &*_preferred),
                attempt));
        }
        if (_overrides)
        {
            HIPDNN_CPP_TRY(
                backend_error(graph.set_flag(HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, true), attempt));
        }
        _graph = std::move(graph);
        _graph_finalized = false;
        _default_uids.clear();
        _default_values.clear();
        for (const TensorPtr& tensor : tensors())
        {
            if (tensor->get_is_runtime_pass_by_value() && tensor->has_value())
            {
                const int64_t uid = tensor->get_uid();
                const Scalar scalar = value_bytes(*tensor);
                int64_t value = 0;
                std::memcpy(&value, scalar.bytes, sizeof value);
                _default_uids.push_back(uid);
                _default_values.push_back(value);
            }
        }
        return handle == nullptr ? Error() : finalize_graph(handle);
    }
};

} // namespace detail
} // namespace hipdnn
