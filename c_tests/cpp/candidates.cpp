/* Candidates of other parties' engines: one that tunes itself with more workspace, and one that no plan can be made of. */

#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

using namespace hipdnn;

static hipdnnHandle_t handle;
alignas(64) static float A[64 * 64], B[64 * 64], C[64 * 64];
static const VariantPack PACK = {{1, A}, {2, B}, {3, C}};

static TensorPtr tensor(int64_t uid)
{
    return Graph::tensor(Tensor().set_uid(uid).set_dim({1, 64, 64}).set_stride({4096, 64, 1}));
}

static void make(Graph& graph)
{
    graph.set_io_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
    graph.matmul(tensor(1), tensor(2), MatmulAttributes())->set_uid(3).set_output(true);
    CHECK_GOOD(graph.build_operation_graph(handle));
}

/* The stub needs no workspace but while it tunes itself: then 65536 bytes. */
static void tuning_needs_workspace()
{
    std::vector<char> workspace(65536);
    const struct
    {
        void* workspace;
        int64_t size;
        const char* reason;
    } cases[] = {
        {nullptr, 65536, "needs 65536 bytes of workspace, expected at most 0"},
        {workspace.data(), 65535, "needs 65536 bytes of workspace, expected at most 65535"},
        {workspace.data(), 65536, ""},
    };
    for (const auto& one : cases)
    {
        Graph graph;
        make(graph);
        CHECK_GOOD(graph.add_engine(engine_name_to_id("STUB_ENGINE")));
        AutotuneConfig config;
        config.mode = TuneMode::EXHAUSTIVE;
        config.primingFailurePolicy = PrimingFailurePolicy::BENCHMARK_UNPRIMED;
        std::vector<AutotuneResult> results;
        CHECK_GOOD(graph.autotune(handle, PACK, one.workspace, one.size, config, {}, &results));
        CHECK(results.size() == 1 && results[0].succeeded && results[0].supportsExhaustive);
        const std::string& reason = results[0].exhaustiveNotRunReason;
        CHECK(*one.reason == 0 ? reason.empty() : reason.find(one.reason) != std::string::npos);
        CHECK(results[0].ranExhaustive == reason.empty());
        config.primingFailurePolicy = PrimingFailurePolicy::ABORT_ON_PRIMING_FAILURE;
        Graph other;
        make(other);
        CHECK_GOOD(other.add_engine(engine_name_to_id("STUB_ENGINE")));
        const Error error = other.autotune(handle, PACK, one.workspace, one.size, config);
        CHECK(error.is_good() == (*one.reason == 0) && error.get_message().find(one.reason) != std::string::npos);
    }
}

/* No plan can be made of the other stub. */
static void some_candidates_have_no_plan()
{
    const int64_t good = engine_name_to_id("STUB_ENGINE"), bad = engine_name_to_id("OTHER_STUB_ENGINE");
    for (const BuildPlanPolicy policy : {BuildPlanPolicy::HEURISTICS_CHOICE, BuildPlanPolicy::ALL})
    {
        Graph graph;
        make(graph);
        CHECK_GOOD(graph.add_engines({bad}));
        const Error error = graph.build_plans(policy);
        CHECK(error.is_bad() && graph.build_plans(policy).get_message() == error.get_message());
        CHECK(graph.get_execution_plan_count() == 0);
        CHECK_GOOD(graph.add_engine(good));
        std::string name;
        /* Also a second time. */
        for (int i = 0; i < 2; i++)
        {
            CHECK_GOOD(graph.build_plans(policy));
            CHECK(graph.get_execution_plan_count() == 1);
            CHECK_GOOD(graph.get_plan_name(name));
            CHECK(name == "STUB_ENGINE");
        }
        CHECK_GOOD(graph.execute(handle, PACK, nullptr));
        /* Candidates that come later are built, too. */
        CHECK_GOOD(graph.add_engine(engine_name_to_id("CPU_ENGINE")));
        CHECK_GOOD(graph.build_plans(policy));
        CHECK(graph.get_execution_plan_count() == 2);
        graph.deselect_engines(std::vector<std::string>{"STUB_ENGINE"});
        CHECK_GOOD(graph.build_plans(policy));
        CHECK_GOOD(graph.get_plan_name(name));
        CHECK(name == "CPU_ENGINE");
        CHECK_GOOD(graph.execute(handle, PACK, nullptr));
    }
}

int main()
{
    const std::vector<std::string> plugins = {library("knob_benchmarking"), library("workspace_fails_other")};
    CHECK_GOOD(set_engine_plugin_paths(plugins, PluginLoadingMode::ADDITIVE));
    HandlePtr owner;
    CHECK_GOOD(create_handle(owner));
    handle = *owner;
    tuning_needs_workspace();
    some_candidates_have_no_plan();
    std::puts("right");
}
