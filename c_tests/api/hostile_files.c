/* SPDX-License-Identifier: MIT */

/*
 * Pipes that have no other end, and a file of 3 GB, where variables and callers name files: nothing waits, and no more is read than needed to
 * refuse them.
 */
#include "../fixture.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_pipe(const char* path)
{
    remove(path);
    REQUIRE(mkfifo(path, 0600) == 0);
}

static long peak_kib(void)
{
    struct rusage usage;
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

/* A graph without an id is written into the same file each time. */
static void plan_one_graph(hipdnnHandle_t handle)
{
    static const char json[] = "{\"nodes\": [{\"type\": \"PointwiseAttributes\", \"compute_data_type\": \"float\","
                               " \"inputs\": {\"operation\": \"neg\", \"in_0_tensor_uid\": 1},"
                               " \"outputs\": {\"out_0_tensor_uid\": 2}}], \"io_data_type\": \"float\","
                               " \"tensors\": [{\"uid\": 1, \"dims\": [4], \"strides\": [1]},"
                               " {\"uid\": 2, \"dims\": [4], \"strides\": [1]}]}";
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&graph, json, strlen(json)));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    drop(plan);
    drop(graph);
}

int main(void)
{
    const char* const added[] = {"pipe.so"};
    char path[512] = "";
    /* A pipe would hold the program for ever. */
    alarm(60);
    make_pipe("pipe");
    make_pipe("pipe.so");
    FILE* const huge = fopen("huge", "w");
    REQUIRE(huge != NULL);
    REQUIRE(ftruncate(fileno(huge), (off_t)3 << 30) == 0);
    fclose(huge);
    static const char* const variables[] = {"NVTX_INJECTION64_PATH", "HIPDNN_HEUR_CONFIG_PATH", "HIPDNN_TRACE_FILE",
                                            "HIPDNN_LOG_FILE"};
    for (int64_t i = 0; i < COUNT(variables); i++) {
        setenv(variables[i], "./pipe", 1);
    }
    setenv("HIPDNN_PLAN_PACKAGE", "pipe:huge", 1);
    setenv("HIPDNN_LOG_GRAPH_DIR", "graphs", 1);
    setenv("HIPDNN_LOG_LEVEL", "warn", 1);
    REQUIRE(freopen("log.txt", "w", stderr) != NULL);
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, added, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    hipdnnHandle_t handle = make_handle();
    const long before = peak_kib();
    plan_one_graph(handle);
    CHECK(peak_kib() - before < 64 << 10);
    /* A pipe in the place of a graph that was written. */
    DIR* const graphs = opendir("graphs");
    REQUIRE(graphs != NULL);
    for (const struct dirent* entry = readdir(graphs); entry != NULL; entry = readdir(graphs)) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "graphs/%.256s", entry->d_name);
        }
    }
    closedir(graphs);
    make_pipe(path);
    plan_one_graph(handle);
    struct stat found;
    CHECK(stat(path, &found) == 0 && S_ISREG(found.st_mode));
    CHECK_OK(hipdnnDestroy(handle));
    fflush(stderr);
    char text[1 << 16];
    read_text("log.txt", text, sizeof text);
    CHECK_CONTAINS(text, "NVTX_INJECTION64_PATH ./pipe: ");
    CHECK_CONTAINS(text, "it is not a plain file); there are no ranges of NVTX");
    CHECK_CONTAINS(text, "the plans in pipe are not used: it is not a plain file");
    CHECK_CONTAINS(text, "the plans in huge are not used: its first bytes are not those of plans made ahead of time");
    CHECK_CONTAINS(text, "HIPDNN_LOG_FILE ./pipe cannot be written");
    return check_result();
}
