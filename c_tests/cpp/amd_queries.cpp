/* Rankings by predictions, sweeps whose ranking is stored, and predictions of engines, under AMD's names. */

#include <hipdnn_frontend/detail/EngineQueries.hpp>

#include "amd_graph.hpp"

#include <cstdlib>

namespace
{

/** A graph whose descriptor the queries take. */
class Graph : public fe::graph::Graph
{
public:
    hipdnnBackendDescriptor_t descriptor() const { return this->_graph.get(); }
};

void numbers_of_enumerations()
{
    CHECK(static_cast<int>(fe::DataType::INT8x4) == 19 && static_cast<int>(fe::DataType::COMPLEX_FP64) == 24);
    CHECK(static_cast<int>(fe::ResampleMode::BILINEAR) == 4 && static_cast<int>(fe::PaddingMode::EDGE_VAL_PAD) == 3);
    CHECK(static_cast<int>(fe::HeuristicMode::A) == 1 && static_cast<int>(fe::HeuristicMode::OPENSOURCE) == 3);
}

void rankings(hipdnnHandle_t handle)
{
    Graph graph;
    make(graph, handle);
    CHECK_BAD(graph.set_ranking_metric("watts"), fe::ErrorCode::INVALID_VALUE, "watts");
    for (const char* metric : {"time", "tflops"})
    {
        CHECK_GOOD(graph.set_ranking_metric(metric));
        for (const auto mode : {fe::HeuristicMode::FALLBACK, fe::HeuristicMode::A, fe::HeuristicMode::B})
        {
            std::vector<int64_t> ids;
            CHECK_GOOD(graph.get_ranked_engine_ids(ids, {mode}));
            CHECK(ids.size() == 2 && ids[0] == hipdnn::engine_name_to_id("CPU_ENGINE"));
        }
    }
    CHECK_GOOD(graph.create_execution_plans({fe::HeuristicMode::A}));
    CHECK_GOOD(graph.build_plans());
}

void sweep(hipdnnHandle_t handle)
{
    using Outcome = fe::AutotuneCacheWriteOutcome;
    const std::unordered_map<int64_t, void*> pack = {{1, A}, {2, B}, {3, C}};
    std::vector<char> workspace(1 << 20);
    const auto size = static_cast<int64_t>(workspace.size());
    fe::AutotuneConfig config;
    config.strategy = fe::AutotuneStrategy::FIXED_AVERAGE;
    config.timedIterations = 2;
    Graph unbuilt;
    CHECK(unbuilt.autotuneExhaustiveSweep(handle, pack, nullptr, -1).is_bad());
    CHECK(unbuilt.autotuneExhaustiveSweep(handle, pack, workspace.data(), size).is_bad());
    Outcome outcome = Outcome::UNCHANGED;
    std::vector<fe::AutotuneResult> results;
    Graph graph;
    make(graph, handle);
    CHECK_GOOD(graph.autotuneExhaustiveSweep(handle, pack, workspace.data(), size, config, {}, &results, &outcome));
    CHECK(results.size() == 2 && outcome == Outcome::WRITTEN);
    Graph part;
    make(part, handle);
    config.engineIdFilter = {results[0].engineId};
    CHECK_GOOD(part.autotuneExhaustiveSweep(handle, pack, workspace.data(), size, config, {}, nullptr, &outcome));
    CHECK(outcome == Outcome::NOT_ATTEMPTED_PARTIAL_SWEEP);
}

void predictions(hipdnnHandle_t handle)
{
    Graph graph;
    make(graph, handle);
    double times[2] = {};
    for (int i = 0; i < 2; i++)
    {
        const int64_t engine = hipdnn::engine_name_to_id(i == 0 ? "CPU_ENGINE" : "CPU_REFERENCE_ENGINE");
        fe::EnginePrediction made;
        CHECK_GOOD(fe::detail::getEnginePrediction(graph.descriptor(), engine, made, fe::PredictionKind::ENGINE, true,
                                                   {}, "time"));
        CHECK(made.status == fe::PredictionStatus::AVAILABLE && made.value && made.engineId == engine);
        CHECK(made.metric == "time" && made.reason.find("estimated") != std::string::npos && !made.configuration);
        times[i] = *made.value;
        CHECK_GOOD(
            fe::detail::getEnginePrediction(graph.descriptor(), engine, made, fe::PredictionKind::CONFIGURATION));
        CHECK(made.value && made.metric == "tflops" && made.configuration && made.configuration->engineId == engine);
        CHECK_GOOD(fe::detail::getEnginePrediction(graph.descriptor(), engine, made, fe::PredictionKind::CONFIGURATION,
                                                   true, {fe::KnobSetting("threads", int64_t{1})}));
        CHECK(!made.value && made.status == fe::PredictionStatus::UNAVAILABLE);
        std::vector<fe::PredictionCapability> has;
        CHECK_GOOD(fe::detail::getPredictionCapabilities(graph.descriptor(), engine, has));
        CHECK(has.size() == 4 && has[0].metric == "tflops" && !has[0].model.empty());
        fe::EngineCandidatePage page;
        CHECK_BAD(fe::detail::getEngineCandidates(graph.descriptor(), engine, page),
                  fe::ErrorCode::HIPDNN_BACKEND_ERROR, "no catalog");
        CHECK_BAD(fe::detail::getEngineCandidates(graph.descriptor(), engine, page, -1), fe::ErrorCode::INVALID_VALUE,
                  "offset is -1");
    }
    CHECK(0 < times[0] && times[0] < times[1]);
}

} // namespace

int main()
{
    setenv("HIPDNN_ALL_ENGINES", "1", 1);
    setenv("HIPDNN_CACHE_DIR", "cache", 1);
    numbers_of_enumerations();
    fe::HipdnnHandlePtr handle;
    CHECK_GOOD(fe::create_hipdnn_handle(handle));
    predictions(*handle);
    rankings(*handle);
    sweep(*handle);
    std::puts("right");
}
