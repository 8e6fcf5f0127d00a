/* SPDX-License-Identifier: MIT */

/*
 * Graph bytes, saved plans and containers against the FlatBuffers library itself: the backend reads what it writes, and it reads
 * every field of what the backend writes, from descriptors or in the other layout.
 *
 * Arguments: the plugin that reads the layout of 2026, the one that reads that of November 2025.
 */

#include "backend.h"
#include "others_generated.h"

#include <HipdnnBackendFlatbufferData.h>
#include <HipdnnPointwiseMode.h>

#include <fstream>
#include <iterator>

template <typename Table>
static const Table* verified(const hipdnnBackendFlatbufferData_t& data)
{
    const auto* bytes = static_cast<const uint8_t*>(data.ptr);
    flatbuffers::Verifier verifier(bytes, data.size);
    CHECK(verifier.VerifyBuffer<Table>(nullptr));
    return flatbuffers::GetRoot<Table>(bytes);
}

/* The knobs of a configuration's engine as bytes, and settings of them as bytes. */
static void exchange_knobs(hipdnnBackendDescriptor_t config)
{
    hipdnnBackendDescriptor_t engine = nullptr;
    REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         nullptr, &engine));
    const auto expected = knobs();
    std::vector<hipdnnBackendFlatbufferData_t> bytes(expected.size() + 1);
    int64_t count = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE,
                                         HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, static_cast<int64_t>(bytes.size()),
                                         &count, bytes.data()));
    REQUIRE(count == static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); i++)
    {
        const std::unique_ptr<hipdnn::KnobT> knob(verified<hipdnn::Knob>(bytes[i])->UnPack());
        CHECK(*knob == *expected[i]);
    }

    hipdnnBackendFlatbufferData_t prediction = {nullptr, 0};
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_PREDICTION_EXT,
                                         HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &count, &prediction));
    const auto* unavailable = verified<hipdnn::EnginePrediction>(prediction);
    int64_t id = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, nullptr, &id));
    CHECK(unavailable->engine_id() == id && unavailable->kind() == 0 && unavailable->status() == 0);
    CHECK(unavailable->reason() != nullptr && unavailable->reason()->size() > 0);

    std::vector<flatbuffers::FlatBufferBuilder> builders;
    std::vector<hipdnnBackendFlatbufferData_t> chosen;
    for (const auto& setting : settings())
    {
        builders.emplace_back();
        builders.back().Finish(hipdnn::KnobSetting::Pack(builders.back(), setting.get()));
        chosen.push_back({builders.back().GetBufferPointer(), builders.back().GetSize()});
    }
    auto other = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set<hipdnnBackendDescriptor_t>(other, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, {engine});
    set(other, HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, chosen);
    finish(other);
    int64_t size = 0;
    REQUIRE_OK(
        hipdnnBackendGetAttribute(other, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1, nullptr, &size));
    CHECK(size == 456);
    CHECK_OK(hipdnnBackendDestroyDescriptor(other));
    CHECK_OK(hipdnnBackendDestroyDescriptor(engine));
}

/* The number of engines that apply to a graph. Each is carried as far as its configuration. */
static int64_t engines(hipdnnBackendDescriptor_t graph, hipdnnHandle_t handle)
{
    set<hipdnnHandle_t>(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, {handle});
    finish(graph);
    auto heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set<hipdnnBackendDescriptor_t>(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                   {graph});
    set<hipdnnBackendHeurMode_t>(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE,
                                 {HIPDNN_HEUR_MODE_FALLBACK});
    finish(heuristic);
    int64_t count = -1;
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                         &count, nullptr));
    if (count == 0)
    {
        char reason[2048];
        hipdnnPeekLastErrorString_ext(reason, sizeof reason);
        printf("%s\n", reason);
    }
    for (int64_t i = 0; i < count; i++)
    {
        std::vector<hipdnnBackendDescriptor_t> configs;
        for (int64_t j = 0; j < count; j++)
        {
            configs.push_back(make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR));
        }
        int64_t filled = 0;
        REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             count, &filled, configs.data()));
        CHECK(filled == count);
        for (auto config : configs)
        {
            int64_t size = 0;
            finish(config);
            REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1,
                                                 nullptr, &size));
            CHECK(size == 123);
            exchange_knobs(config);
            CHECK_OK(hipdnnBackendDestroyDescriptor(config));
        }
    }
    CHECK_OK(hipdnnBackendDestroyDescriptor(heuristic));
    CHECK_OK(hipdnnBackendDestroyDescriptor(graph));
    return count;
}

static hipdnnBackendDescriptor_t make_tensor(const hipdnn::TensorAttributesT& tensor)
{
    auto descriptor = make(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    const auto type = tensor.data_type == hipdnn::DataType::HALF ? HIPDNN_DATA_HALF : HIPDNN_DATA_FLOAT;
    set<int64_t>(descriptor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, {tensor.uid});
    set_text(descriptor, HIPDNN_ATTR_TENSOR_NAME_EXT, tensor.name);
    set<hipdnnDataType_t>(descriptor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, {type});
    set(descriptor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, tensor.dims);
    set(descriptor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, tensor.strides);
    set<uint8_t>(descriptor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL, HIPDNN_TYPE_BOOLEAN, {tensor.virtual_});
    if (const auto* value = tensor.value.AsFloat32Value())
    {
        const float number = value->value();
        REQUIRE_OK(hipdnnBackendSetAttribute(descriptor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, sizeof number,
                                             &number));
    }
    return finish(descriptor);
}

static void link(hipdnnBackendDescriptor_t operation, hipdnnBackendAttributeName_t name,
                 hipdnnBackendDescriptor_t tensor)
{
    set<hipdnnBackendDescriptor_t>(operation, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, {tensor});
}

static hipdnnBackendDescriptor_t from_descriptors()
{
    const std::vector<hipdnnDataType_t> floats = {HIPDNN_DATA_FLOAT};
    std::vector<hipdnnBackendDescriptor_t> t;
    for (const auto& tensor : tensors())
    {
        t.push_back(make_tensor(*tensor));
    }
    const auto c = convolution();
    auto conv = make(HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    link(conv, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, t[0]);
    link(conv, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, t[1]);
    link(conv, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, t[2]);
    set(conv, HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, HIPDNN_TYPE_INT64, c.pre_padding);
    set(conv, HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, HIPDNN_TYPE_INT64, c.post_padding);
    set(conv, HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, HIPDNN_TYPE_INT64, c.stride);
    set(conv, HIPDNN_ATTR_CONVOLUTION_DILATIONS, HIPDNN_TYPE_INT64, c.dilation);
    set<hipdnnConvolutionMode_t>(conv, HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE,
                                 {HIPDNN_CROSS_CORRELATION});
    set(conv, HIPDNN_ATTR_CONVOLUTION_COMP_TYPE, HIPDNN_TYPE_DATA_TYPE, floats);
    set_text(conv, HIPDNN_ATTR_OPERATION_NAME_EXT, "conv");

    auto add = make(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link(add, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, t[2]);
    link(add, HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, t[3]);
    link(add, HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT, t[4]);
    set<hipdnnPointwiseMode_t>(add, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE,
                               {HIPDNN_POINTWISE_MODE_ADD});
    set(add, HIPDNN_ATTR_POINTWISE_MATH_PREC, HIPDNN_TYPE_DATA_TYPE, floats);
    set_text(add, HIPDNN_ATTR_OPERATION_NAME_EXT, "add");

    auto relu = make(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link(relu, HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, t[3]);
    link(relu, HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, t[5]);
    set<hipdnnPointwiseMode_t>(relu, HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE,
                               {HIPDNN_POINTWISE_MODE_RELU_FWD});
    set<float>(relu, HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, HIPDNN_TYPE_FLOAT, {0.0F});
    set<float>(relu, HIPDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, HIPDNN_TYPE_FLOAT, {6.0F});
    set(relu, HIPDNN_ATTR_POINTWISE_MATH_PREC, HIPDNN_TYPE_DATA_TYPE, floats);
    set_text(relu, HIPDNN_ATTR_OPERATION_NAME_EXT, "relu");

    auto graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set<hipdnnBackendDescriptor_t>(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                   {finish(conv), finish(add), finish(relu)});
    set(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT, HIPDNN_TYPE_DATA_TYPE, floats);
    set(graph, HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT, HIPDNN_TYPE_DATA_TYPE, floats);
    set<hipdnnDataType_t>(graph, HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT, HIPDNN_TYPE_DATA_TYPE,
                          {HIPDNN_DATA_HALF});
    set_text(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, "fused");
    /* The graph shares what it needs of them. */
    for (auto descriptor : {conv, add, relu, t[0], t[1], t[2], t[3], t[4], t[5]})
    {
        CHECK_OK(hipdnnBackendDestroyDescriptor(descriptor));
    }
    return graph;
}

/* Bytes from the backend in two calls. */
template <typename Get>
static std::vector<uint8_t> fetch(Get get)
{
    size_t size = 0;
    REQUIRE_OK(get(0, &size, nullptr));
    std::vector<uint8_t> bytes(size);
    REQUIRE_OK(get(size, &size, bytes.data()));
    CHECK(size == bytes.size());
    return bytes;
}

/* A plan of the graph by the first engine that applies. */
static hipdnnBackendDescriptor_t plan_of(hipdnnBackendDescriptor_t graph, hipdnnHandle_t handle)
{
    set<hipdnnHandle_t>(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, {handle});
    finish(graph);
    auto heuristic = make(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set<hipdnnBackendDescriptor_t>(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                   {graph});
    set<hipdnnBackendHeurMode_t>(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE,
                                 {HIPDNN_HEUR_MODE_FALLBACK});
    finish(heuristic);
    auto config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t filled = 0;
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &filled, &config));
    auto plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set<hipdnnBackendDescriptor_t>(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                   {finish(config)});
    CHECK_OK(hipdnnBackendDestroyDescriptor(heuristic));
    CHECK_OK(hipdnnBackendDestroyDescriptor(config));
    return finish(plan);
}

static int64_t number_of(hipdnnBackendDescriptor_t plan, hipdnnBackendAttributeName_t name)
{
    int64_t number = -1;
    CHECK_OK(hipdnnBackendGetAttribute(plan, name, HIPDNN_TYPE_INT64, 1, nullptr, &number));
    return number;
}

/* The six fields that every library writes. */
template <typename Plan>
static void check_plan(const Plan& saved, int64_t engine)
{
    CHECK(saved.version == 1);
    CHECK(saved.engine_id == engine);
    CHECK(saved.workspace_size == 123);
    const std::vector<int64_t> uids = {11, -2, 13, 14, 0, INT64_C(1) << 40};
    CHECK(saved.tensor_uids == uids);
    CHECK(saved.plugin_payload == saved_payload());
    CHECK(!saved.is_override_shape_enabled);
}

/* Reads bytes by the schema of another library. */
template <typename Table, typename Check>
static void check_others(const std::vector<uint8_t>& bytes, const char* identifier, Check check)
{
    flatbuffers::Verifier verifier(bytes.data(), bytes.size());
    REQUIRE(verifier.VerifyBuffer<Table>(identifier));
    typename Table::NativeTableType content;
    flatbuffers::GetRoot<Table>(bytes.data())->UnPackTo(&content);
    check(content);
}

/* What the backend saves is a well-formed buffer to the FlatBuffers library, which finds every field where the schema says. */
static void test_saved(hipdnnHandle_t handle)
{
    auto graph = from_bytes<hipdnn::Graph>(fused_g2());
    auto plan = plan_of(graph, handle);
    const int64_t engine = number_of(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT);
    const auto bytes = fetch([&](size_t room, size_t* size, uint8_t* to) {
        return hipdnnBackendGetSerializedExecutionPlan_ext(plan, room, size, to);
    });
    flatbuffers::Verifier verifier(bytes.data(), bytes.size());
    REQUIRE(verifier.VerifyBuffer<hipdnn::SerializedExecutionPlan>(nullptr));
    hipdnn::SerializedExecutionPlanT saved;
    flatbuffers::GetRoot<hipdnn::SerializedExecutionPlan>(bytes.data())->UnPackTo(&saved);
    check_plan(saved, engine);
    CHECK(!saved.plugin_name.empty() && !saved.plugin_version.empty() && !saved.device.empty());
    CHECK(saved.tensor_alignments == std::vector<int64_t>(6, 16));
    CHECK(saved.checksum != 0);
    check_others<others::SerializedExecutionPlan>(bytes, nullptr,
                                                  [&](const auto& theirs) { check_plan(theirs, engine); });
    check_others<others::LaterExecutionPlan>(bytes, nullptr, [&](const auto& theirs) {
        check_plan(theirs, engine);
        CHECK(theirs.tensor_alignments.empty() && theirs.engine_name.empty());
    });

    const auto both = fetch([&](size_t room, size_t* size, uint8_t* to) {
        return hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, room, size, to);
    });
    CHECK(flatbuffers::BufferHasIdentifier(both.data(), "HDGP"));
    flatbuffers::Verifier outer(both.data(), both.size());
    REQUIRE(outer.VerifyBuffer<hipdnn::SerializedGraphAndPlan>("HDGP"));
    hipdnn::SerializedGraphAndPlanT container;
    flatbuffers::GetRoot<hipdnn::SerializedGraphAndPlan>(both.data())->UnPackTo(&container);
    CHECK(container.plan_blob == bytes);
    flatbuffers::Verifier inner(container.graph_blob.data(), container.graph_blob.size());
    REQUIRE(inner.VerifyBuffer<hipdnn::Graph>(nullptr));
    hipdnn::GraphT content;
    flatbuffers::GetRoot<hipdnn::Graph>(container.graph_blob.data())->UnPackTo(&content);
    CHECK(content == fused_g2());
    CHECK(container.checksum != 0);
    const auto check_parts = [&](const auto& theirs) {
        CHECK(theirs.graph_blob == container.graph_blob && theirs.plan_blob == bytes);
    };
    check_others<others::SerializedGraphAndPlan>(both, "HDGP", check_parts);
    check_others<others::LaterGraphAndPlan>(both, "HDGP", check_parts);

    CHECK_OK(hipdnnBackendDestroyDescriptor(plan));
    CHECK_OK(hipdnnBackendDestroyDescriptor(graph));
}

template <typename Table>
static std::vector<uint8_t> packed(const typename Table::NativeTableType& content, const char* identifier)
{
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Table::Pack(builder, &content), identifier);
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

/* Plans of other libraries are loaded, including appended fields. */
template <typename Plan, typename Container>
static void test_foreign(hipdnnHandle_t handle, void (*append)(typename Plan::NativeTableType&))
{
    size_t engines = 0;
    int64_t engine = 0;
    REQUIRE_OK(hipdnnGetEngineCount_ext(handle, &engines));
    REQUIRE(engines == 2);
    size_t lengths[4] = {0, 0, 0, 0};
    REQUIRE_OK(hipdnnGetEngineInfo_ext(handle, 0, &engine, nullptr, &lengths[0], nullptr, &lengths[1], nullptr,
                                       &lengths[2], nullptr, &lengths[3]));
    for (const bool overrides : {false, true})
    {
        typename Plan::NativeTableType content;
        content.version = 1;
        content.engine_id = engine;
        content.workspace_size = 99;
        content.tensor_uids = {5, -6};
        content.plugin_payload = saved_payload();
        content.is_override_shape_enabled = overrides;
        append(content);
        const auto plan_bytes = packed<Plan>(content, nullptr);
        typename Container::NativeTableType parts;
        parts.graph_blob = packed<hipdnn::Graph>(fused_g2(), nullptr);
        parts.plan_blob = plan_bytes;
        const auto both = packed<Container>(parts, "HDGP");
        int flags = 0;
        CHECK_OK(hipdnnBackendGetSerializedBinaryContents_ext(both.data(), both.size(), &flags));
        CHECK(flags == (HIPDNN_SERIALIZED_CONTENT_GRAPH | HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN));
        for (const auto& bytes : {plan_bytes, both})
        {
            hipdnnBackendDescriptor_t plan = nullptr;
            REQUIRE_OK(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &plan, bytes.data(), bytes.size()));
            bool enabled = !overrides;
            CHECK_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT,
                                               HIPDNN_TYPE_BOOLEAN, 1, nullptr, &enabled));
            CHECK(enabled == overrides);
            CHECK(number_of(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT) == engine);
            int64_t uids[3] = {0, 0, 0};
            int64_t count = 0;
            CHECK_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_TYPE_INT64, 3,
                                               &count, uids));
            CHECK(count == 2 && uids[0] == 5 && uids[1] == -6);
            CHECK_OK(hipdnnBackendDestroyDescriptor(plan));
        }
        hipdnnBackendDescriptor_t graph = nullptr;
        REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&graph, both.data(), both.size()));
        CHECK_OK(hipdnnBackendDestroyDescriptor(graph));
    }
}

/* The SDK's own tests read this file too, which this library wrote. */
static void test_device()
{
    const std::string source = __FILE__;
    std::ifstream file(source.substr(0, source.rfind('/')) + "/../golden/device_1.bin", std::ios::binary);
    const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    flatbuffers::Verifier verifier(bytes.data(), bytes.size());
    REQUIRE(verifier.VerifyBuffer<hipdnn::DeviceProperties>("HDDP"));
    hipdnn::DevicePropertiesT device;
    flatbuffers::GetRoot<hipdnn::DeviceProperties>(bytes.data())->UnPackTo(&device);
    CHECK(device.device_id == 3 && device.multi_processor_count == 304);
    CHECK(device.total_global_mem == UINT64_C(206141652992));
    CHECK(device.architecture_name == "gfx942:sramecc+:xnack-");
}

int main(int count, char** arguments)
{
    REQUIRE(count == 4);
    const char* plugins[] = {arguments[1], arguments[2]};
    /* The only policy decides if it can read its inputs; otherwise no engine is chosen. */
    const char* policy[] = {arguments[3]};
    REQUIRE(setenv("HIPDNN_HEUR_POLICY_ORDER", "Wire::Check", 1) == 0);
    REQUIRE_OK(hipdnnSetHeuristicPluginPaths_ext(1, policy, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(2, plugins, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    hipdnnHandle_t handle = nullptr;
    REQUIRE_OK(hipdnnCreate(&handle));

    CHECK(engines(from_bytes<hipdnn::Graph>(fused_g2()), handle) == 2);
    CHECK(engines(from_bytes<hipdnn::GraphG1>(fused_g1()), handle) == 2);
    CHECK(engines(from_descriptors(), handle) == 2);

    /* A graph that the older layout cannot express is not offered to its plugin, and the other plugin expects another graph. */
    auto aligned = fused_g2();
    aligned.tensors.front()->alignment = 64;
    CHECK(engines(from_bytes<hipdnn::Graph>(aligned), handle) == 0);

    test_device();
    test_saved(handle);
    test_foreign<others::SerializedExecutionPlan, others::SerializedGraphAndPlan>(handle, [](auto&) {});
    test_foreign<others::LaterExecutionPlan, others::LaterGraphAndPlan>(handle, [](auto& plan) {
        plan.tensor_alignments = {16, 64};
        plan.engine_name = "an engine";
    });

    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
