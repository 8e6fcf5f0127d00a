/* What AMD's frontend gained last: timed executions, plans of candidates, the ranking of a sweep, and names with numbers. */

#include <hipdnn_data_sdk/utilities/EngineNames.hpp>
#include <hipdnn_data_sdk/utilities/PolicyNames.hpp>
#include <hipdnn_data_sdk/utilities/RankingMetrics.hpp>

#include "amd_graph.hpp"

#include <cstdlib>

namespace names = hipdnn_data_sdk::utilities;

HIPDNN_REGISTER_ENGINE(ENGINE_OF_THE_TEST, "ENGINE_OF_THE_TEST")

namespace
{

const std::unordered_map<int64_t, void*> PACK = {{1, A}, {2, B}, {3, C}};

void timed_execution(hipdnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph, handle);
    fe::ExecutionTiming timing;
    timing.elapsedMs = 5;
    timing.quality = fe::TimingQuality::DEVICE_ONLY;
    CHECK(graph.execute_timed_ext(handle, PACK, nullptr, timing).is_bad());
    CHECK(!timing.elapsedMs && timing.quality == fe::TimingQuality::INVALID && !timing.timedOut);
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_GOOD(graph.build_plans());
    A[0] = 3;
    B[0] = 7;
    CHECK_GOOD(graph.execute_timed_ext(handle, PACK, nullptr, timing));
    CHECK(C[0] == 21);
    /* The host cannot be held. */
    CHECK(timing.elapsedMs && *timing.elapsedMs >= 0 && timing.quality == fe::TimingQuality::UNSTALLED);
    CHECK(graph.execute_timed_ext(handle, {{1, A}}, nullptr, timing).is_bad() && !timing.elapsedMs);
}

void names_with_a_handle(hipdnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph, handle);
    std::vector<fe::EngineConfigInfo> engines, same;
    CHECK_GOOD(graph.get_engine_configs(engines));
    CHECK_GOOD(graph.get_engine_configs(handle, same, {fe::HeuristicMode::FALLBACK}));
    CHECK(engines.size() == 2 && same.size() == 2 && same[0].engineName == engines[0].engineName);
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_GOOD(graph.build_plans());
    std::string without, with, at;
    CHECK_GOOD(graph.get_plan_name(without));
    CHECK_GOOD(graph.get_plan_name(handle, with));
    CHECK_GOOD(graph.get_plan_name_at_index(nullptr, 0, at));
    CHECK(without == "CPU_ENGINE" && with == without && at == without);
}

void plans_of_candidates(hipdnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph, handle);
    CHECK_GOOD(graph.add_all_engines());
    CHECK_GOOD(graph.build_plans(fe::BuildPlanPolicy::ALL));
    CHECK(graph.get_execution_plan_count() == 2);
    CHECK_GOOD(graph.execute(handle, PACK, nullptr));
    fe::AutotuneConfig config;
    config.strategy = fe::AutotuneStrategy::FIXED_AVERAGE;
    config.timedIterations = 4;
    std::vector<fe::AutotuneResult> results;
    fe::AutotuneCacheWriteOutcome outcome = fe::AutotuneCacheWriteOutcome::NOT_ATTEMPTED_NO_SUCCESSFUL_ENGINE;
    CHECK_GOOD(graph.autotuneExhaustiveSweep(handle, PACK, nullptr, 0, config, {}, &results, &outcome));
    CHECK(results.size() == 2 && outcome == fe::AutotuneCacheWriteOutcome::WRITTEN);
    for (const fe::AutotuneResult& result : results)
    {
        CHECK(result.benchmarked && !result.excludedByCaller && !result.supportsExhaustive && !result.ranExhaustive);
        CHECK(result.minTimeMs <= result.robustTimeMs && result.robustTimeMs <= result.avgTimeMs * 1.001F);
    }
    CHECK(results[0].robustTimeMs <= results[1].robustTimeMs && results[0].rank == 0);
    fe::graph::Graph part;
    make(part, handle);
    CHECK_GOOD(part.add_all_engines());
    part.deselect_engines({results[0].engineName});
    CHECK_GOOD(part.autotuneExhaustiveSweep(handle, PACK, nullptr, 0, config, {}, &results));
    CHECK(results[0].benchmarked && !results[1].benchmarked && results[1].excludedByCaller);
}

void numbers_of_names()
{
    static_assert(names::engineNameToId("") == 0 && names::engineNameToId(static_cast<const char*>(nullptr)) == 0);
    CHECK(names::engineNameToId("CPU_ENGINE") == hipdnn::engine_name_to_id("CPU_ENGINE"));
    CHECK(names::engineNameToId(std::string("a")) == static_cast<int64_t>(0xaf63dc4c8601ec8cU));
    CHECK(names::policyNameToId(names::MODE_A_POLICY_NAME) != names::policyNameToId(names::MODE_B_POLICY_NAME));
    CHECK(ENGINE_OF_THE_TEST_ID == names::engineNameToId(ENGINE_OF_THE_TEST_NAME));
    CHECK(names::isEngineNameRegistered("ENGINE_OF_THE_TEST") && names::isEngineNameRegistered("MIOPEN_ENGINE"));
    CHECK(names::getAllEngineNames().size() == 4 && names::getEngineIdToNameMap().size() == 4);
    CHECK(names::getEngineNameFromId(names::HIPBLASLT_ENGINE_ID) == names::HIPBLASLT_ENGINE_NAME);
    bool thrown = false;
    try
    {
        names::getEngineNameFromId(1);
    } catch (const std::out_of_range&)
    {
        thrown = true;
    }
    CHECK(thrown && !names::isEngineNameRegistered("CPU_ENGINE"));
}

void metrics()
{
    const names::RankingMetric* best = names::findRankingMetric(names::DEFAULT_RANKING_METRIC);
    const names::RankingMetric* time = names::findRankingMetric("time");
    CHECK(best != nullptr && best->units == "TFLOPS" && names::objectiveOf(*best) == "max");
    CHECK(time != nullptr && time->units == "ms" && names::objectiveOf(*time) == "min");
    CHECK(names::findRankingMetric("watts") == nullptr && names::RANKING_METRICS.size() == 2);
    CHECK(names::isBetterMetricValue(*best, 2, 1) && names::isBetterMetricValue(*time, 1, 2));
    CHECK(names::isValidMetricValue(*best, 0) && !names::isValidMetricValue(*time, 0));
    CHECK(!names::isValidMetricValue(*best, -1) && !names::isValidMetricValue(*time, HUGE_VAL));
}

} // namespace

int main()
{
    setenv("HIPDNN_ALL_ENGINES", "1", 1);
    setenv("HIPDNN_CACHE_DIR", "cache", 1);
    numbers_of_names();
    metrics();
    fe::HipdnnHandlePtr handle;
    CHECK_GOOD(fe::create_hipdnn_handle(handle));
    timed_execution(*handle);
    names_with_a_handle(*handle);
    plans_of_candidates(*handle);
    std::puts("right");
}
