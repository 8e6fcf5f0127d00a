/* SPDX-License-Identifier: MIT */

/*
 * The trace of executions on a device: each has a time of its own there, by events of the stream, and its steps, the calls of the
 * engine's library. Calls and executions are ranges where
 * the process has a library for them, each of which ends.
 *
 * Everything here is a stand-in: standin_hip.c, standin_miopen.c and standin_roctx.c.
 */
#include "forwarding.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXECUTIONS = 100 };

static void child(void)
{
    void* const roctx = dlopen("libroctx64.so.4", RTLD_NOW);
    REQUIRE(roctx != NULL);
    int* const depth = dlsym(roctx, "standin_depth");
    int* const pushed = dlsym(roctx, "standin_pushed");
    char* const last = dlsym(roctx, "standin_last");
    REQUIRE(depth != NULL && pushed != NULL && last != NULL);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = open_graph(handle);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, 4, "dev");
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    const int before = *pushed;
    CHECK(before > 0);
    for (int i = 0; i < EXECUTIONS; i++) {
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
        CHECK_STR(last, "dev (MIOPEN_ENGINE)");
        CHECK(*depth == 0);
    }
    CHECK_EQ(*pushed - before, 2 * EXECUTIONS);
    CHECK(data.y[0] == STANDIN_ANSWER);
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(handle));
    CHECK(*depth == 0);
    exit(check_result());
}

static int count_in(const char* text, const char* part)
{
    int count = 0;
    for (const char* at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

int main(void)
{
    static const char path[] = "device_trace.json";
    static char text[1 << 20];
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        setenv("HIPDNN_TRACE_FILE", path, 1);
        child();
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    read_text(path, text, sizeof text);
    CHECK_EQ(count_in(text, "{\"ph\":\"X\",\"cat\":\"device\",\"name\":\"dev (MIOPEN_ENGINE)\","), EXECUTIONS);
    CHECK_EQ(count_in(text, "{\"ph\":\"X\",\"cat\":\"step\",\"name\":\"miopenRunSolution (nodes 0)\","), EXECUTIONS);
    CHECK(strstr(text, "\"args\":{\"name\":\"device\"}") != NULL);
    remove(path);
    return check_result();
}
