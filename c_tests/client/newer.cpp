/* SPDX-License-Identifier: MIT */

/* The seven flows of a frontend of 2026. */
#include "engines.hpp"

namespace client
{

namespace
{

Descriptor make_tensor(const Session& session, int64_t uid, const std::vector<int64_t>& dims, bool is_virtual = false)
{
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i > 0; i--)
    {
        strides[i - 1] = strides[i] * dims[i];
    }
    Descriptor tensor(session, HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor.set_numbers(HIPDNN_ATTR_TENSOR_UNIQUE_ID, {uid})
        .set_text(HIPDNN_ATTR_TENSOR_NAME_EXT, "tensor " + std::to_string(uid))
        .set_float(HIPDNN_ATTR_TENSOR_DATA_TYPE)
        .set_numbers(HIPDNN_ATTR_TENSOR_DIMENSIONS, dims)
        .set_numbers(HIPDNN_ATTR_TENSOR_STRIDES, strides)
        .set_flag(HIPDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
        .finalize();
    return tensor;
}

/* Whether the tensor between the two operations is the caller's. Only the shapes of such tensors can be replaced. */
enum class Between { Virtual, Bound };

/* 1. A graph of descriptors; its user may prefer an engine. */
Descriptor make_graph(const Session& session, Between between_is, const std::vector<int64_t>& preferred)
{
    const Descriptor x = make_tensor(session, UID_X, {1, 2, 4, 4});
    const Descriptor w = make_tensor(session, UID_W, {2, 2, 3, 3});
    const Descriptor between = make_tensor(session, UID_BETWEEN, {1, 2, 4, 4}, between_is == Between::Virtual);
    const Descriptor y = make_tensor(session, UID_Y, {1, 2, 4, 4});

    const hipdnnConvolutionMode_t mode = HIPDNN_CROSS_CORRELATION;
    Descriptor convolution(session, HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    convolution.set(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
        .set(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
        .set(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, between)
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {1, 1})
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, {1, 1})
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {1, 1})
        .set_numbers(HIPDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1})
        .set(HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
        .set_float(HIPDNN_ATTR_CONVOLUTION_COMP_TYPE)
        .set_text(HIPDNN_ATTR_OPERATION_NAME_EXT, "convolution")
        .finalize();

    const hipdnnPointwiseMode_t relu_mode = HIPDNN_POINTWISE_RELU_FWD;
    Descriptor relu(session, HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    relu.set(HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, between)
        .set(HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, y)
        .set(HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &relu_mode)
        .set_float(HIPDNN_ATTR_POINTWISE_MATH_PREC)
        .set_text(HIPDNN_ATTR_OPERATION_NAME_EXT, "relu")
        .finalize();

    Descriptor graph(session, HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set_float(HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT)
        .set_float(HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT)
        .set_float(HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT)
        .set_text(HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, "convolution and relu")
        .set_flag(HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, between_is == Between::Bound)
        .set(HIPDNN_ATTR_OPERATIONGRAPH_OPS, {convolution.raw(), relu.raw()});
    if (!preferred.empty())
    {
        graph.set_numbers(HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, preferred);
    }
    bind_and_finalize(session, graph);
    return graph;
}

/* 2. The engines for a graph, best first, each as a finalized configuration. The engine that the graph prefers is moved to
 * the front by the frontend. */
std::vector<Descriptor> choose(const Session& session, const Descriptor& graph, const Choice& choice = {})
{
    auto configs = offered(session, graph, choice);
    for (auto& config : configs)
    {
        config.finalize();
    }
    const auto preferred = graph.numbers(HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT);
    const auto is_preferred = [&](const Descriptor& config) {
        return !preferred.empty() && engine_of(config) == preferred[0];
    };
    std::vector<Descriptor> ordered;
    for (const bool first : {true, false})
    {
        for (auto& config : configs)
        {
            if (config.raw() != nullptr && is_preferred(config) == first)
            {
                ordered.push_back(std::move(config));
            }
        }
    }
    return ordered;
}

/* 3. An engine's notes, and the workspace that it would need. Returns the names of its knobs. */
std::vector<std::string> describe(const Session& session, const Descriptor& graph, int64_t id)
{
    Descriptor engine(session, HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set_numbers(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, {id}).finalize();
    const std::string name = engine.text(HIPDNN_ATTR_ENGINE_NAME_EXT);
    require(name == name_of(session, id), "the engine is " + name + " and " + name_of(session, id));
    for (const int64_t note : engine.numbers(HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE))
    {
        require(note >= 0, "a behavior note is negative");
    }
    std::vector<std::string> names;
    for (const auto& knob : engine.descriptors(HIPDNN_ATTR_ENGINE_KNOB_INFO))
    {
        names.push_back(knob.text(HIPDNN_ATTR_KNOB_INFO_TYPE));
        require(!knob.text(HIPDNN_ATTR_KNOB_INFO_DESCRIPTION).empty(), names.back() + " is not described");
        const int64_t value = knob.number(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE);
        require(knob.number(HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE) <= value &&
                    value <= knob.number(HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE),
                "the default of " + names.back() + " is out of range");
    }
    Descriptor config(session, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set(HIPDNN_ATTR_ENGINECFG_ENGINE, engine).finalize();
    require(config.number(HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) >= 0, "the workspace estimate is negative");
    return names;
}

/* 4. A plan, of a configuration with a knob set where there is one. */
Descriptor make_plan(const Session& session, const Descriptor& graph, int64_t id, const std::vector<std::string>& knobs)
{
    Descriptor engine(session, HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set_numbers(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, {id}).finalize();
    Descriptor config(session, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set(HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (std::find(knobs.begin(), knobs.end(), "threads") != knobs.end())
    {
        Descriptor choice(session, HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        choice.set_text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, "threads")
            .set_numbers(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {1})
            .finalize();
        config.set(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice);
    }
    config.finalize();
    Descriptor plan(session, HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize();
    require(plan.number(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT) == id, "the plan is another engine's");
    return plan;
}

/* An execution on the tensors that the plan says are the caller's. */
void execute_all(const Session& session, const Descriptor& plan, Data& data, Shapes shapes = Shapes::Planned)
{
    execute(session, plan, data, plan.numbers(HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT), shapes);
}

/* 5. Executions, with the shapes of the graph and with others. */
void run(const Session& session, const Descriptor& plan, const std::string& what)
{
    Data data(1);
    execute_all(session, plan, data);
    data.check(true, what);
    Data more(3);
    execute_all(session, plan, more, Shapes::Others);
    more.check(true, what + " with three images");
    data.forget();
    execute_all(session, plan, data);
    data.check(true, what + " again");
}

/* 6. The time of each engine, and a ranking by it, which the next choice follows. */
void autotune(const Session& session, const Descriptor& graph, const std::vector<int64_t>& engines)
{
    std::vector<std::pair<float, int64_t>> times;
    for (const int64_t engine : engines)
    {
        const Descriptor plan = make_plan(session, graph, engine, {});
        Data data(1);
        execute_all(session, plan, data);
        float best = INFINITY;
        for (int round = 0; round < 3; round++)
        {
            Descriptor control(session, HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
            hipdnnHandle_t handle = session.handle();
            control.set(HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &handle);
            if (round == 0)
            {
                control.set_flag(HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT, true);
            }
            control.set_flag(HIPDNN_ATTR_PROFILING_START_EXT, true);
            data.forget();
            execute_all(session, plan, data);
            control.set_flag(HIPDNN_ATTR_PROFILING_STOP_EXT, true).finalize();
            float milliseconds = -1;
            CLIENT_CHECK(session, hipdnnBackendGetAttribute, control.raw(), HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT,
                         HIPDNN_TYPE_FLOAT, 1, nullptr, &milliseconds);
            require(milliseconds >= 0, "an execution took less than no time");
            data.check(true, "an execution whose time was taken");
            best = std::min(best, milliseconds);
        }
        times.emplace_back(best, engine);
    }
    std::sort(times.begin(), times.end());
    /* Both orders, so that one of them is not that of before. */
    for (const bool reversed : {false, true})
    {
        std::vector<int64_t> ranking;
        for (const auto& time : times)
        {
            ranking.insert(reversed ? ranking.begin() : ranking.end(), time.second);
        }
        hipdnnAutotuneCacheWriteOutcome_ext_t outcome{};
        CLIENT_CHECK(session, hipdnnBackendWriteEngineRankingResults_ext, session.handle(), graph.raw(), ranking.data(),
                     ranking.size(), &outcome);
        require(outcome == HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN, "the ranking was not written");
        require(engines_of(choose(session, graph)) == ranking, "the engines are not in the order of the ranking");
    }
}

/* A graph that was read back has the operations that were saved. */
void check_read_back(const Session& session, const Descriptor& graph)
{
    const auto operations = graph.descriptors(HIPDNN_ATTR_OPERATIONGRAPH_OPS);
    require(operations.size() == 2, "another number of operations than two");
    const auto type = [&](size_t at) {
        hipdnnOperationType_ext_t read = HIPDNN_OPERATION_TYPE_NOT_SET_EXT;
        session.check(session.library.hipdnnBackendGetAttribute(operations[at].raw(), HIPDNN_ATTR_OPERATION_TYPE_EXT,
                                                                HIPDNN_TYPE_OPERATION_TYPE_EXT, 1, nullptr, &read),
                      "the type of an operation");
        return read;
    };
    require(type(0) == HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT && type(1) == HIPDNN_OPERATION_TYPE_POINTWISE_EXT,
            "other operations than were saved");
    require(operations[0].text(HIPDNN_ATTR_OPERATION_NAME_EXT) == "convolution", "another name than was saved");
    require(operations[0].numbers(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS) == std::vector<int64_t>({1, 1}),
            "other paddings than were saved");
    const Descriptor filter = operations[0].descriptor(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
    require(filter.number(HIPDNN_ATTR_TENSOR_UNIQUE_ID) == UID_W &&
                filter.numbers(HIPDNN_ATTR_TENSOR_DIMENSIONS) == std::vector<int64_t>({2, 2, 3, 3}),
            "another filter than was saved");
}

/* 7. Graphs and plans as bytes and text, and back. */
void save_and_load(const Session& session, const Descriptor& graph, const Descriptor& plan)
{
    const Library& library = session.library;
    const auto binary =
        bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraph_ext, "binary graph", graph.raw());
    const auto json = bytes<char>(session, library.hipdnnBackendGetSerializedJsonGraph_ext, "JSON graph", graph.raw());
    const auto saved = bytes<uint8_t>(session, library.hipdnnBackendGetSerializedExecutionPlan_ext, "plan", plan.raw());
    const auto both = bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraphAndPlan_ext,
                                     "graph and plan", graph.raw(), plan.raw());
    const auto contents = [&](const std::vector<uint8_t>& blob) {
        int flags = -1;
        CLIENT_CHECK(session, hipdnnBackendGetSerializedBinaryContents_ext, blob.data(), blob.size(), &flags);
        return flags;
    };
    require(contents(binary) == HIPDNN_SERIALIZED_CONTENT_GRAPH, "the graph's bytes are something else");
    require(contents(both) == (HIPDNN_SERIALIZED_CONTENT_GRAPH | HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN),
            "the bytes of graph and plan are something else");

    const auto from_bytes = [&](const std::vector<uint8_t>& blob) {
        hipdnnBackendDescriptor_t raw = nullptr;
        CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeGraph_ext, &raw, blob.data(), blob.size());
        return Descriptor(session, raw);
    };
    const auto from_json = [&] {
        hipdnnBackendDescriptor_t raw = nullptr;
        CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeJsonGraph_ext, &raw, json.data(), json.size() - 1);
        return Descriptor(session, raw);
    };
    std::vector<Descriptor> graphs;
    graphs.push_back(from_bytes(binary));
    graphs.push_back(from_bytes(both));
    graphs.push_back(from_json());
    for (auto& read : graphs)
    {
        bind_and_finalize(session, read);
        check_read_back(session, read);
        require(bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraph_ext, "binary graph",
                               read.raw()) == binary,
                "a graph that was read back has other bytes");
        const auto engines = engines_of(choose(session, read));
        require(engines == engines_of(choose(session, graph)), "a graph that was read back has other engines");
        run(session, make_plan(session, read, engines.at(0), {}), "a graph that was read back");
    }
    for (const auto& blob : {saved, both})
    {
        hipdnnBackendDescriptor_t raw = nullptr;
        CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeExecutionPlan_ext, session.handle(), &raw, blob.data(),
                     blob.size());
        const Descriptor loaded(session, raw);
        require(loaded.numbers(HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT) ==
                    plan.numbers(HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT),
                "a loaded plan has other tensors");
        run(session, loaded, "a loaded plan");
    }
}

/* Further calls of only these frontends: files of plugins, the log's level and lines. */
void look_further(const Session& session)
{
    const hipdnnHandle_t handle = session.handle();
    size_t count = 0;
    size_t room = 0;
    CLIENT_CHECK(session, hipdnnGetLoadedEnginePluginPaths_ext, handle, &count, nullptr, &room);
    require(count == 1 && room > 1, "another number of plugins than one");
    std::string path(room, '\0');
    char* paths[] = {path.data()};
    CLIENT_CHECK(session, hipdnnGetLoadedEnginePluginPaths_ext, handle, &count, paths, &room);
    require(path.find("libhipdnn_cpu_plugin.so") != std::string::npos, "the plugin is " + path);

    hipdnnSeverity_t level = HIPDNN_SEV_OFF;
    CLIENT_CHECK(session, hipdnnBackendGetGlobalLogLevel_ext, &level);
    CLIENT_CHECK(session, hipdnnBackendSetGlobalLogLevel_ext, HIPDNN_SEV_WARN);
    std::string seen;
    const hipdnnUserLogCallback_t keep = [](hipdnnUserLogCallbackHandle_t to, hipdnnSeverity_t, const char* line) {
        *static_cast<std::string*>(to) += line;
    };
    CLIENT_CHECK(session, hipdnnSetUserLogCallback_ext, keep, HIPDNN_SEV_WARN, HIPDNN_LOG_CALLBACK_SYNC, &seen);
    CLIENT_CHECK(session, hipdnnLoggingCallback_ext, HIPDNN_SEV_WARN, "a line of the client's");
    CLIENT_CHECK(session, hipdnnSetUserLogCallback_ext, keep, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &seen);
    require(seen.find("a line of the client's") != std::string::npos, "the log's line did not come back");
    CLIENT_CHECK(session, hipdnnBackendSetGlobalLogLevel_ext, level);
}

/* The ids of the library's own policies. */
std::vector<int64_t> policies(const Session& session)
{
    size_t count = 0;
    CLIENT_CHECK(session, hipdnnGetHeuristicPolicyCount_ext, session.handle(), &count);
    std::vector<int64_t> ids;
    for (size_t i = 0; i < count; i++)
    {
        size_t lengths[4] = {};
        ids.push_back(0);
        CLIENT_CHECK(session, hipdnnGetHeuristicPolicyInfo_ext, session.handle(), i, &ids.back(), nullptr, &lengths[0],
                     nullptr, &lengths[1], nullptr, &lengths[2], nullptr, &lengths[3]);
    }
    return ids;
}

} // namespace

void run_newer_flows(const Library& library)
{
    if (library.hipdnnSetHeuristicPluginPaths_ext(0, nullptr, HIPDNN_PLUGIN_LOADING_ABSOLUTE) ==
        Result::VersionMismatch)
    {
        throw Mismatch("hipdnnSetHeuristicPluginPaths_ext");
    }
    const Session session(library);
    look_around(session);
    look_further(session);
    const Descriptor plain = make_graph(session, Between::Virtual, {});
    const auto engines = engines_of(choose(session, plain));
    require(engines.size() == 2, "another number of engines than two");
    Choice choice;
    choice.finds_first = true;
    require(engines_of(choose(session, plain, choice)) == engines, "the first plugin with engines has others");
    choice.policies = policies(session);
    require(choice.policies.size() == 4, "another number of policies than the library's own");
    require(engines_of(choose(session, plain, choice)) == engines,
            "the library's policies choose otherwise when named");

    const Descriptor graph = make_graph(session, Between::Bound, {engines[1]});
    require(engines_of(choose(session, graph)) == std::vector<int64_t>({engines[1], engines[0]}),
            "the preferred engine is not the first");
    for (const int64_t engine : engines)
    {
        const auto knobs = describe(session, plain, engine);
        Data data(1);
        execute_all(session, make_plan(session, plain, engine, knobs), data);
        data.check(true, name_of(session, engine) + " with a virtual tensor");
        const Descriptor plan = make_plan(session, graph, engine, describe(session, graph, engine));
        run(session, plan, name_of(session, engine));
        save_and_load(session, graph, plan);
    }
    autotune(session, plain, engines);
}

} // namespace client
