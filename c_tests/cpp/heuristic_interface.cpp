/* A heuristic plugin made with hipdnn_heuristic_plugin.hpp, and its host in one program. */

#include <hipdnn/plugin/hipdnn_heuristic_plugin.hpp>

#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

using namespace hipdnn_plugin;

/* Reverses the order for a matmul; returns an unknown engine for graphs named "wrong", throws for "thrown". */
struct Backwards : Policy
{
    const char* name() const override { return "Example::Backwards"; }
    std::optional<std::vector<int64_t>> order(const Graph& graph, const std::vector<int64_t>& engines,
                                              const Device& device) const override
    {
        if (graph.name == "thrown")
        {
            throw 1;
        }
        if (graph.name == "wrong")
        {
            return std::vector<int64_t>{device.multi_processor_count};
        }
        if (graph.nodes[0].kind != Kind::Matmul)
        {
            return std::nullopt;
        }
        return std::vector<int64_t>(engines.rbegin(), engines.rend());
    }
};

struct Manager : PolicyManager
{
    std::vector<std::unique_ptr<Policy>> list;
    Manager() { list.push_back(std::make_unique<Backwards>()); }
    const char* name() const override { return "Example"; }
    const char* version() const override { return "1.0.0"; }
    const std::vector<std::unique_ptr<Policy>>& policies() const override { return list; }
};

HIPDNN_EXPORT_HEURISTIC_PLUGIN(Manager);

#define CALL(call) CHECK((call) == HIPDNN_PLUGIN_STATUS_SUCCESS)

static std::vector<uint8_t> graph_of(const std::string& name, bool matmul)
{
    hipdnn::Graph graph;
    graph.set_name(name).set_io_data_type(hipdnn::DataType::FLOAT).set_compute_data_type(hipdnn::DataType::FLOAT);
    auto a = graph.tensor(hipdnn::Tensor().set_dim({2, 2}).set_stride({2, 1})), b = graph.tensor_like(a);
    auto c = matmul ? graph.matmul(a, b, hipdnn::MatmulAttributes())
                    : graph.pointwise(a, b, hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::ADD));
    c->set_output(true);
    std::vector<uint8_t> bytes;
    CHECK_GOOD(graph.serialize(bytes));
    return bytes;
}

int main()
{
    int64_t id = 0;
    uint32_t count = 0;
    CALL(hipdnnHeuristicPluginGetAllPolicyIds(nullptr, 0, &count));
    CHECK(count == 1);
    CALL(hipdnnHeuristicPluginGetAllPolicyIds(&id, 1, &count));
    CHECK(id == engine_id("Example::Backwards"));
    hipdnnHeuristicHandle_t handle = nullptr;
    CALL(hipdnnHeuristicHandleCreate(&handle));
    detail::Writer writer;
    const size_t root = writer.table(4, 15);
    writer.link_table(0, root);
    writer.put(root + 8, int32_t{7});
    writer.text(root + 24, "gfx942");
    const hipdnnPluginConstData_t device = {writer.bytes.data(), writer.bytes.size()};
    CALL(hipdnnHeuristicHandleSetDeviceProperties(handle, &device));
    CHECK(handle->device.multi_processor_count == 7 && handle->device.architecture == "gfx942");

    const auto choose = [&](const std::vector<uint8_t>& bytes, std::vector<int64_t>& sorted, int32_t& applied) {
        hipdnnHeuristicPolicyDescriptor_t choice = nullptr;
        CALL(hipdnnHeuristicPolicyDescriptorCreate(handle, id, &choice));
        CHECK(hipdnnHeuristicPolicyFinalize(choice, &applied) == HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED);
        const int64_t engines[] = {10, 20, 30};
        CALL(hipdnnHeuristicPolicySetEngineIds(choice, engines, 3));
        const hipdnnPluginConstData_t cut = {bytes.data(), bytes.size() / 2}, graph = {bytes.data(), bytes.size()};
        CHECK(hipdnnHeuristicPolicySetSerializedGraph(choice, &cut) == HIPDNN_PLUGIN_STATUS_INVALID_VALUE);
        CALL(hipdnnHeuristicPolicySetSerializedGraph(choice, &graph));
        const hipdnnPluginStatus_t status = hipdnnHeuristicPolicyFinalize(choice, &applied);
        if (status == HIPDNN_PLUGIN_STATUS_SUCCESS)
        {
            size_t many = 0;
            CALL(hipdnnHeuristicPolicyGetSortedEngineIds(choice, nullptr, &many));
            sorted.resize(many);
            CALL(hipdnnHeuristicPolicyGetSortedEngineIds(choice, sorted.data(), &many));
        }
        CALL(hipdnnHeuristicPolicyDescriptorDestroy(choice));
        return status;
    };
    std::vector<int64_t> sorted;
    int32_t applied = -1;
    CALL(choose(graph_of("right", true), sorted, applied));
    CHECK(applied == 1 && (sorted == std::vector<int64_t>{30, 20, 10}));
    CALL(choose(graph_of("right", false), sorted, applied));
    CHECK(applied == 0 && sorted.empty());
    CHECK(choose(graph_of("wrong", true), sorted, applied) == HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR);
    CHECK(choose(graph_of("thrown", true), sorted, applied) == HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR);
    const char* text = nullptr;
    hipdnnPluginGetLastErrorString(&text);
    CHECK(std::string(text) == "the plugin threw something unknown");
    CALL(hipdnnHeuristicHandleDestroy(handle));
    std::puts("right");
}
