/* SPDX-License-Identifier: MIT */

/*
 * The MIOpen engines where a function of HIP or MIOpen throws a C++ exception, as the real ones do when they are short of memory:
 * the call that got there says so, and the process goes on.
 *
 * Everything here is a stand-in, standin_hip.c and standin_miopen.c, which throw in the function that STANDIN_THROWS names.
 */
#include "forwarding.h"

static void check_threw(hipdnnStatus_t status, const char* function)
{
    char text[1 << 14] = "";
    char expected[200];
    hipdnnGetLastErrorString(text, sizeof text);
    snprintf(expected, sizeof expected, "%s threw a C++ exception: std::bad_alloc", function);
    if (status == HIPDNN_STATUS_SUCCESS || strstr(text, expected) == NULL) {
        fprintf(stderr, "%s: status %d: %s\n", function, (int)status, text);
        check_report(false, __FILE__, __LINE__, function);
    }
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    setenv("STANDIN_THROWS", "hipGetDeviceCount", 1);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    CHECK_EQ(count_results(heuristic), 0);
    check_threw(HIPDNN_STATUS_NOT_SUPPORTED, "hipGetDeviceCount");
    drop(heuristic);
    static const char* const planning[] = {"miopenCreateWithStream", "miopenFindSolutions"};
    for (size_t i = 0; i < sizeof planning / sizeof *planning; i++) {
        setenv("STANDIN_THROWS", planning[i], 1);
        hipdnnBackendDescriptor_t config = open_config(graph);
        check_threw(hipdnnBackendFinalize(config), planning[i]);
        drop(config);
    }
    unsetenv("STANDIN_THROWS");
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    for (int round = 0; round < 100; round++) {
        setenv("STANDIN_THROWS", "miopenRunSolution", 1);
        check_threw(hipdnnBackendExecute(handle, plan, pack), "miopenRunSolution");
        unsetenv("STANDIN_THROWS");
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
        CHECK(data.y[0] == STANDIN_ANSWER);
    }
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
