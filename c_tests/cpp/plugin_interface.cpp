/* A host for the example plugin in C++, in the same program: graphs of both generations, knobs, saved plans, and bytes damaged at
 * every position. */

#include "../../examples_c/plugin/conv_bias_plugin.cpp"

#include <algorithm>
#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

#define CALL(call) CHECK((call) == HIPDNN_PLUGIN_STATUS_SUCCESS)

static hipdnnEnginePluginHandle_t handle;
static std::string logged;
static void keep(hipdnnSeverity_t, const char* line) { logged = line; }

static std::string last_error()
{
    const char* text = nullptr;
    hipdnnPluginGetLastErrorString(&text);
    return text;
}

static hipdnnPluginConstData_t data_of(const std::vector<uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

/* A graph as our library writes it. */
static std::vector<uint8_t> graph_of_2026(int64_t channels, bool overrides)
{
    const auto tensor = [](int64_t uid, const hipdnn::Dims& dims) {
        return hipdnn::Graph::tensor(
            hipdnn::Tensor().set_uid(uid).set_dim(dims).set_stride(hipdnn::packed_strides(dims)));
    };
    hipdnn::Graph graph;
    graph.set_io_data_type(hipdnn::DataType::FLOAT).set_intermediate_data_type(hipdnn::DataType::FLOAT);
    graph.set_compute_data_type(hipdnn::DataType::FLOAT).set_override_shape_enabled(overrides).set_name("convolution");
    auto y =
        graph.conv_fprop(tensor(1, {1, 2, 4, 4}), tensor(2, {channels, 2, 3, 3}),
                         hipdnn::ConvFpropAttributes().set_padding({1, 1}).set_stride({2, 2}).set_dilation({1, 1}));
    y->set_uid(5);
    auto z = graph.pointwise(y, tensor(3, {1, channels, 1, 1}),
                             hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::ADD));
    z->set_uid(4).set_output(true);
    std::vector<uint8_t> bytes;
    CHECK_GOOD(graph.serialize(bytes));
    return bytes;
}

/* The same graph as programs of 2025 wrote it: a node has its operation behind its name. */
static std::vector<uint8_t> graph_of_2025()
{
    detail::Writer writer;
    const size_t root = writer.table(6, 63);
    writer.link_table(0, root);
    writer.text(root, "convolution");
    for (size_t i = 1; i < 4; i++)
    {
        writer.put(root + 8 * i, uint8_t{1});
    }
    const std::vector<int64_t> dims[] = {{1, 2, 4, 4}, {3, 2, 3, 3}, {1, 3, 1, 1}, {1, 3, 2, 2}, {1, 3, 2, 2}};
    const size_t tensors = writer.numbers(root + 32, std::vector<uint32_t>(5));
    for (size_t i = 0; i < 5; i++)
    {
        const size_t at = writer.table(6, 63);
        writer.link_table(tensors + 4 * i, at);
        writer.put(at, static_cast<int64_t>(i + 1));
        writer.text(at + 8, "t");
        writer.put(at + 16, uint8_t{1});
        writer.numbers(at + 24, hipdnn::packed_strides(dims[i]));
        writer.numbers(at + 32, dims[i]);
        writer.put(at + 40, static_cast<uint8_t>(i == 4));
    }
    const size_t nodes = writer.numbers(root + 40, std::vector<uint32_t>(2));
    for (size_t i = 0; i < 2; i++)
    {
        const size_t node = writer.table(3, 7);
        writer.link_table(nodes + 4 * i, node);
        writer.text(node, "node");
        writer.put(node + 8, static_cast<uint8_t>(i == 0 ? Kind::ConvolutionFwd : Kind::Pointwise));
        const size_t fields = i == 0 ? writer.table(8, 255) : writer.table(9, 353);
        writer.link_table(node + 16, fields);
        if (i == 0)
        {
            const int64_t uids[] = {1, 2, 5};
            for (size_t at = 0; at < 3; at++)
            {
                writer.put(fields + 8 * at, uids[at]);
            }
            const std::vector<int64_t> lists[] = {{1, 1}, {1, 1}, {2, 2}, {1, 1}};
            for (size_t at = 0; at < 4; at++)
            {
                writer.numbers(fields + 24 + 8 * at, lists[at]);
            }
            writer.put(fields + 56, static_cast<uint8_t>(CONV_CROSS_CORRELATION));
            continue;
        }
        writer.put(fields, static_cast<uint8_t>(POINTWISE_ADD));
        writer.put(fields + 40, int64_t{5});
        writer.put(fields + 48, int64_t{3});
        writer.put(fields + 64, int64_t{4});
    }
    return writer.bytes;
}

/* The bytes of an EngineConfig, with a knob where it has a name. */
static std::vector<uint8_t> config(int64_t engine, const std::string& knob, const KnobValue& value)
{
    detail::Writer writer;
    const size_t root = writer.table(2, 3);
    writer.link_table(0, root);
    writer.put(root, engine);
    const size_t list = writer.numbers(root + 8, std::vector<uint32_t>(knob.empty() ? 0 : 1));
    if (!knob.empty())
    {
        const size_t one = writer.table(3, 7);
        writer.link_table(list, one);
        writer.text(one, knob);
        detail::write_value(writer, one + 8, one + 16, value);
    }
    return writer.bytes;
}

static uint32_t applicable(const std::vector<uint8_t>& bytes)
{
    const hipdnnPluginConstData_t graph = data_of(bytes);
    int64_t ids[4];
    uint32_t count = 99;
    CALL(hipdnnEnginePluginGetApplicableEngineIds(handle, &graph, ids, 4, &count));
    return count;
}

static std::vector<float> execute(hipdnnEnginePluginExecutionContext_t context)
{
    auto x = numbers(32), w = numbers(54, 2), b = numbers(3, 3);
    std::vector<float> y(12, -9.0F);
    const hipdnnPluginDeviceBuffer_t buffers[] = {{1, x.data()}, {2, w.data()}, {3, b.data()}, {4, y.data()}};
    CALL(hipdnnEnginePluginExecuteOpGraph(handle, context, nullptr, buffers, 4));
    CHECK(hipdnnEnginePluginExecuteOpGraph(handle, context, nullptr, buffers, 3) == HIPDNN_PLUGIN_STATUS_BAD_PARAM);
    CHECK(last_error() == "tensor 4 has no memory");
    return y;
}

static std::vector<float> expected()
{
    auto x = numbers(32), w = numbers(54, 2), b = numbers(3, 3);
    std::vector<float> y;
    for (int k = 0; k < 3; k++)
    {
        for (int at = 0; at < 4; at++)
        {
            float sum = b[static_cast<size_t>(k)];
            for (int tap = 0; tap < 18; tap++)
            {
                const int row = at / 2 * 2 + tap / 3 % 3 - 1, column = at % 2 * 2 + tap % 3 - 1;
                const bool inside = row >= 0 && row < 4 && column >= 0 && column < 4;
                sum += inside ? x[static_cast<size_t>((tap / 9 * 4 + row) * 4 + column)] *
                                    w[static_cast<size_t>(k * 18 + tap)]
                              : 0.0F;
            }
            y.push_back(sum);
        }
    }
    return y;
}

/* Plans, executes, saves, loads and executes a graph. */
static void whole_life(const std::vector<uint8_t>& bytes, int64_t engine)
{
    CHECK(applicable(bytes) == 1);
    const hipdnnPluginConstData_t graph = data_of(bytes);
    for (const int64_t reversed : {0, 1})
    {
        const auto chosen = config(engine, "reversed", reversed);
        const hipdnnPluginConstData_t configuration = data_of(chosen);
        hipdnnEnginePluginExecutionContext_t context = nullptr, loaded = nullptr;
        size_t size = 1;
        CALL(hipdnnEnginePluginGetWorkspaceSize(handle, &configuration, &graph, &size));
        CHECK(size == 0);
        CALL(hipdnnEnginePluginCreateExecutionContext(handle, &configuration, &graph, &context));
        CHECK(close(execute(context), expected()));
        hipdnnPluginConstData_t saved{};
        CALL(hipdnnEnginePluginSerializeExecutionContextWithEngineId(handle, engine, context, &saved));
        CALL(hipdnnEnginePluginCreateExecutionContextFromSerialized(handle, &saved, &loaded));
        CHECK(close(execute(loaded), expected()));
        std::vector<uint8_t> copy(static_cast<const uint8_t*>(saved.ptr),
                                  static_cast<const uint8_t*>(saved.ptr) + saved.size);
        CALL(hipdnnEnginePluginDestroySerializedExecutionContext(handle, &saved));
        CHECK(saved.ptr == nullptr && saved.size == 0);
        for (size_t length = 0; length < copy.size(); length++)
        {
            const hipdnnPluginConstData_t cut = {copy.data(), length};
            CHECK(hipdnnEnginePluginCreateExecutionContextFromSerialized(handle, &cut, &loaded) !=
                  HIPDNN_PLUGIN_STATUS_SUCCESS);
        }
        /* The version, and every size; the others are the knob and the uids. */
        const std::vector<size_t> free = {1, 2, 7, 12, 17};
        for (size_t field = 0; field < sizeof(Convolution) / 8; field++)
        {
            if (std::find(free.begin(), free.end(), field) != free.end())
            {
                continue;
            }
            std::vector<uint8_t> wrong = copy;
            wrong[8 + 8 * field] ^= 0x80;
            wrong[8 + 8 * field + 6] = 0xff;
            const hipdnnPluginConstData_t damaged = data_of(wrong);
            CHECK(hipdnnEnginePluginCreateExecutionContextFromSerialized(handle, &damaged, &loaded) ==
                  HIPDNN_PLUGIN_STATUS_INVALID_VALUE);
            CHECK(last_error() == "EXAMPLE_CPP_CONV_BIAS_ENGINE: the bytes are no plan of this engine");
        }
        CALL(hipdnnEnginePluginDestroyExecutionContext(handle, context));
        CALL(hipdnnEnginePluginDestroyExecutionContext(handle, loaded));
    }
}

static void knobs(const std::vector<uint8_t>& bytes, int64_t engine)
{
    const hipdnnPluginConstData_t graph = data_of(bytes);
    const auto plan_with = [&](const std::string& name, const KnobValue& value) {
        const auto chosen = config(engine, name, value);
        const hipdnnPluginConstData_t configuration = data_of(chosen);
        hipdnnEnginePluginExecutionContext_t context = nullptr;
        const hipdnnPluginStatus_t status =
            hipdnnEnginePluginCreateExecutionContext(handle, &configuration, &graph, &context);
        if (status == HIPDNN_PLUGIN_STATUS_SUCCESS)
        {
            CALL(hipdnnEnginePluginDestroyExecutionContext(handle, context));
        }
        return status;
    };
    CHECK(plan_with("", int64_t{0}) == HIPDNN_PLUGIN_STATUS_SUCCESS);
    CHECK(plan_with("other", int64_t{7}) == HIPDNN_PLUGIN_STATUS_SUCCESS && logged.find("other") != std::string::npos);
    CHECK(plan_with("reversed", int64_t{2}) == HIPDNN_PLUGIN_STATUS_INVALID_VALUE &&
          last_error().find("knob reversed: the value is 2") == 0);
    CHECK(plan_with("reversed", std::string("1")) == HIPDNN_PLUGIN_STATUS_INVALID_VALUE);
    hipdnnPluginConstData_t details{};
    CALL(hipdnnEnginePluginGetEngineDetails(handle, engine, &graph, &details));
    const detail::Table root = detail::Table::root({static_cast<const uint8_t*>(details.ptr), details.size});
    CHECK(root.number<int64_t>(0, 0) == engine && root.text(3) == "EXAMPLE_CPP_CONV_BIAS_ENGINE" &&
          root.tables(1)[0].text(0) == "reversed");
    CALL(hipdnnEnginePluginDestroyEngineDetails(handle, &details));
    CHECK(hipdnnEnginePluginGetEngineDetails(handle, 5, &graph, &details) == HIPDNN_PLUGIN_STATUS_BAD_PARAM);
    CHECK(last_error() == "engine 5 is unknown to this plugin");
}

/* What the engine does to numbers, and what one could tell. */
static void numerics(const std::vector<uint8_t>& bytes, int64_t engine)
{
    const hipdnnPluginConstData_t graph = data_of(bytes);
    const auto chosen = config(engine, "reversed", int64_t{1}), wrong = config(engine, "reversed", int64_t{2});
    const hipdnnPluginConstData_t configuration = data_of(chosen), refused = data_of(wrong);
    size_t size = 0;
    CALL(hipdnnEnginePluginDescribeNumerics_ext(handle, &configuration, &graph, 0, &size, nullptr));
    std::string text(size, 'x');
    CALL(hipdnnEnginePluginDescribeNumerics_ext(handle, &configuration, &graph, size, &size, &text[0]));
    CHECK(text == std::string("{\"knobs\":[],\"numerics\":{\"accumulators\":[\"float\"]}}") + '\0');
    CHECK(hipdnnEnginePluginDescribeNumerics_ext(handle, &configuration, &graph, size - 1, &size, &text[0]) ==
          HIPDNN_PLUGIN_STATUS_BAD_PARAM);
    CHECK(last_error() == "json has room for " + std::to_string(size - 1) + " bytes, expected " + std::to_string(size));
    CHECK(hipdnnEnginePluginDescribeNumerics_ext(handle, &refused, &graph, 0, &size, nullptr) ==
          HIPDNN_PLUGIN_STATUS_INVALID_VALUE);
    CHECK(hipdnnEnginePluginDescribeNumerics_ext(handle, &configuration, &graph, 0, nullptr, nullptr) ==
          HIPDNN_PLUGIN_STATUS_BAD_PARAM);
    Numerics all;
    all.notes = {"WINOGRAD", "SPLIT_SUMS"};
    all.accumulators = {"half"};
    all.order = {"shapes", "threads"};
    all.functions = {{"exp", 2}, {"tanh", std::nullopt}};
    all.parts = 8;
    all.matrix_sums = MatrixSums{32, 14};
    all.unrounded = {7, 9};
    all.knobs = {{"WINOGRAD", "a \"quoted\" one", 0, false}, {"SPLIT_SUMS", "parts", 4, true}};
    CHECK(detail::write_numerics(all) ==
          R"({"knobs":[{"adds":false,"knob":"a \"quoted\" one","note":"WINOGRAD","value":0},)"
          R"({"adds":true,"knob":"parts","note":"SPLIT_SUMS","value":4}],"numerics":{"accumulators":["half"],)"
          R"("functions":{"exp":2,"tanh":null},"matrix_sums":{"bits":14,"terms":32},)"
          R"("notes":["WINOGRAD","SPLIT_SUMS"],"order":["shapes","threads"],"parts":8,"unrounded":[7,9]}})");
}

/* A truncated or changed graph is refused or read as another one, without reads out of bounds. */
static void hostile(const std::vector<uint8_t>& bytes, int64_t engine)
{
    const auto chosen = config(engine, "", int64_t{0});
    const hipdnnPluginConstData_t configuration = data_of(chosen);
    const auto offer = [&](const std::vector<uint8_t>& changed) {
        /* A copy of exactly its size, so that sanitizers detect reads beyond. */
        const std::unique_ptr<uint8_t[]> exact(new uint8_t[changed.size()]);
        std::copy(changed.begin(), changed.end(), exact.get());
        const hipdnnPluginConstData_t graph = {exact.get(), changed.size()};
        int64_t ids[4];
        uint32_t count = 0;
        const hipdnnPluginStatus_t status = hipdnnEnginePluginGetApplicableEngineIds(handle, &graph, ids, 4, &count);
        hipdnnEnginePluginExecutionContext_t context = nullptr;
        if (hipdnnEnginePluginCreateExecutionContext(handle, &configuration, &graph, &context) ==
            HIPDNN_PLUGIN_STATUS_SUCCESS)
        {
            CALL(hipdnnEnginePluginDestroyExecutionContext(handle, context));
        }
        return status;
    };
    size_t refused = 0;
    for (size_t length = 0; length < bytes.size(); length++)
    {
        refused +=
            offer({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}) == HIPDNN_PLUGIN_STATUS_SUCCESS
                ? 0
                : 1;
    }
    CHECK(refused > bytes.size() / 2);
    for (size_t at = 0; at < bytes.size(); at++)
    {
        for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff})
        {
            std::vector<uint8_t> changed = bytes;
            changed[at] = static_cast<uint8_t>(value);
            static_cast<void>(offer(changed));
        }
    }
    CHECK(offer({}) == HIPDNN_PLUGIN_STATUS_INVALID_VALUE);
    int64_t ids[4];
    uint32_t count = 0;
    CHECK(hipdnnEnginePluginGetApplicableEngineIds(handle, nullptr, ids, 4, &count) == HIPDNN_PLUGIN_STATUS_BAD_PARAM);
    CHECK(last_error() == "op_graph is null");
}

int main()
{
    const char* text = nullptr;
    CALL(hipdnnPluginGetName(&text));
    CHECK(std::string(text) == "Example in C++");
    int64_t engine = 0;
    uint32_t count = 0;
    CALL(hipdnnEnginePluginGetAllEngineIds(nullptr, 0, &count));
    CHECK(count == 1);
    CALL(hipdnnEnginePluginGetAllEngineIds(&engine, 1, &count));
    CHECK(engine == hipdnn::engine_name_to_id("EXAMPLE_CPP_CONV_BIAS_ENGINE"));
    CALL(hipdnnPluginSetLoggingCallback(keep));
    CALL(hipdnnEnginePluginCreate(&handle));
    const auto newer = graph_of_2026(3, false), older = graph_of_2025();
    whole_life(newer, engine);
    whole_life(older, engine);
    const Graph read = Graph::read(older.data(), older.size());
    CHECK(read.nodes[0].compute_type == DataType::UNSET &&
          Graph::read(newer.data(), newer.size()).nodes[0].compute_type == DataType::FLOAT);
    CHECK(applicable(graph_of_2026(3, true)) == 0 &&
          logged == "EXAMPLE_CPP_CONV_BIAS_ENGINE: shapes may be replaced at execution");
    knobs(newer, engine);
    numerics(newer, engine);
    hostile(newer, engine);
    hostile(older, engine);
    CALL(hipdnnEnginePluginDestroy(handle));
    std::puts("right");
}
