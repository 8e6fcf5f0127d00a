/* SPDX-License-Identifier: MIT */

/*
 * Threads cancelled while in the library, which writes, opens and sleeps, all of which are cancellation points. The thread is
 * cancelled only in the program's own code, and what it used in the library stays usable for others.
 */
#include "host.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 60, PATIENCE = 60 };

static hipdnnHandle_t old_handle;
static hipdnnBackendDescriptor_t old_plan;
static buffers data;

/* A pack for each execution: a cancelled thread leaves its own behind. */
static void execute(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan)
{
    buffers own = data;
    hipdnnBackendDescriptor_t pack = make_pack(&own);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    drop(pack);
}

static void one(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    execute(handle, plan);
    execute(old_handle, old_plan);
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line of the program");
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

static void* work(void* unused)
{
    for (;;) {
        one();
        int state = -1;
        /* The library leaves cancellation as it was, and nothing it calls need come to a point where a thread ends. */
        CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0);
        CHECK_EQ(state, PTHREAD_CANCEL_ENABLE);
        pthread_testcancel();
    }
    return unused;
}

static int child(bool eager)
{
    alarm(PATIENCE);
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(eager ? HIPDNN_PLUGIN_UNLOAD_EAGER : HIPDNN_PLUGIN_UNLOAD_LAZY));
    old_handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(old_handle);
    old_plan = make_plan(graph);
    fill_buffers(&data, old_plan);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        void* result = NULL;
        REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
        const struct timespec pause = {0, 500000 + 137000 * i};
        nanosleep(&pause, NULL);
        REQUIRE(pthread_cancel(thread) == 0);
        REQUIRE(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    one();
    drop(old_plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(old_handle));
    free(data.workspace);
    return check_result();
}

static void start(const char* name, const char* value, const char* level, bool eager)
{
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        setenv(name, value, 1);
        if (level != NULL) {
            setenv("HIPDNN_LOG_LEVEL", level, 1);
        }
        execl("/proc/self/exe", "cancel", eager ? "eager" : "lazy", (char*)NULL);
        _exit(99);
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    check_about("%s %s", name, value);
    CHECK_EQ(status, 0);
}

int main(int count, char** words)
{
    if (count == 2) {
        return child(strcmp(words[1], "eager") == 0);
    }
    setenv("HIPDNN_LOG_FILE", "log.txt", 1);
    /* With several engines policies are asked, which read files. */
    setenv("HIPDNN_ALL_ENGINES", "1", 1);
    FILE* rules = fopen("rules.json", "w");
    REQUIRE(rules != NULL);
    fputs("{\"engine_overrides\": []}", rules);
    REQUIRE(fclose(rules) == 0);
    start("HIPDNN_HEUR_CONFIG_PATH", "rules.json", NULL, false);
    start("HIPDNN_RECORD_GRAPHS", "recorded", NULL, false);
    start("HIPDNN_PLAN_CACHE_BYTES", "0", NULL, false);
    start("HIPDNN_TRACE_RANGES", "1", NULL, false);
    start("HIPDNN_TRACE_RANGES", "1", NULL, true);
    start("HIPDNN_VERBOSE", "1", NULL, false);
    start("HIPDNN_TRACE_FILE", "trace.json", NULL, false);
    start("HIPDNN_TRACE_FILE", "trace.json", "info", false);
    start("HIPDNN_PLAN_CACHE_DIR", "plans", "info", false);
    start("HIPDNN_LOG_GRAPH_DIR", "graphs", "info", true);
    return check_result();
}
