/* SPDX-License-Identifier: MIT */

/* HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: a plan as JSON. host/descriptions.c has what plugins may get wrong. */
#include "../plan_text.h"

static void test_arguments(hipdnnBackendDescriptor_t plan)
{
    char text[8] = "xxxxxxx";
    int64_t count = 4711;
    int64_t size = 0;
    const hipdnnBackendAttributeName_t name = HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    hipdnnBackendDescriptor_t open = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    CHECK_FAILS(HIPDNN_STATUS_NOT_INITIALIZED, "finalized", read_plan_text(open, 8, &count, text));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "attributeName",
                hipdnnBackendSetAttribute(open, name, HIPDNN_TYPE_CHAR, 8, text));
    drop(open);
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "attributeType",
                hipdnnBackendGetAttribute(plan, name, HIPDNN_TYPE_INT64, 8, &count, text));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "requestedElementCount", read_plan_text(plan, -1, &count, text));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "arrayOfElements", read_plan_text(plan, 8, &count, NULL));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "elementCount", read_plan_text(plan, 0, NULL, NULL));
    CHECK(count == 4711 && strcmp(text, "xxxxxxx") == 0);
    /* Cut to the room there is, with a NUL. */
    CHECK_OK(read_plan_text(plan, 4, &size, text));
    CHECK_EQ(size, 4);
    CHECK(text[0] == '{' && text[3] == '\0' && text[4] == 'x');
    CHECK_OK(read_plan_text(plan, 1, NULL, text));
    CHECK(text[0] == '\0');
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_named_graph(handle, "the \"net\"");
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    test_arguments(plan);
    char* const text = plan_text(plan);
    const char* const parts[] = {"\"engine\":\"",      "\"engine_id\":", "\"graph\":\"the \\\"net\\\"\"",
                                 "\"knobs\":{}",       "\"plugin\":\"",  "\"plugin_version\":\"",
                                 "\"workspace_size\":"};
    for (int64_t i = 0; i < COUNT(parts); i++) {
        CHECK_CONTAINS(text, parts[i]);
    }
    /* The CPU engines tell what they do; others need not. */
    if (strstr(text, "\"plugin\":\"CPU\"") != NULL) {
        const char* const told[] = {"\"steps\":[{\"algorithm\":\"",
                                    "\"nodes\":[0",
                                    "\"operation\":\"ConvolutionForward",
                                    "\"isa\":\"",
                                    "\"bytes\":",
                                    "\"flops\":",
                                    "\"threads\":"};
        for (int64_t i = 0; i < COUNT(told); i++) {
            CHECK_CONTAINS(text, told[i]);
        }
    }
    free(text);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
