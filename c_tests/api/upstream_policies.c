/* SPDX-License-Identifier: MIT */

/*
 * Heuristic plugins written for AMD's header rank the CPU engines by predictions, give them configurations, and say why; and the
 * library's own policies that rank by predictions, which are measured times where these were stored.
 */
#include "../fixture.h"
#include "../plan_text.h"

#include <HipdnnBackendFlatbufferData.h>

static int64_t id_of(const char* name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return (int64_t)hash;
}

static void use_policies(void)
{
    static const char* const names[] = {"upstream_prediction", "upstream_configuration", "upstream_trace"};
    static char paths[3][4096];
    const char* pointers[3];
    const char* const folder = getenv("HIPDNN_TEST_PLUGINS");
    REQUIRE(folder != NULL);
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/lib%s.so", folder, names[i]);
        pointers[i] = paths[i];
    }
    REQUIRE_OK(hipdnnSetHeuristicPluginPaths_ext(3, pointers, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
}

/* A finalized heuristic of one policy, which ranks by a metric if one is given. */
static hipdnnBackendDescriptor_t by(hipdnnBackendDescriptor_t graph, const char* policy, const char* metric)
{
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    const int64_t id = id_of(policy);
    put(heuristic, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 1, &id);
    if (metric != NULL) {
        put(heuristic, HIPDNN_ATTR_ENGINEHEUR_RANKING_METRIC_EXT, HIPDNN_TYPE_CHAR, (int64_t)strlen(metric), metric);
    }
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    return heuristic;
}

/* The finalized configurations of both CPU engines; their ids, best first. */
static void results(hipdnnBackendDescriptor_t heuristic, hipdnnBackendDescriptor_t configs[2], int64_t ids[2])
{
    int64_t count = count_results(heuristic);
    REQUIRE(count == 2);
    for (int i = 0; i < 2; i++) {
        configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2,
                                         &count, configs));
    for (int i = 0; i < 2; i++) {
        hipdnnBackendDescriptor_t engine = NULL;
        REQUIRE_OK(hipdnnBackendFinalize(configs[i]));
        REQUIRE_OK(hipdnnBackendGetAttribute(configs[i], HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             1, NULL, &engine));
        REQUIRE_OK(
            hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL, &ids[i]));
        drop(engine);
    }
    drop(heuristic);
}

static void check_metric(hipdnnBackendDescriptor_t config, const char* expected)
{
    char metric[16] = "";
    int64_t count = 0;
    CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_RANKING_METRIC_EXT, HIPDNN_TYPE_CHAR,
                                       sizeof metric, &count, metric));
    CHECK_STR(metric, expected);
}

static void test_rankings(hipdnnBackendDescriptor_t graph)
{
    const int64_t fast = id_of("CPU_ENGINE");
    const int64_t plain = id_of("CPU_REFERENCE_ENGINE");
    static const struct {
        const char* policy;
        bool fast_first;
    } policies[] = {
        {"Upstream::WorstFirst", false},     {"Upstream::OneThread", true},       {"Upstream::Traced", false},
        {"SelectionHeuristic::ModeA", true}, {"SelectionHeuristic::ModeB", true},
    };
    static const char* const metrics[] = {NULL, "time", "tflops"};
    for (int64_t i = 0; i < COUNT(policies); i++) {
        for (int64_t k = 0; k < COUNT(metrics); k++) {
            hipdnnBackendDescriptor_t configs[2];
            int64_t ids[2];
            check_about("%s by %s", policies[i].policy, metrics[k] == NULL ? "the default" : metrics[k]);
            results(by(graph, policies[i].policy, metrics[k]), configs, ids);
            CHECK_EQ(ids[0], policies[i].fast_first ? fast : plain);
            CHECK_EQ(ids[1], policies[i].fast_first ? plain : fast);
            check_metric(configs[0], metrics[k] == NULL ? "tflops" : metrics[k]);
            drop(configs[0]);
            drop(configs[1]);
        }
    }
}

/* The knob of the policy's configuration is in the plan, and only in that of its engine. */
static void test_configuration(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t configs[2];
    int64_t ids[2];
    check_about("configuration");
    results(by(graph, "Upstream::OneThread", NULL), configs, ids);
    for (int i = 0; i < 2; i++) {
        hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        REQUIRE_OK(hipdnnBackendFinalize(plan));
        char* const text = plan_text(plan);
        CHECK_CONTAINS(text, i == 0 ? "\"knobs\":{\"threads\":1}" : "\"knobs\":{}");
        free(text);
        drop(plan);
        drop(configs[i]);
    }
}

static char heard[1 << 16];

static void hear(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* line)
{
    (void)severity;
    (void)user;
    const size_t used = strlen(heard);
    snprintf(heard + used, sizeof heard - used, "%s\n", line);
}

static void test_trace(hipdnnBackendDescriptor_t graph)
{
    check_about("trace");
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
    REQUIRE_OK(hipdnnSetUserLogCallback_ext(hear, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, heard));
    drop(by(graph, "Upstream::Traced", NULL));
    CHECK_OK(hipdnnSetUserLogCallback_ext(hear, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, heard));
    CHECK_CONTAINS(heard, "policy Upstream::Traced of CPU_REFERENCE_ENGINE: {\"adapter_type\":\"reversed\"");
    CHECK(strstr(heard, "Upstream::Traced of CPU_ENGINE") == NULL);
}

/* An open descriptor of CPU_ENGINE. */
static hipdnnBackendDescriptor_t open_cpu_engine(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t engine = make(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    const int64_t id = id_of("CPU_ENGINE");
    put_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    put(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &id);
    return engine;
}

/* A prediction of an engine and of its default configuration, with the metric that was asked for. */
static void test_predictions(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t engine = open_cpu_engine(graph);
    hipdnnBackendFlatbufferData_t data = {NULL, 0};
    check_about("predictions");
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "expected tflops or time",
        hipdnnBackendSetAttribute(engine, HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT, HIPDNN_TYPE_CHAR, 5, "watts"));
    put(engine, HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT, HIPDNN_TYPE_CHAR, 4, "time");
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_PREDICTION_EXT,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, NULL, &data));
    CHECK(data.size > 64);
    const hipdnnBackendFlatbufferData_t first = data;
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_PREDICTION_EXT,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, NULL, &data));
    /* The bytes live as long as the descriptor. */
    CHECK(first.ptr == data.ptr);
    drop(engine);
}

static bool contains(hipdnnBackendFlatbufferData_t data, const void* part, size_t size)
{
    for (size_t at = 0; at + size <= data.size; at++) {
        if (memcmp((const char*)data.ptr + at, part, size) == 0) {
            return true;
        }
    }
    return false;
}

/* Stored times replace estimates: here the reference is the faster engine by far. */
static void test_measured(hipdnnHandle_t handle, hipdnnBackendDescriptor_t graph)
{
    const int64_t fast = id_of("CPU_ENGINE");
    const int64_t plain = id_of("CPU_REFERENCE_ENGINE");
    const int64_t ids[] = {plain, fast};
    const double times[] = {0.001, 4321.5};
    const double wrong[] = {0.001, -1.0};
    hipdnnAutotuneCacheWriteOutcome_ext_t outcome = (hipdnnAutotuneCacheWriteOutcome_ext_t)77;
    check_about("measured");
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "milliseconds",
                hipdnnBackendWriteEngineTimes_ext(handle, graph, ids, NULL, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "expected 0 or more",
                hipdnnBackendWriteEngineTimes_ext(handle, graph, ids, wrong, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "engineIdsInRankOrder",
                hipdnnBackendWriteEngineTimes_ext(handle, graph, NULL, times, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle",
                hipdnnBackendWriteEngineTimes_ext(NULL, graph, ids, times, 2, &outcome));
    CHECK_EQ((int)outcome, 77);
    CHECK_OK(hipdnnBackendWriteEngineTimes_ext(handle, graph, NULL, NULL, 0, &outcome));
    CHECK_EQ(outcome, HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES);
    CHECK_OK(hipdnnBackendWriteEngineTimes_ext(handle, graph, ids, times, 2, &outcome));
    CHECK_EQ(outcome, HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    CHECK_OK(hipdnnBackendWriteEngineTimes_ext(handle, graph, ids, times, 2, &outcome));
    CHECK_EQ(outcome, HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED);
    static const char* const policies[] = {"SelectionHeuristic::ModeA", "SelectionHeuristic::Config",
                                           "Upstream::WorstFirst"};
    for (int64_t i = 0; i < COUNT(policies); i++) {
        hipdnnBackendDescriptor_t configs[2];
        int64_t found[2];
        check_about("measured, by %s", policies[i]);
        results(by(graph, policies[i], "time"), configs, found);
        CHECK_EQ(found[0], i < 2 ? plain : fast);
        drop(configs[0]);
        drop(configs[1]);
    }
    hipdnnBackendDescriptor_t engine = open_cpu_engine(graph);
    hipdnnBackendFlatbufferData_t data = {NULL, 0};
    put(engine, HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT, HIPDNN_TYPE_CHAR, 4, "time");
    REQUIRE_OK(hipdnnBackendFinalize(engine));
    CHECK_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_PREDICTION_EXT,
                                       HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, NULL, &data));
    CHECK(contains(data, &times[1], sizeof times[1]));
    CHECK(contains(data, "hipdnn.measured", strlen("hipdnn.measured")));
    drop(engine);
}

int main(void)
{
    setenv("HIPDNN_ALL_ENGINES", "1", 1);
    setenv("HIPDNN_DISABLE_CACHE", "1", 1);
    use_policies();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    test_rankings(graph);
    test_configuration(graph);
    test_trace(graph);
    test_predictions(graph);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    /* New handles read the environment anew. */
    unsetenv("HIPDNN_DISABLE_CACHE");
    setenv("HIPDNN_CACHE_DIR", "measured", 1);
    use_policies();
    handle = make_handle();
    graph = make_graph(handle);
    test_measured(handle, graph);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
