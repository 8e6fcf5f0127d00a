/* SPDX-License-Identifier: MIT */

/* The plan cache: when plugins are asked again, who destroys a shared context, and the size limit. */
#include "host.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_recorded(int times, const char* part)
{
    const int found = count_in(recorded(), part);
    CHECK_EQ(found, times);
    if (found != times) {
        fprintf(stderr, "  \"%s\" in\n%s\n", part, recorded());
    }
}

/* A finalized graph of one convolution, with its own name and image size. */
static hipdnnBackendDescriptor_t make_named(hipdnnHandle_t handle, const char* name, int64_t side, int64_t uid)
{
    hipdnnBackendDescriptor_t x = make_tensor(uid, 1, CHANNELS, side, side, false);
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, 1, CHANNELS, side, side, false);
    hipdnnBackendDescriptor_t operation = open_convolution();
    hipdnnBackendDescriptor_t graph = make(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    REQUIRE_OK(hipdnnBackendFinalize(operation));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, HIPDNN_TYPE_CHAR, (int64_t)strlen(name), name);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    drop(x);
    drop(y);
    drop(operation);
    return graph;
}

/* A plan whose graph lives no longer. */
static hipdnnBackendDescriptor_t plan_of(hipdnnBackendDescriptor_t graph)
{
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    drop(graph);
    return plan;
}

/* Two plans look the same, and both run. */
static void expect_alike(hipdnnHandle_t handle, hipdnnBackendDescriptor_t one, hipdnnBackendDescriptor_t other)
{
    buffers data;
    CHECK_EQ(plan_workspace(one), plan_workspace(other));
    fill_buffers(&data, one);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, one, pack));
    CHECK_OK(hipdnnBackendExecute(handle, other, pack));
    drop(pack);
    free(data.workspace);
}

/* The second plan of an equal graph is the first one's, until the handle ends. */
static void test_hit(void)
{
    check_about("hit");
    use_plugin("good");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t first = plan_of(make_named(handle, "first", SIDE, UID_X));
    const int asked = count_in(recorded(), "graph=");
    hipdnnBackendDescriptor_t second = plan_of(make_named(handle, "another name", SIDE, UID_X));
    CHECK(asked > 0);
    expect_recorded(asked, "graph=");
    expect_recorded(1, "\nCreateExecutionContext");
    expect_alike(handle, first, second);
    expect_recorded(2, "\nExecuteOpGraph handle=1 context=1");
    drop(first);
    drop(second);
    expect_recorded(0, "\nDestroyExecutionContext");
    drop(plan_of(make_named(handle, "", SIDE, UID_X)));
    expect_recorded(1, "\nCreateExecutionContext");
    CHECK_OK(hipdnnDestroy(handle));
    expect_recorded(1, "\nDestroyExecutionContext handle=1 context=1\n");
    expect_recorded(1, "\nDestroy handle=1\n");
    const char* const context = strstr(recorded(), "\nDestroyExecutionContext");
    CHECK(context != NULL && strstr(context, "\nDestroy handle=1") != NULL);
}

/* A graph that came as bytes is found again by its bytes. */
static void test_bytes(void)
{
    check_about("bytes");
    static uint8_t bytes[1 << 14];
    size_t size = 0;
    use_plugin("good");
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_named(handle, "bytes", SIDE, UID_X);
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &size, NULL));
    REQUIRE(size <= sizeof bytes);
    REQUIRE_OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, size, &size, bytes));
    drop(graph);
    start_recording();
    for (int round = 0; round < 3; round++) {
        REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&graph, bytes, size));
        put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
        REQUIRE_OK(hipdnnBackendFinalize(graph));
        drop(plan_of(graph));
        expect_recorded(1, "\nCreateExecutionContext");
        expect_recorded(1, "GetApplicableEngineIds handle=");
    }
    /* A changed graph is another one, and the bytes stay unchanged. */
    const int64_t preferred = 4711;
    REQUIRE_OK(hipdnnBackendCreateAndDeserializeGraph_ext(&graph, bytes, size));
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, HIPDNN_TYPE_INT64, 1, &preferred);
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle);
    REQUIRE_OK(hipdnnBackendFinalize(graph));
    drop(plan_of(graph));
    expect_recorded(2, "\nCreateExecutionContext");
    CHECK_OK(hipdnnDestroy(handle));
}

/* Another shape, handle, knob or stream makes another plan. Another uid does not. */
static void test_misses(void)
{
    check_about("misses");
    use_plugin("knobs");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnHandle_t other = make_handle();
    int contexts = 1;
    drop(plan_of(make_named(handle, "", SIDE, UID_X)));
    expect_recorded(contexts, "\nCreateExecutionContext");
    drop(plan_of(make_named(handle, "", SIDE + 1, UID_X)));
    expect_recorded(++contexts, "\nCreateExecutionContext");
    drop(plan_of(make_named(handle, "", SIDE, 17)));
    expect_recorded(contexts, "\nCreateExecutionContext");
    drop(plan_of(make_named(other, "", SIDE, UID_X)));
    expect_recorded(++contexts, "\nCreateExecutionContext");
    drop(plan_of(make_named(other, "", SIDE, UID_X)));
    expect_recorded(contexts, "\nCreateExecutionContext");
    /* Even where it is set to what it is anyway. */
    for (int round = 0; round < 2; round++) {
        hipdnnBackendDescriptor_t graph = make_named(handle, "", SIDE, UID_X);
        hipdnnBackendDescriptor_t plan = plan_with_knob(graph, "count", 3);
        expect_recorded(++contexts, "\nCreateExecutionContext");
        drop(graph);
        drop(plan);
        expect_recorded(round + 1, "\nDestroyExecutionContext");
    }
    CHECK_OK(hipdnnSetStream(other, (hipStream_t)(uintptr_t)0x1230));
    expect_recorded(3, "\nDestroyExecutionContext");
    drop(plan_of(make_named(other, "", SIDE, UID_X)));
    expect_recorded(++contexts, "\nCreateExecutionContext");
    CHECK_OK(hipdnnDestroy(handle));
    CHECK_OK(hipdnnDestroy(other));
    expect_recorded(contexts, "\nDestroyExecutionContext");
}

/* Other plugins, and reloaded ones, do not find earlier plans. */
static void test_reload(void)
{
    check_about("reload");
    static const char* const plugins[] = {"good", "saves_other_version", "good"};
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    for (int i = 0; i < 3; i++) {
        use_plugin(plugins[i]);
        start_recording();
        hipdnnHandle_t handle = make_handle();
        drop(plan_of(make_named(handle, "", SIDE, UID_X)));
        drop(plan_of(make_named(handle, "", SIDE, UID_X)));
        expect_recorded(1, "\nCreateExecutionContext");
        expect_recorded(1, "GetApplicableEngineIds handle=");
        CHECK_OK(hipdnnDestroy(handle));
        expect_recorded(1, "\nDestroyExecutionContext");
        expect_recorded(1, "\nDestroy handle=1");
    }
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_LAZY));
}

/* What fails fails again, and is asked again. */
static void test_failures(void)
{
    check_about("failures");
    use_plugin("context_fails");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    for (int round = 1; round <= 3; round++) {
        hipdnnBackendDescriptor_t graph = make_named(handle, "", SIDE, UID_X);
        hipdnnBackendDescriptor_t plan = open_plan(graph);
        CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, "create execution context", hipdnnBackendFinalize(plan));
        expect_recorded(round, "\nCreateExecutionContext");
        drop(plan);
        drop(graph);
    }
    CHECK_OK(hipdnnDestroy(handle));
}

enum { THREADS = 8, ROUNDS = 100 };

static hipdnnHandle_t shared;

static void* plan_over_and_over(void* own)
{
    hipdnnHandle_t handle = own == NULL ? shared : make_handle();
    for (int round = 0; round < ROUNDS; round++) {
        hipdnnBackendDescriptor_t plan = plan_of(make_named(handle, "", SIDE + round % 3, UID_X));
        buffers data;
        fill_buffers(&data, plan);
        hipdnnBackendDescriptor_t pack = make_pack(&data);
        CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
        drop(pack);
        drop(plan);
        free(data.workspace);
    }
    if (own != NULL) {
        CHECK_OK(hipdnnDestroy(handle));
    }
    return NULL;
}

/* One handle for all threads, or one for each. */
static void test_threads(void)
{
    for (int own = 0; own < 2; own++) {
        pthread_t threads[THREADS];
        check_about(own ? "threads with handles of their own" : "threads with one handle");
        use_plugin("good");
        unsetenv("HIPDNN_STUB_LOG");
        shared = make_handle();
        for (int i = 0; i < THREADS; i++) {
            REQUIRE(pthread_create(&threads[i], NULL, plan_over_and_over, own ? &shared : NULL) == 0);
        }
        for (int i = 0; i < THREADS; i++) {
            REQUIRE(pthread_join(threads[i], NULL) == 0);
        }
        CHECK_OK(hipdnnDestroy(shared));
    }
}

enum { GRAPHS = 20 };

/* Where there is room for few graphs the oldest go, and their contexts, but for those that a plan still has. */
static void test_room(void)
{
    check_about("room");
    use_plugin("good");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t kept = plan_of(make_named(handle, "", SIDE, UID_X));
    for (int i = 1; i < GRAPHS; i++) {
        drop(plan_of(make_named(handle, "", SIDE + i, UID_X)));
    }
    expect_recorded(GRAPHS, "\nCreateExecutionContext");
    expect_recorded(0, "\nDestroyExecutionContext handle=1 context=1\n");
    CHECK(count_in(recorded(), "\nDestroyExecutionContext") >= GRAPHS / 2);
    expect_alike(handle, kept, kept);
    drop(kept);
    expect_recorded(1, "\nDestroyExecutionContext handle=1 context=1\n");
    /* The last one is still there, the first one is not. */
    drop(plan_of(make_named(handle, "", SIDE + GRAPHS - 1, UID_X)));
    expect_recorded(GRAPHS, "\nCreateExecutionContext");
    drop(plan_of(make_named(handle, "", SIDE, UID_X)));
    expect_recorded(GRAPHS + 1, "\nCreateExecutionContext");
    CHECK_OK(hipdnnDestroy(handle));
    expect_recorded(GRAPHS + 1, "\nDestroyExecutionContext");
}

/* Without a cache every plan is made, and ends with its descriptor. */
static void test_off(void)
{
    check_about("off");
    use_plugin("good");
    start_recording();
    hipdnnHandle_t handle = make_handle();
    for (int round = 1; round <= 3; round++) {
        drop(plan_of(make_named(handle, "", SIDE, UID_X)));
        expect_recorded(round, "GetApplicableEngineIds handle=");
        expect_recorded(round, "\nCreateExecutionContext");
        expect_recorded(round, "\nDestroyExecutionContext");
    }
    CHECK_OK(hipdnnDestroy(handle));
}

static const char* plugin;
static int made, loaded;
/* What the knob is set to; 0 leaves it alone. */
static int64_t knob;

/* One plan, which the plugin makes or loads. */
static void test_stored(void)
{
    check_about("stored, %s", plugin);
    use_plugin(plugin);
    start_recording();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_named(handle, made == 1 ? "one" : "two", SIDE, UID_X);
    hipdnnBackendDescriptor_t plan = knob == 0 ? make_plan(graph) : plan_with_knob(graph, "count", knob);
    drop(graph);
    expect_recorded(made, "\nCreateExecutionContext handle=");
    expect_recorded(loaded, "\nCreateExecutionContextFromSerialized handle=");
    expect_alike(handle, plan, plan);
    drop(plan);
    CHECK_OK(hipdnnDestroy(handle));
    expect_recorded(1, "\nDestroyExecutionContext");
}

static void expect_files(int expected)
{
    int count = 0;
    DIR* const folder = opendir("plans");
    REQUIRE(folder != NULL || expected == 0);
    for (const struct dirent* entry = folder == NULL ? NULL : readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
        CHECK(entry->d_name[0] == '.' || strstr(entry->d_name, ".plan") != NULL);
    }
    CHECK_EQ(count, expected);
    if (folder != NULL) {
        closedir(folder);
    }
}

/* Cuts the stored plans short, or changes a byte of them. */
static void damage(bool cut)
{
    DIR* const folder = opendir("plans");
    REQUIRE(folder != NULL);
    for (const struct dirent* entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[512];
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "plans/%.200s", entry->d_name);
        FILE* const file = fopen(path, "r+b");
        REQUIRE(file != NULL);
        if (cut) {
            REQUIRE(ftruncate(fileno(file), 100) == 0);
        } else {
            REQUIRE(fseek(file, -9, SEEK_END) == 0);
            const int byte = fgetc(file);
            REQUIRE(fseek(file, -9, SEEK_END) == 0 && fputc(byte ^ 1, file) != EOF);
        }
        fclose(file);
    }
    closedir(folder);
}

/* Runs a test in its own process with this value of the variable. */
static void with_bytes(const char* value, void (*test)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        setenv("HIPDNN_PLAN_CACHE_BYTES", value, 1);
        test();
        fflush(NULL);
        _exit(check_result());
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void expect_stored(const char* name, bool is_loaded, int files)
{
    plugin = name;
    made = !is_loaded;
    loaded = is_loaded;
    with_bytes("", test_stored);
    expect_files(files);
}

/* The next process finds only intact plans of plugins that can save, of the same version, and only if a folder is set. */
static void test_disk(void)
{
    expect_stored("saves", false, 0);
    setenv("HIPDNN_PLAN_CACHE_DIR", "plans", 1);
    expect_stored("good", false, 0);
    expect_stored("saves", false, 1);
    expect_stored("saves", true, 1);
    expect_stored("saves_other_version", false, 2);
    expect_stored("saves", true, 2);
    for (int cut = 0; cut < 2; cut++) {
        damage(cut == 1);
        expect_stored("saves", false, 2);
        expect_stored("saves", true, 2);
    }
    /* Each setting of a knob has its own plan, if the plugin says that it may be shared. */
    for (knob = 2; knob < 4; knob++) {
        expect_stored("knobs_saves", false, (int)knob);
        expect_stored("shares_nothing_saves", false, (int)knob);
        expect_stored("shares_knobs_saves", false, (int)knob + 1);
        expect_stored("shares_knobs_saves", true, (int)knob + 1);
        /* A plugin without that statement does not get plans that another one stored. */
        expect_stored("knobs_saves", false, (int)knob + 1);
    }
    knob = 0;
    expect_stored("shares_knobs_saves", true, 4);
    /* Where no file can be written, plans are made. */
    setenv("HIPDNN_PLAN_CACHE_DIR", "/dev/null/plans", 1);
    expect_stored("saves", false, 4);
    unsetenv("HIPDNN_PLAN_CACHE_DIR");
}

int main(void)
{
    /* Before this process has read the variable. */
    with_bytes("0", test_off);
    with_bytes("100000", test_room);
    with_bytes("no number", test_hit);
    test_disk();
    test_hit();
    test_bytes();
    test_misses();
    test_reload();
    test_failures();
    test_threads();
    return check_result();
}
