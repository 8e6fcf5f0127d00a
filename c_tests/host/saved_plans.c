/* SPDX-License-Identifier: MIT */

/* Plugins that save and load execution contexts, correctly or not: statuses, and the plugins' arguments. */
#include "../saved.h"
#include "host.h"

#define THREW "the plugin threw an exception"
#define STATUS_3 "Status: HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR(3), Error: the stub fails in hipdnn"

/* A saved plan of the plugin "saves". */
static blob good;

static void begin(const char* plugin)
{
    check_about("%s", plugin);
    use_plugin(plugin);
    start_recording();
}

static void expect_recorded(int count, const char* part)
{
    const int found = count_in(recorded(), part);
    if (found != count) {
        fprintf(stderr, "  %s\n", part);
    }
    CHECK_EQ(found, count);
}

static void make_good(void)
{
    begin("saves");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    good = save_plan(plan);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    /* The newer spelling is preferred. Asking for the size and fetching are one save. */
    expect_recorded(1, "\nSerializeExecutionContextWithEngineId handle=1 engine=");
    expect_recorded(0, "\nSerializeExecutionContext ");
    expect_recorded(1, "\nDestroySerializedExecutionContext handle=1\n");
}

/* A loaded plan runs, and gives its context back to the plugin that loaded it. */
static void test_life(const char* plugin)
{
    begin(plugin);
    hipdnnHandle_t handle = make_handle();
    hipdnnHandle_t other = make_handle();
    hipdnnBackendDescriptor_t plan = load_plan(handle, good);
    expect_recorded(1, "\nCreateExecutionContextFromSerialized handle=1 size=12 engine=");
    expect_recorded(1, "\nGetWorkspaceSizeFromExecutionContext handle=1 context=1\n");
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(other, plan, pack));
    expect_recorded(1, "\nExecuteOpGraph handle=2 context=1 ");
    drop(pack);
    free(data.workspace);

    /* Saved again */
    const blob again = save_plan(plan);
    CHECK(again.size == good.size && memcmp(again.bytes, good.bytes, good.size) == 0);
    free(again.bytes);
    expect_recorded(1, strcmp(plugin, "saves_older") == 0 ? "\nSerializeExecutionContext handle=1 context=1\n"
                                                          : "\nSerializeExecutionContextWithEngineId handle=1 engine=");

    CHECK_OK(hipdnnDestroy(handle));
    CHECK_OK(hipdnnDestroy(other));
    /* The plan keeps its plugin's handle. */
    expect_recorded(0, "\nDestroy handle=1");
    drop(plan);
    expect_recorded(1, "\nDestroyExecutionContext handle=1 context=1\nDestroy handle=1\n");
}

typedef struct {
    const char* plugin;
    hipdnnStatus_t status;
    const char* part;
} row;

static void test_save(const row* r)
{
    begin(r->plugin);
    size_t size = 4711;
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    if (r->status == HIPDNN_STATUS_SUCCESS) {
        CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &size, NULL));
        CHECK(size != 4711);
        size = 4711;
    } else {
        CHECK_FAILS(r->status, r->part, hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &size, NULL));
        CHECK_FAILS(r->status, r->part, hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, 0, &size, NULL));
        CHECK_OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, NULL, 0, &size, NULL));
        size = 4711;
    }
    CHECK_EQ(size, 4711);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_load(const row* r)
{
    begin(r->plugin);
    hipdnnBackendDescriptor_t plan = NULL;
    hipdnnHandle_t handle = make_handle();
    if (r->status == HIPDNN_STATUS_SUCCESS) {
        CHECK_OK(load(handle, &plan, good));
        drop(plan);
        expect_recorded(1, "\nDestroyExecutionContext");
    } else {
        CHECK_FAILS(r->status, r->part, load(handle, &plan, good));
        CHECK(plan == NULL);
        /* The created context is destroyed. */
        const int made =
            count_in(recorded(), "\nCreateExecutionContextFromSerialized") - count_in(recorded(), " context=0\n");
        expect_recorded(made > 0 && strncmp(r->plugin, "load_workspace", 14) == 0 ? 1 : 0, "\nDestroyExecutionContext");
    }
    CHECK_OK(hipdnnDestroy(handle));
}

#define SAVES "hipdnnEnginePluginSerializeExecutionContextWithEngineId"

static const row SAVE_ROWS[] = {
    {"good", HIPDNN_STATUS_NOT_SUPPORTED, "plugin Stub cannot save and load execution plans: it has no " SAVES ", "},
    {"g1", HIPDNN_STATUS_NOT_SUPPORTED, "cannot save and load execution plans"},
    {"save_lacks_save", HIPDNN_STATUS_NOT_SUPPORTED, "it has no " SAVES},
    {"save_lacks_give_back", HIPDNN_STATUS_NOT_SUPPORTED,
     "it has no hipdnnEnginePluginDestroySerializedExecutionContext"},
    {"save_lacks_load", HIPDNN_STATUS_NOT_SUPPORTED,
     "it has no hipdnnEnginePluginCreateExecutionContextFromSerialized"},
    {"save_fails", HIPDNN_STATUS_PLUGIN_ERROR, "Failed to serialize execution context. " STATUS_3},
    {"save_older_fails", HIPDNN_STATUS_PLUGIN_ERROR, "Failed to serialize execution context. " STATUS_3},
    {"save_null", HIPDNN_STATUS_PLUGIN_ERROR, "gave 12 bytes at 0x0"},
    {"save_empty", HIPDNN_STATUS_PLUGIN_ERROR, "gave 0 bytes at 0x"},
    {"save_huge", HIPDNN_STATUS_PLUGIN_ERROR, "gave 18446744073709551615 bytes"},
    {"save_just_too_large", HIPDNN_STATUS_PLUGIN_ERROR, "gave 9223372036854775808 bytes"},
    {"save_silent", HIPDNN_STATUS_PLUGIN_ERROR, "gave 0 bytes at 0x0"},
    {"saves_newer", HIPDNN_STATUS_SUCCESS, ""},
    {"saves_older", HIPDNN_STATUS_SUCCESS, ""},
    {"give_back_fails", HIPDNN_STATUS_SUCCESS, ""},
    {"throws_in_save", HIPDNN_STATUS_INTERNAL_ERROR, "Failed to serialize execution context: " THREW},
    {"throws_in_save_older", HIPDNN_STATUS_INTERNAL_ERROR, "Failed to serialize execution context: " THREW},
    {"throws_in_give_back", HIPDNN_STATUS_SUCCESS, ""},
};

#define LOADING "Failed to create execution context from serialized data"

static const row LOAD_ROWS[] = {
    {"saves", HIPDNN_STATUS_SUCCESS, ""},
    {"saves_newer", HIPDNN_STATUS_SUCCESS, ""},
    {"saves_older", HIPDNN_STATUS_SUCCESS, ""},
    {"save_fails", HIPDNN_STATUS_SUCCESS, ""},
    {"saves_other_name", HIPDNN_STATUS_NOT_SUPPORTED, "made by another plugin: \"Stub\", the plugin here is \"Twin\""},
    {"saves_other_version", HIPDNN_STATUS_NOT_SUPPORTED,
     "made by version \"1.2.3\" of plugin Stub, the version here is \"1.2.4\""},
    {"saves_other_engine", HIPDNN_STATUS_INTERNAL_ERROR, " of plugin Stub 1.2.3, which no plugin of the handle has"},
    {"create_fails", HIPDNN_STATUS_INTERNAL_ERROR, "which no plugin of the handle has"},
    {"good", HIPDNN_STATUS_NOT_SUPPORTED, "plugin Stub cannot save and load execution plans"},
    {"save_lacks_load", HIPDNN_STATUS_NOT_SUPPORTED, "cannot save and load execution plans"},
    {"load_fails", HIPDNN_STATUS_PLUGIN_ERROR, LOADING ". " STATUS_3},
    {"load_not_applicable", HIPDNN_STATUS_PLUGIN_ERROR, LOADING ". Status: HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE(5)"},
    {"load_null", HIPDNN_STATUS_INTERNAL_ERROR, "gave a null execution context"},
    {"load_silent", HIPDNN_STATUS_INTERNAL_ERROR, "gave a null execution context"},
    {"load_workspace_fails", HIPDNN_STATUS_PLUGIN_ERROR,
     "Failed to get workspace size from execution context. " STATUS_3},
    {"load_workspace_huge", HIPDNN_STATUS_INTERNAL_ERROR, "18446744073709551615"},
    {"throws_in_load", HIPDNN_STATUS_INTERNAL_ERROR, LOADING ": " THREW},
};

/* The workspace is what the loaded context says, whatever was saved. */
static void test_workspace(void)
{
    begin("load_workspace");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t plan = load_plan(handle, good);
    CHECK_EQ(plan_workspace(plan), 4096);
    drop(plan);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A plugin that saves a plan in different bytes each time: the size last returned is the size fetched. */
static void test_growing(void)
{
    begin("save_grows");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    size_t sizes[3] = {0};
    uint8_t bytes[1024];
    for (int round = 0; round < 20; round++) {
        CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &sizes[0], NULL));
        CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, 0, &sizes[1], NULL));
        CHECK(sizes[1] >= sizes[0]);
        CHECK_OK(hipdnnBackendGetSerializedExecutionPlan_ext(plan, sizes[1], &sizes[2], bytes));
        CHECK_EQ(sizes[2], sizes[1]);
        CHECK_OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, 0, &sizes[0], NULL));
        blob both = make_blob(sizes[0]);
        CHECK_OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, both.size, &sizes[1], both.bytes));
        CHECK_EQ(sizes[1], sizes[0]);
        free(both.bytes);
    }
    expect_recorded(60, "\nSerializeExecutionContextWithEngineId");
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* A plugin that gives fewer bytes than its plan has does not get it back. */
static void test_short(void)
{
    begin("save_short");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    hipdnnBackendDescriptor_t loaded = NULL;
    const blob saved = save_plan(plan);
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "HIPDNN_PLUGIN_STATUS_INVALID_VALUE", load(handle, &loaded, saved));
    CHECK(loaded == NULL);
    free(saved.bytes);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* No plugin, and the engine of another one */
static void test_without_plugin(void)
{
    hipdnnBackendDescriptor_t plan = NULL;
    check_about("no plugin");
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    hipdnnHandle_t handle = make_handle();
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "which no plugin of the handle has", load(handle, &plan, good));
    CHECK(plan == NULL);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    make_good();
    test_life("saves_newer");
    test_life("saves_older");
    for (int64_t i = 0; i < COUNT(SAVE_ROWS); i++) {
        test_save(&SAVE_ROWS[i]);
    }
    for (int64_t i = 0; i < COUNT(LOAD_ROWS); i++) {
        test_load(&LOAD_ROWS[i]);
    }
    test_workspace();
    test_growing();
    test_short();
    test_without_plugin();
    free(good.bytes);
    return check_result();
}
