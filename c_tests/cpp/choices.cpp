/* Engines, knobs, candidates, autotuning with its file of rules, limits on plans, other shapes, and what each refuses. */

#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

#include <fstream>
#include <sstream>

using namespace hipdnn;

static hipdnnHandle_t handle;
alignas(64) static float A[64 * 64], B[64 * 64], C[64 * 64];

static TensorPtr tensor(int64_t uid, const Dims& dims)
{
    return Graph::tensor(Tensor().set_uid(uid).set_dim(dims).set_stride(packed_strides(dims)));
}

static void make(Graph& graph)
{
    graph.set_io_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
    graph.matmul(tensor(1, {1, 64, 64}), tensor(2, {1, 64, 64}), MatmulAttributes())->set_uid(3).set_output(true);
    CHECK_GOOD(graph.build_operation_graph(handle));
}

static const VariantPack PACK = {{1, A}, {2, B}, {3, C}};

static void engines_and_knobs()
{
    Graph graph;
    make(graph);
    std::vector<int64_t> ids;
    CHECK_GOOD(graph.get_ranked_engine_ids(ids));
    CHECK(ids.size() >= 2);
    const int64_t fast = engine_name_to_id("CPU_ENGINE"), plain = engine_name_to_id("CPU_REFERENCE_ENGINE");
    std::unordered_map<KnobType_t, Knob> knobs;
    CHECK_GOOD(graph.get_knob_lookup_for_engine(fast, knobs));
    CHECK(!knobs.empty());
    const Knob& knob = knobs.begin()->second;
    CHECK(knob.validate(KnobSetting(knob.knobId(), knob.defaultValue())).is_good());
    std::vector<BehaviorNote> notes;
    CHECK_GOOD(graph.get_behavior_notes_for_engine(fast, notes));
    CHECK_BAD(graph.get_knobs_for_engine(5, *std::make_unique<std::vector<Knob>>()), ErrorCode::HIPDNN_BACKEND_ERROR,
              "engine 5");
    CHECK_GOOD(graph.create_execution_plan_ext(plain, {}));
    CHECK_GOOD(graph.build_plans());
    std::string name;
    CHECK_GOOD(graph.get_plan_name(name));
    CHECK(name == "CPU_REFERENCE_ENGINE");

    graph.set_preferred_engine_id_ext("CPU_REFERENCE_ENGINE");
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_GOOD(graph.build_plans());
    CHECK_GOOD(graph.get_plan_name(name));
    CHECK(name == "CPU_REFERENCE_ENGINE");

    CHECK_GOOD(graph.create_execution_plans());
    graph.deselect_engines(std::vector<std::string>{"CPU_REFERENCE_ENGINE"});
    CHECK_GOOD(graph.build_plans(BuildPlanPolicy::ALL));
    CHECK_GOOD(graph.get_plan_name(name));
    CHECK(name != "CPU_REFERENCE_ENGINE");
    CHECK_BAD(graph.build_plan_at_index(99), ErrorCode::INVALID_VALUE, "plan index 99");
    CHECK_BAD(graph.execute_plan_at_index(handle, PACK, nullptr, -1), ErrorCode::INVALID_VALUE, "plan index -1");
}

static void autotuning()
{
    Graph graph;
    make(graph);
    CHECK_GOOD(graph.add_all_engines());
    CHECK_BAD(graph.build(handle), ErrorCode::INVALID_VALUE, "expected autotune()");
    int64_t bytes = 0;
    CHECK_GOOD(graph.get_estimated_max_workspace_size(bytes));
    std::vector<char> workspace(static_cast<size_t>(bytes) + 64);
    AutotuneConfig config;
    config.strategy = AutotuneStrategy::FIXED_AVERAGE;
    config.timedIterations = 0;
    CHECK_BAD(graph.autotune(handle, PACK, workspace.data(), bytes, config), ErrorCode::INVALID_VALUE,
              "timedIterations");
    config.timedIterations = 3;
    CHECK_BAD(graph.autotune(handle, VariantPack{{1, A}}, workspace.data(), bytes, config), ErrorCode::INVALID_VALUE,
              "2");
    AutotuneStorageConfig storage;
    storage.filePath = "rules.json";
    std::vector<AutotuneResult> results;
    CHECK_GOOD(graph.autotune(handle, PACK, workspace.data(), bytes, config, storage, &results));
    CHECK(results.size() >= 2 && results[0].rank == 0 && results[0].succeeded && results[0].iterationsRun == 3);
    CHECK(results[0].minTimeMs > 0 && results[0].minTimeMs <= results[1].minTimeMs);
    std::string name;
    CHECK_GOOD(graph.get_plan_name(name));
    CHECK(name == results[0].engineName);
    std::stringstream rules;
    rules << std::ifstream("rules.json").rdbuf();
    CHECK(rules.str().find("\"op\": \"matmul\"") != std::string::npos && rules.str().find(name) != std::string::npos);
    std::ofstream("foreign.json") << "{}\n";
    storage.filePath = "foreign.json";
    Graph other;
    make(other);
    CHECK_GOOD(other.add_engine(engine_name_to_id("CPU_ENGINE")));
    CHECK_BAD(other.autotune(handle, PACK, workspace.data(), bytes, config, storage), ErrorCode::INVALID_VALUE,
              "foreign.json");
}

static void other_shapes()
{
    Graph graph;
    graph.set_io_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT);
    graph.set_override_shape_enabled(true);
    graph.pointwise(tensor(1, {2, 4}), PointwiseAttributes().set_mode(PointwiseMode::NEG))->set_uid(3).set_output(true);
    CHECK_GOOD(graph.build(handle));
    const VariantPack pack = {{1, A}, {3, C}};
    C[19] = 5;
    CHECK_GOOD(graph.execute(handle, pack, nullptr, {1, 3}, {{5, 4}, {5, 4}}, {{4, 1}, {4, 1}}));
    CHECK(C[19] == -1);
    CHECK_GOOD(graph.execute(handle, pack, nullptr,
                             std::unordered_map<int64_t, OverrideEntry>{{1, {{1, 4}, {4, 1}}}, {3, {{1, 4}, {4, 1}}}}));
    CHECK_BAD(graph.execute(handle, pack, nullptr, {1}, {{5, 4}, {5, 4}}, {{4, 1}}), ErrorCode::INVALID_VALUE,
              "1 uids, 2 shapes");
    CHECK_BAD(graph.execute(handle, pack, nullptr, {7}, {{5, 4}}, {{4, 1}}), ErrorCode::INVALID_VALUE,
              "override of uid 7");
    CHECK_BAD(graph.execute(handle, pack, nullptr, {1}, {{5, 4, 1}}, {{4, 1, 1}}), ErrorCode::INVALID_VALUE,
              "override of uid 1");
    Graph fixed;
    make(fixed);
    CHECK_GOOD(fixed.create_execution_plans());
    CHECK_GOOD(fixed.build_plans());
    CHECK_BAD(fixed.execute(handle, PACK, nullptr, {1}, {{1, 2, 2}}, {{4, 2, 1}}), ErrorCode::INVALID_VALUE,
              "set_override_shape_enabled");
}

int main()
{
    for (size_t i = 0; i < 64 * 64; i++)
    {
        A[i] = B[i] = 1.0F;
    }
    HandlePtr owner;
    CHECK_GOOD(create_handle(owner));
    handle = *owner;
    engines_and_knobs();
    autotuning();
    other_shapes();
    std::puts("right");
}
