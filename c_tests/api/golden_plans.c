/* SPDX-License-Identifier: MIT */

/*
 * Files of earlier days stay readable: a plan and a container without a word on where they come from are loaded and
 * executed; a sealed plan, of an invented device, is read as far as to where that is found out.
 *
 * plugins/cpu/examples/golden_plans.rs made the files.
 */
#include "../saved.h"

static blob read_golden(const char* name)
{
    char path[4096];
    const char* const slash = strrchr(__FILE__, '/');
    REQUIRE(slash != NULL);
    snprintf(path, sizeof path, "%.*s/../golden/%s", (int)(slash - __FILE__), __FILE__, name);
    check_about("%s", name);
    FILE* const file = fopen(path, "rb");
    REQUIRE(file != NULL);
    static uint8_t bytes[1 << 16];
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    REQUIRE(size < sizeof bytes);
    blob golden = make_blob(size);
    memcpy(golden.bytes, bytes, size);
    return golden;
}

static void test_execute(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan)
{
    buffers data;
    char name[64] = "";
    size_t length = sizeof name;
    int64_t id = 0;
    CHECK_OK(hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT, HIPDNN_TYPE_INT64, 1,
                                       NULL, &id));
    CHECK_OK(hipdnnGetEngineNameById_ext(handle, id, name, &length));
    CHECK_STR(name, "CPU_REFERENCE_ENGINE");
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    drop(pack);
    free(data.workspace);
}

int main(void)
{
    hipdnnHandle_t handle = make_handle();

    const blob unsealed = read_golden("plan_1_unsealed.bin");
    hipdnnBackendDescriptor_t plan = load_plan(handle, unsealed);
    test_execute(handle, plan);
    drop(plan);
    free(unsealed.bytes);

    const blob container = read_golden("container_1.bin");
    CHECK_EQ(contents(container), HIPDNN_SERIALIZED_CONTENT_GRAPH | HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN);
    plan = load_plan(handle, container);
    test_execute(handle, plan);
    drop(plan);
    hipdnnBackendDescriptor_t graph = NULL;
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&graph, container.bytes, container.size));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    drop(graph);
    free(container.bytes);

    /* The seal holds, the plugin is the right one; what it is refused for is its version, or the device. */
    const blob sealed = read_golden("plan_1_sealed.bin");
    plan = NULL;
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "the plan was made by ", load(handle, &plan, sealed));
    CHECK_STATUS(load(handle, &plan, sealed), HIPDNN_STATUS_NOT_SUPPORTED);
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "of plugin CPU, the version here is") != NULL ||
          strstr(text, "another device: \"a processor that nobody has\"") != NULL);
    CHECK(plan == NULL);
    free(sealed.bytes);

    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
