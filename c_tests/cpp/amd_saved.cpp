/* Graphs that are saved with their plan as AMD's frontend saves them, JSON objects, and what else programs ask of a plan. */

#include <hipdnn_data_sdk/utilities/EngineNames.hpp>

#include "amd_graph.hpp"

#include <cstdlib>

namespace names = hipdnn_data_sdk::utilities;

namespace
{

std::unordered_map<int64_t, void*> pack = {{1, A}, {2, B}, {3, C}};

/* A library of JSON values has these members. */
struct Json
{
    std::string text;
    static Json parse(const std::string& text) { return {text}; }
    std::string dump() const { return text; }
};

void compute(const fe::graph::Graph& graph, hipdnnHandle_t handle)
{
    C[0] = 0;
    CHECK_GOOD(graph.execute(handle, pack, nullptr));
    CHECK(C[0] == 21);
}

void with_a_plan(hipdnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph, handle);
    const fe::graph::Graph& constant = graph;
    std::vector<uint8_t> alone, bytes;
    CHECK_GOOD(constant.serialize(alone));
    int64_t engine = 0, same = 0;
    CHECK(constant.get_execution_plan_engine_id(engine).is_bad());
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_GOOD(graph.build_plans());
    CHECK_GOOD(constant.get_execution_plan_engine_id(engine));
    CHECK_GOOD(constant.serialize(bytes));
    CHECK(bytes.size() > alone.size());
    CHECK(constant.to_binary().first == bytes && !constant.to_json().first.empty());

    fe::graph::Graph loaded;
    CHECK_GOOD(loaded.deserialize(handle, bytes));
    compute(loaded, handle);
    CHECK_GOOD(loaded.get_execution_plan_engine_id(same));
    CHECK(same == engine && engine == names::engineNameToId("CPU_ENGINE"));
    CHECK_GOOD(loaded.create_execution_plans());
    CHECK_GOOD(loaded.build_plans());
    compute(loaded, handle);

    fe::graph::Graph structure;
    CHECK_GOOD(structure.from_binary(bytes));
    CHECK(structure.execute(handle, pack, nullptr).is_bad());
    CHECK_GOOD(structure.build(handle));
    compute(structure, handle);
    bytes[bytes.size() / 2] ^= 1;
    CHECK(loaded.deserialize(handle, bytes).is_bad());
}

void json_objects(hipdnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph, handle);
    Json json, same;
    CHECK_GOOD(graph.serialize(json));
    CHECK_GOOD(static_cast<const fe::graph::Graph&>(graph).serialize(same));
    CHECK(!json.text.empty() && json.text == same.text);
    fe::graph::Graph loaded, structure;
    CHECK_GOOD(loaded.deserialize(handle, json));
    CHECK_GOOD(structure.deserialize(json));
    CHECK(loaded.getTensorsByName().count("a") == 1 && loaded.getTensorsByName().count("") == 0);
    CHECK_GOOD(loaded.create_execution_plans());
    CHECK_GOOD(loaded.build_plans(fe::BuildPlanPolicy::ALL));
    CHECK_GOOD(loaded.autotune(handle, pack, nullptr, nullptr));
    CHECK_GOOD(loaded.autotune(handle, pack, nullptr));
    compute(loaded, handle);
}

void engines_without_a_name(hipdnnHandle_t handle)
{
    CHECK(names::formatEngineIdHex(100) == "0x0000000000000064" &&
          names::formatEngineIdHex(-1) == "0xFFFFFFFFFFFFFFFF");
    CHECK(names::engineNameOrIdToId("0x0000000000000064") == 100 &&
          names::engineNameOrIdToId("0Xfffffffffffffffe") == -2);
    for (const char* other : {"CPU_ENGINE", "0x64", "0x00000000000000g4", ""})
    {
        CHECK(names::engineNameOrIdToId(other) == hipdnn::engine_name_to_id(other));
    }
    const int64_t engine = names::engineNameToId("CPU_REFERENCE_ENGINE");
    fe::graph::Graph graph;
    graph.set_preferred_engine_id_ext(names::formatEngineIdHex(engine));
    make(graph, handle);
    CHECK(graph.get_preferred_engine_id_ext() == engine);
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_GOOD(graph.build_plans());
    int64_t active = 0;
    CHECK_GOOD(graph.get_execution_plan_engine_id(active));
    CHECK(active == engine);
}

void kinds(hipdnnHandle_t handle)
{
    struct Own : fe::IConstraint
    {
        fe::Error validateKnobSetting(const fe::KnobSetting&) const override { return {}; }
        std::string toString() const override { return "Own"; }
    };
    CHECK(Own().kind() == fe::ConstraintKind::EMPTY && fe::FloatConstraint(0, 1).kind() == fe::ConstraintKind::FLOAT);
    CHECK(fe::StringConstraint(8).kind() == fe::ConstraintKind::STRING);
    fe::graph::Graph graph;
    make(graph, handle);
    std::vector<fe::Knob> knobs;
    CHECK_GOOD(graph.get_knobs_for_engine(names::engineNameToId("CPU_ENGINE"), knobs));
    CHECK(!knobs.empty() && knobs[0].constraint()->kind() == fe::ConstraintKind::INT);
    CHECK(fe::isKnownBehaviorNote(fe::BehaviorNote::RUNTIME_COMPILATION));
    CHECK(!fe::isKnownBehaviorNote(fe::BehaviorNote::NOT_SET) &&
          !fe::isKnownBehaviorNote(static_cast<fe::BehaviorNote>(5)));
    fe::graph::TensorAttributes scalar;
    scalar.set_compile_time_constant(2.0F);
    CHECK(scalar.get_compile_time_constant<float>() == 2.0F);
}

} // namespace

int main()
{
    setenv("HIPDNN_ALL_ENGINES", "1", 1);
    A[0] = 3;
    B[0] = 7;
    fe::HipdnnHandlePtr handle;
    CHECK_GOOD(fe::create_hipdnn_handle(handle));
    with_a_plan(*handle);
    json_objects(*handle);
    engines_without_a_name(*handle);
    kinds(*handle);
    std::puts("right");
}
