/* SPDX-License-Identifier: MIT */

/*
 * A MIOpen that lacks functions, like an older one: the engines apply to what it supports, and otherwise name the missing function,
 * before a configuration or a plan is made.
 *
 * standin_hip.c and standin_miopen.c stand for the libraries.
 */
#include "../every_operation.h"

static void check_operation(hipdnnHandle_t handle, const char* type, const char* missing)
{
    const row* r = ROWS;
    while (strcmp(r->type, type) != 0) {
        r++;
        REQUIRE(r < ROWS + sizeof ROWS / sizeof ROWS[0]);
    }
    trial t = {.handle = handle};
    begin_trial(&t, r, "float");
    check_about("%s", type);
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(read_json(&graph, t.text));
    finalize_with(graph, handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    if (missing == NULL) {
        CHECK(count_results(heuristic) > 0);
    } else {
        CHECK_EQ(count_results(heuristic), 0);
        CHECK_LAST_ERROR(missing);
    }
    drop(heuristic);
    drop(graph);
    end_trial(&t);
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    check_operation(handle, "ConvolutionFwdAttributes", NULL);
    check_operation(handle, "LayernormAttributes", "this MIOpen has no miopenLayerNormForward");
    check_operation(handle, "RMSNormAttributes", "this MIOpen has no miopenT5LayerNormForward");
    check_operation(handle, "RMSNormBackwardAttributes", "this MIOpen has no miopenT5LayerNormBackward");
    check_operation(handle, "ReductionAttributes", "this MIOpen has no miopenCreateReduceTensorDescriptor");
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
