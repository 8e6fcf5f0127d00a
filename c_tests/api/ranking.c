/* SPDX-License-Identifier: MIT */

/* Stored rankings: outcomes, lookup, and refusals. */
#include "../fixture.h"

#include <sys/stat.h>
#ifndef _WIN32
#include <sys/wait.h>
#include <signal.h>
#endif
#include <dirent.h>
#include <unistd.h>

typedef hipdnnAutotuneCacheWriteOutcome_ext_t outcome_t;

/* New handles read the environment anew. */
static hipdnnHandle_t fresh_handle(void)
{
    REQUIRE_OK(hipdnnSetHeuristicPluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    return make_handle();
}

static int64_t engines_of(hipdnnBackendDescriptor_t graph, int64_t room, int64_t* ids)
{
    enum { MOST = 16 };
    hipdnnBackendDescriptor_t configs[MOST];
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    int64_t count = count_results(heuristic);
    REQUIRE(count <= MOST && count <= room);
    for (int64_t i = 0; i < count; i++) {
        configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                         count, &count, configs));
    for (int64_t i = 0; i < count; i++) {
        hipdnnBackendDescriptor_t engine = NULL;
        REQUIRE_OK(hipdnnBackendFinalize(configs[i]));
        REQUIRE_OK(hipdnnBackendGetAttribute(configs[i], HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             1, NULL, &engine));
        REQUIRE_OK(
            hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL, &ids[i]));
        drop(engine);
        drop(configs[i]);
    }
    drop(heuristic);
    return count;
}

static outcome_t write_ranking(hipdnnHandle_t handle, hipdnnBackendDescriptor_t graph, size_t count, const int64_t* ids)
{
    outcome_t outcome = (outcome_t)77;
    CHECK_OK(hipdnnBackendWriteEngineRankingResults_ext(handle, graph, ids, count, &outcome));
    return outcome;
}

static void test_ranking(void)
{
    int64_t ids[16];
    int64_t again[16];
    setenv("HIPDNN_CACHE_DIR", "cache", 1);
    hipdnnHandle_t handle = fresh_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    REQUIRE(engines_of(graph, 16, ids) == 2);
    const int64_t reversed[] = {ids[1], ids[0]};
    CHECK_EQ(write_ranking(handle, graph, 2, reversed), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    CHECK_EQ(write_ranking(handle, graph, 2, reversed), HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED);
    CHECK_EQ(write_ranking(handle, graph, 1, ids), HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED);
    CHECK_OK(hipdnnBackendWriteEngineRankingResults_ext(handle, graph, reversed, 2, NULL));
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK(again[0] == reversed[0] && again[1] == reversed[1]);
    /* Another graph that computes the same finds it, in another process, too. */
    hipdnnBackendDescriptor_t twin = make_graph(handle);
    REQUIRE(engines_of(twin, 16, again) == 2);
    CHECK_EQ(again[0], reversed[0]);
    drop(twin);
    /* The last ranking counts. */
    CHECK_EQ(write_ranking(handle, graph, 2, ids), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK_EQ(again[0], ids[0]);
    CHECK_EQ(write_ranking(handle, graph, 2, reversed), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    /* Unknown engines do no harm; a ranking that lacks an engine is not used. */
    const int64_t more[] = {ids[1], 42, ids[0]};
    CHECK_EQ(write_ranking(handle, graph, 3, more), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK(again[0] == ids[1] && again[1] == ids[0]);
    const int64_t others[] = {ids[1], 43};
    CHECK_EQ(write_ranking(handle, graph, 2, others), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK(again[0] == ids[0] && again[1] == ids[1]);
    /* A handle that knows the graph does not look again until this process stores another ranking; a new handle looks. */
    CHECK_EQ(write_ranking(handle, graph, 2, reversed), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK_EQ(again[0], reversed[0]);
    REQUIRE(rename("cache", "moved") == 0);
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK_EQ(again[0], reversed[0]);
    hipdnnHandle_t other = make_handle();
    hipdnnBackendDescriptor_t same = make_graph(other);
    REQUIRE(engines_of(same, 16, again) == 2);
    CHECK_EQ(again[0], ids[0]);
    drop(same);
    CHECK_OK(hipdnnDestroy(other));
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_refusals(void)
{
    const int64_t ids[] = {1, 2, 1};
    outcome_t outcome = (outcome_t)77;
    hipdnnHandle_t handle = fresh_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t open = open_graph(handle);
    hipdnnBackendDescriptor_t tensor = make_tensor(UID_X, 1, 1, 1, 1, false);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle",
                hipdnnBackendWriteEngineRankingResults_ext(NULL, graph, ids, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "graphDescriptor",
                hipdnnBackendWriteEngineRankingResults_ext(handle, NULL, ids, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "engineIdsInRankOrder",
                hipdnnBackendWriteEngineRankingResults_ext(handle, graph, NULL, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "operation graph",
                hipdnnBackendWriteEngineRankingResults_ext(handle, tensor, ids, 2, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "twice",
                hipdnnBackendWriteEngineRankingResults_ext(handle, graph, ids, 3, &outcome));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "engineIdCount",
                hipdnnBackendWriteEngineRankingResults_ext(handle, graph, ids, SIZE_MAX, &outcome));
    CHECK_EQ((int)outcome, 77);
    CHECK_EQ(write_ranking(handle, graph, 0, NULL), HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES);
    CHECK_EQ(write_ranking(handle, open, 2, ids), HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED);
    drop(tensor);
    drop(open);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    static const char* const switches[] = {"HIPDNN_DISABLE_CACHE", "HIPDNN_DISABLE_EXACT_ENGINE_CACHE"};
    for (int64_t i = 0; i < COUNT(switches); i++) {
        setenv(switches[i], "on", 1);
        handle = fresh_handle();
        graph = make_graph(handle);
        CHECK_EQ(write_ranking(handle, graph, 2, ids), HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
        unsetenv(switches[i]);
    }
    /* A folder that cannot be made */
    setenv("HIPDNN_CACHE_DIR", "/dev/null/cache", 1);
    handle = fresh_handle();
    graph = make_graph(handle);
    CHECK_EQ(write_ranking(handle, graph, 2, ids), HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

#ifndef _WIN32
/* Concurrent writers, some of which are killed: every line is whole or skipped. */
static void test_processes(void)
{
    enum { CHILDREN = 6, LINES = 40 };
    pid_t children[CHILDREN];
    setenv("HIPDNN_CACHE_DIR", "shared", 1);
    for (int child = 0; child < CHILDREN; child++) {
        children[child] = fork();
        REQUIRE(children[child] >= 0);
        if (children[child] == 0) {
            hipdnnHandle_t handle = fresh_handle();
            hipdnnBackendDescriptor_t graph = make_graph(handle);
            /* The last two go on until they are killed. */
            for (int64_t i = 0; i < LINES || child >= CHILDREN - 2; i++) {
                const int64_t ids[] = {child, 1000 + i};
                outcome_t outcome = (outcome_t)77;
                if (hipdnnBackendWriteEngineRankingResults_ext(handle, graph, ids, 2, &outcome) !=
                        HIPDNN_STATUS_SUCCESS ||
                    outcome != HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN) {
                    _exit(1);
                }
                if (i == 2000) {
                    sleep(1);
                }
            }
            _exit(0);
        }
    }
    for (int child = 0; child < CHILDREN - 2; child++) {
        int status = -1;
        REQUIRE(waitpid(children[child], &status, 0) == children[child]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int child = CHILDREN - 2; child < CHILDREN; child++) {
        int status = -1;
        REQUIRE(kill(children[child], SIGKILL) == 0);
        REQUIRE(waitpid(children[child], &status, 0) == children[child]);
        CHECK(WIFSIGNALED(status));
    }
    /* The killed processes leave nothing in the way, in particular no lock. */
    hipdnnHandle_t handle = fresh_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    int64_t ids[16];
    REQUIRE(engines_of(graph, 16, ids) == 2);
    const int64_t reversed[] = {ids[1], ids[0]};
    int64_t again[16];
    CHECK_EQ(write_ranking(handle, graph, 2, reversed), HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    REQUIRE(engines_of(graph, 16, again) == 2);
    CHECK_EQ(again[0], reversed[0]);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));

    /* One file with every line of the surviving processes. */
    char path[512];
    const char* const folder = "shared/autotune-rankings/0.4.0";
    DIR* const files = opendir(folder);
    REQUIRE(files != NULL);
    path[0] = '\0';
    for (const struct dirent* entry = readdir(files); entry != NULL; entry = readdir(files)) {
        if (entry->d_name[0] != '.') {
            CHECK_EQ(strlen(entry->d_name), 32 + strlen(".jsonl"));
            CHECK(path[0] == '\0');
            snprintf(path, sizeof path, "%s/%.64s", folder, entry->d_name);
        }
    }
    closedir(files);
    FILE* const file = fopen(path, "r");
    REQUIRE(file != NULL);
    char line[512];
    int found[CHILDREN] = {0};
    while (fgets(line, sizeof line, file) != NULL) {
        for (int child = 0; child < CHILDREN; child++) {
            char part[64];
            snprintf(part, sizeof part, "\"order\":[%d,1", child);
            found[child] += strstr(line, part) != NULL && line[strlen(line) - 1] == '\n' && line[0] == '{';
        }
    }
    fclose(file);
    for (int child = 0; child < CHILDREN - 2; child++) {
        CHECK_EQ(found[child], LINES);
    }
}
#endif

/* The rules of a file. */
static void test_rules(void)
{
    int64_t ids[16];
    int64_t again[16];
    setenv("HIPDNN_DISABLE_CACHE", "1", 1);
    setenv("HIPDNN_HEUR_CONFIG_PATH", "rules.json", 1);
    remove("rules.json");
    hipdnnHandle_t handle = fresh_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    /* A file that is not there */
    REQUIRE(engines_of(graph, 16, ids) == 2);
    static const char* const lines[] = {
        "{\"version\": 2, \"engine_overrides\": [{\"op\": \"conv_fprop\", \"engine_name\": \"CPU_REFERENCE_ENGINE\", "
        "\"tensors\": [{\"tensor_id\": \"w_tensor_uid\", \"dim\": [-1, -1, -1, -1]}, "
        "{\"tensor_id\": \"x_tensor_uid\", \"dim\": [-1, -1, -1, -1]}]}]}",
        "{\"engine_overrides\": [{\"op\": \"conv_fprop\", \"engine_name\": \"CPU_REFERENCE_ENGINE\", "
        "\"tensors\": [{\"dim\": [-1, -1, -1]}, {\"dim\": [-1, -1, -1, -1]}]}]}",
        "{\"engine_overrides\": [",
    };
    for (int64_t i = 0; i < COUNT(lines); i++) {
        FILE* const file = fopen("rules.json", "w");
        REQUIRE(file != NULL);
        fputs(lines[i], file);
        fclose(file);
        /* It is read each time. */
        REQUIRE(engines_of(graph, 16, again) == 2);
        CHECK_EQ(again[0], i == 0 ? ids[1] : ids[0]);
    }
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    unsetenv("HIPDNN_HEUR_CONFIG_PATH");
    unsetenv("HIPDNN_DISABLE_CACHE");
}

int main(void)
{
    test_ranking();
    test_refusals();
#ifndef _WIN32
    test_processes();
#endif
    test_rules();
    return check_result();
}
