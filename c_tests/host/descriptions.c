/* SPDX-License-Identifier: MIT */

/* Plans as JSON: a plugin's description of its steps is passed on if valid, and omitted otherwise. */
#include "../plan_text.h"
#include "../saved.h"
#include "host.h"

#define LOG "log.txt"
#define STEPS "\"steps\""

typedef struct {
    const char* plugin;
    const char* told;   /* in the text; null: no steps */
    const char* logged; /* null: no line of the plugin */
} row;

static const row ROWS[] = {
    {"describes", STEPS ":[{\"algorithm\":\"stub\",\"nodes\":[0]}]", NULL},
    {"good", NULL, NULL},
    {"describe_not_applicable", NULL, NULL},
    {"describes_no_steps", NULL, "has no list of objects named steps"},
    {"describes_no_json", NULL, "is not JSON"},
    {"describes_deeply", NULL, "recursion limit"},
    {"describes_not_utf8", NULL, "is not UTF-8"},
    {"describe_fails", NULL, "Failed to describe execution context. Status: HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR(3)"},
    {"describe_silent", NULL, "has 0 bytes, expected 1 to 1048576"},
    {"describe_empty", NULL, "has 0 bytes, expected 1 to 1048576"},
    {"describe_short", NULL, "is not JSON"},
    {"describe_huge", NULL, "has 18446744073709551615 bytes"},
    {"describe_grows", NULL, "is not JSON"},
    {"throws_in_describe", NULL, "Failed to describe execution context: the plugin threw an exception"},
};

static void expect_parts(const char* text, bool is_loaded)
{
    CHECK(text[0] == '{' && text[strlen(text) - 1] == '}');
    CHECK_CONTAINS(text, "\"engine\":\"STUB_ENGINE\"");
    CHECK_CONTAINS(text, "\"engine_id\":3925446313296041884");
    CHECK_CONTAINS(text, "\"plugin\":\"Stub\"");
    CHECK_CONTAINS(text, "\"plugin_version\":\"1.2.3\"");
    CHECK_CONTAINS(text, "\"workspace_size\":0");
    CHECK((strstr(text, "\"knobs\":{}") == NULL) == is_loaded);
    CHECK((strstr(text, "\"graph\":\"net\"") == NULL) == is_loaded);
}

static void test_row(const row* r)
{
    static char log[1 << 16];
    check_about("%s", r->plugin);
    use_plugin(r->plugin);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_named_graph(handle, "net");
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    /* The function is called only for a program that asks. */
    CHECK_EQ(count_in(recorded(), "DescribeExecutionContext"), 0);
    fclose(fopen(LOG, "wb"));
    char* const text = plan_text(plan);
    expect_parts(text, false);
    if (r->told != NULL) {
        CHECK_CONTAINS(text, r->told);
    } else {
        CHECK(strstr(text, STEPS) == NULL);
    }
    read_text(LOG, log, sizeof log);
    if (r->logged != NULL) {
        CHECK_CONTAINS(log, "[warning]");
        CHECK_CONTAINS(log, "plugin Stub: ");
        CHECK_CONTAINS(log, r->logged);
    } else {
        CHECK_EQ((long long)strlen(log), 0);
    }
    free(text);
    drop(pack);
    drop(plan);
    drop(graph);
    free(data.workspace);
    CHECK_OK(hipdnnDestroy(handle));
}

/* What was chosen is in the text; a plan that was loaded has neither the graph nor the choices. */
static void test_sources(void)
{
    check_about("sources");
    use_plugin("saves");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_named_graph(handle, "net");
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    blob saved = save_plan(plan);
    hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
    char* const text = plan_text(loaded);
    expect_parts(text, true);
    free(text);
    free(saved.bytes);
    drop(loaded);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    setenv("HIPDNN_LOG_FILE", LOG, 1);
    setenv("HIPDNN_LOG_LEVEL", "warn", 1);
    for (int64_t i = 0; i < COUNT(ROWS); i++) {
        test_row(&ROWS[i]);
    }
    test_sources();
    return check_result();
}
