/* SPDX-License-Identifier: MIT */

/* The knobs of CPU_ENGINE through the C API: threads that really are started, results that do not show them, filters that
   are read once, and processors of threads that are not the engine's. */
#define _GNU_SOURCE

#include "../fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

enum {
    X = 1,
    DY = 2,
    DW = 3,
    BATCH = 16,
    SIDES = 28,
    MAPS = 16,
    IMAGES = BATCH * MAPS * SIDES * SIDES,
    TAPS = MAPS * MAPS * 9
};

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;
static float x[IMAGES];
static float dy[IMAGES];

/* The number of threads of this process */
static int count_threads(void)
{
    int count = 0;
    DIR* const tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        count += task->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

/* So many threads, but at most one for each processor of this process */
static int at_most_one_a_processor(int threads)
{
    cpu_set_t processors;
    REQUIRE(sched_getaffinity(0, sizeof processors, &processors) == 0);
    const int count = CPU_COUNT(&processors);
    return threads < count ? threads : count;
}

/* The gradient of a filter, whose sums are divided among threads where it is computed by scalar products */
static hipdnnBackendDescriptor_t make_gradient_graph(void)
{
    hipdnnBackendDescriptor_t tensors[] = {make_tensor(X, BATCH, MAPS, SIDES, SIDES, false),
                                           make_tensor(DY, BATCH, MAPS, SIDES, SIDES, false),
                                           make_tensor(DW, MAPS, MAPS, 3, 3, false)};
    hipdnnBackendDescriptor_t operation = make(HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, tensors[0]);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, tensors[1]);
    put_descriptor(operation, HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, tensors[2]);
    put_convolution(operation, 1);
    for (int64_t i = 0; i < COUNT(tensors); i++) {
        drop(tensors[i]);
    }
    return graph_of_one(handle, operation);
}

/* The gradient with these settings; threads below 0 leaves the knobs alone. */
static void compute(int64_t threads, int64_t deterministic, float* dw)
{
    hipdnnBackendDescriptor_t config = open_config(graph);
    if (threads >= 0) {
        /* With the first form the sums are those of scalar products. */
        hipdnnBackendDescriptor_t choices[] = {make_knob_choice("threads", threads),
                                               make_knob_choice("deterministic", deterministic),
                                               make_knob_choice("convolution", 1)};
        put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, COUNT(choices), choices);
        for (int64_t i = 0; i < COUNT(choices); i++) {
            drop(choices[i]);
        }
    }
    REQUIRE_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    drop(config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    const int64_t uids[] = {X, DY, DW};
    void* const pointers[] = {x, dy, dw};
    execute_and_drop(handle, plan, 3, uids, pointers);
}

/* Only the first execution reads a filter that is promised to be constant, unless another one is bound. */
static void check_constant_weights(void)
{
    hipdnnBackendDescriptor_t convolution = make_graph(handle);
    for (int64_t promised = 0; promised <= 1; promised++) {
        check_about("%s", promised == 1 ? "promised" : "not promised");
        hipdnnBackendDescriptor_t config = open_config(convolution);
        hipdnnBackendDescriptor_t choice = make_knob_choice("constant_weights", promised);
        put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &choice);
        drop(choice);
        REQUIRE_OK(hipdnnBackendFinalize(config));
        hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        drop(config);
        REQUIRE_OK(hipdnnBackendFinalize(plan));
        buffers own;
        buffers others;
        fill_buffers(&own, plan);
        fill_buffers(&others, plan);
        hipdnnBackendDescriptor_t packs[] = {make_pack(&own), make_pack(&others)};
        CHECK_OK(hipdnnBackendExecute(handle, plan, packs[0]));
        CHECK(is_convolved(&own));
        /* Breaks the promise to detect who reads the filter. */
        for (int i = 0; i < W_COUNT; i++) {
            own.w[i] += 1.0f;
            others.w[i] -= 1.0f;
        }
        CHECK_OK(hipdnnBackendExecute(handle, plan, packs[0]));
        CHECK(is_convolved(&own) == (promised == 0));
        CHECK_OK(hipdnnBackendExecute(handle, plan, packs[1]));
        CHECK(is_convolved(&others));
        drop(packs[0]);
        drop(packs[1]);
        drop(plan);
        free(own.workspace);
        free(others.workspace);
    }
    check_about("%s", "");
    drop(convolution);
}

/* A plan of a configuration with these settings, which must need the same workspace as one without. */
static hipdnnBackendDescriptor_t plan_of_choices(int64_t count, const hipdnnBackendDescriptor_t* choices)
{
    int64_t sizes[2] = {-1, -2};
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    for (int i = 0; i < 2; i++) {
        hipdnnBackendDescriptor_t config = open_config(graph);
        if (i == 1) {
            put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, choices);
        }
        CHECK_OK(hipdnnBackendFinalize(config));
        CHECK_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, 1, NULL,
                                           &sizes[i]));
        if (i == 1) {
            put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        }
        drop(config);
    }
    CHECK_EQ(sizes[0], sizes[1]);
    return plan;
}

/* The engine refuses settings when the plan is made. */
static void expect_refused(int64_t count, const hipdnnBackendDescriptor_t* choices, const char* part)
{
    hipdnnBackendDescriptor_t plan = plan_of_choices(count, choices);
    CHECK_FAILS(HIPDNN_STATUS_PLUGIN_ERROR, part, hipdnnBackendFinalize(plan));
    drop(plan);
}

static void expect_value_refused(const char* id, int64_t value, const char* part)
{
    hipdnnBackendDescriptor_t choice = make_knob_choice(id, value);
    expect_refused(1, &choice, part);
    drop(choice);
}

/* A value of another type, and a knob that is set twice */
static void check_other_refusals(void)
{
    const double half = 0.5;
    hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, 7, "threads");
    put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_DOUBLE, 1, &half);
    REQUIRE_OK(hipdnnBackendFinalize(choice));
    expect_refused(1, &choice, "knob \"threads\" is 0.5, which is a double precision number, expected an integer");
    drop(choice);
    hipdnnBackendDescriptor_t choices[] = {make_knob_choice("threads", 1), make_knob_choice("threads", 2)};
    expect_refused(2, choices, "engine CPU_ENGINE: knob \"threads\" is set twice, expected once");
    drop(choices[0]);
    drop(choices[1]);
}

static cpu_set_t processors_of(pthread_t thread)
{
    cpu_set_t processors;
    REQUIRE(pthread_getaffinity_np(thread, sizeof processors, &processors) == 0);
    return processors;
}

static void* compute_in_turns(void* barrier)
{
    static float dw[TAPS];
    /* Its processors are read and set. */
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    compute(2, 0, dw);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

/* Threads that execute, and one that keeps to a processor, may use the same processors afterwards. The engine moves only its own. */
static void check_affinity(void)
{
    static float dw[TAPS];
    pthread_barrier_t barrier;
    pthread_t other;
    REQUIRE(pthread_barrier_init(&barrier, NULL, 2) == 0);
    REQUIRE(pthread_create(&other, NULL, compute_in_turns, &barrier) == 0);
    pthread_barrier_wait(&barrier);
    const cpu_set_t all = processors_of(pthread_self());
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &all)) {
        last--;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    REQUIRE(pthread_setaffinity_np(other, sizeof one, &one) == 0);
    for (int i = 0; i < 20; i++) {
        compute(2, 0, dw);
    }
    cpu_set_t now = processors_of(other);
    CHECK(CPU_EQUAL(&now, &one));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    now = processors_of(other);
    CHECK(CPU_EQUAL(&now, &one));
    now = processors_of(pthread_self());
    CHECK(CPU_EQUAL(&now, &all));
    pthread_barrier_wait(&barrier);
    REQUIRE(pthread_join(other, NULL) == 0);
    pthread_barrier_destroy(&barrier);
}

static int warnings;

static void receive(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    const char* const text = "engine CPU_ENGINE: knob \"speed\" is set to 1, expected one of \"threads\", "
                             "\"deterministic\", \"constant_weights\", \"batch_invariant\", \"flush_subnormals\", "
                             "\"convolution\", \"winograd\"; ignored";
    (void)user;
    warnings += severity == HIPDNN_SEV_WARN && strstr(message, text) != NULL;
}

/* A knob that the engine does not have is ignored, with a warning when the plan is made. */
static void check_unknown_knob(void)
{
    hipdnnBackendDescriptor_t choices[] = {make_knob_choice("speed", 1), make_knob_choice("deterministic", 0)};
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_WARN));
    CHECK_OK(hipdnnSetUserLogCallback_ext(receive, HIPDNN_SEV_WARN, HIPDNN_LOG_CALLBACK_SYNC, &warnings));
    hipdnnBackendDescriptor_t plan = plan_of_choices(2, choices);
    CHECK_EQ(warnings, 0);
    CHECK_OK(hipdnnBackendFinalize(plan));
    CHECK_EQ(warnings, 1);
    drop(plan);
    CHECK_OK(hipdnnSetUserLogCallback_ext(receive, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &warnings));
    /* Known knobs beside it are still checked. */
    drop(choices[1]);
    choices[1] = make_knob_choice("threads", -1);
    expect_refused(2, choices, "knob \"threads\" is -1, expected");
    drop(choices[0]);
    drop(choices[1]);
}

int main(void)
{
    static float one[TAPS];
    static float other[TAPS];
    for (int i = 0; i < IMAGES; i++) {
        x[i] = (float)((i * 37) % 1009) / 1009.0f - 0.5f;
        dy[i] = (float)((i * 53) % 1013) / 1013.0f - 0.5f;
    }
    /* What the knob is at 0. Read at the first computation. */
    setenv("HIPDNN_CPU_THREADS", "2", 1);
    handle = make_handle();
    graph = make_gradient_graph();
    CHECK_EQ(count_threads(), 1);
    compute(1, 1, one);
    CHECK_EQ(count_threads(), 1);
    compute(-1, 0, other);
    CHECK_EQ(count_threads(), at_most_one_a_processor(2));
    compute(0, 1, other);
    CHECK_EQ(count_threads(), at_most_one_a_processor(2));
    CHECK(memcmp(one, other, sizeof one) == 0);
    for (int64_t threads = 1; threads <= 4; threads++) {
        check_about("%d threads", (int)threads);
        compute(threads, 1, other);
        CHECK_EQ(count_threads(), at_most_one_a_processor(threads < 2 ? 2 : (int)threads));
        CHECK(memcmp(one, other, sizeof one) == 0);
    }
    /* Without the knob the threads differ, or the comparison above would prove nothing. */
    check_about("%s", "");
    compute(1, 0, one);
    bool differs = false;
    for (int64_t threads = 2; threads <= 4; threads++) {
        compute(threads, 0, other);
        differs = differs || memcmp(one, other, sizeof one) != 0;
    }
    CHECK(differs);

    check_affinity();
    check_constant_weights();
    expect_value_refused("threads", 257,
                         "engine CPU_ENGINE: knob \"threads\" is 257, expected an integer from 0 to 256");
    expect_value_refused("threads", -1, "knob \"threads\" is -1, expected");
    expect_value_refused("deterministic", 2, "knob \"deterministic\" is 2, expected an integer from 0 to 1");
    expect_value_refused("constant_weights", 2, "knob \"constant_weights\" is 2, expected an integer from 0 to 1");
    expect_value_refused("convolution", 16, "knob \"convolution\" is 16, expected an integer from 0 to 15");
    check_other_refusals();
    check_unknown_knob();
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
