/* SPDX-License-Identifier: MIT */

/* Several threads: a last error each, descriptors of their own, one plan for all, and objects destroyed while in use. */
#include "../fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 300 };

static hipdnnHandle_t handle;
static hipdnnBackendDescriptor_t graph;
static hipdnnBackendDescriptor_t plan;
static atomic_int failures;
/* A descriptor that one thread makes and destroys while the others use it */
static _Atomic(hipdnnBackendDescriptor_t) shared;
static atomic_bool stop;

/* The check macros print only their location; in a loop of threads, this tells what failed. */
static void note(bool good, const char* what)
{
    if (!good) {
        fprintf(stderr, "in a thread: %s\n", what);
        atomic_fetch_add(&failures, 1);
    }
}

static void run(void* (*work)(void*))
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_EQ(atomic_load(&failures), 0);
}

/* Each thread makes another error and must read its own. */
static void* last_errors(void* number)
{
    const int own = *(const int*)number;
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnPeekLastErrorString_ext(text, sizeof text);
    note(text[0] == '\0', "a new thread has no last error");
    for (int round = 0; round < ROUNDS; round++) {
        hipdnnBackendDescriptor_t descriptor = NULL;
        char expected[64];
        snprintf(expected, sizeof expected, "%d", 5000 + own);
        note(hipdnnBackendCreateDescriptor((hipdnnBackendDescriptorType_t)(5000 + own), &descriptor) ==
                 HIPDNN_STATUS_NOT_SUPPORTED,
             "an unknown type is refused");
        hipdnnPeekLastErrorString_ext(text, sizeof text);
        note(strstr(text, expected) != NULL, "the last error is the thread's own");
        hipdnnGetLastErrorString(text, sizeof text);
        note(strstr(text, expected) != NULL, "the last error is the thread's own");
    }
    return NULL;
}

/* Creating and destroying descriptors; a destroyed one stays invalid although others reuse its slot. */
static void* descriptors(void* number)
{
    enum { MANY = 20 };
    hipdnnBackendDescriptor_t made[MANY];
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++) {
            const int64_t uid = round * MANY + i;
            note(hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, &made[i]) == HIPDNN_STATUS_SUCCESS,
                 "a tensor is made");
            note(hipdnnBackendSetAttribute(made[i], HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid) ==
                     HIPDNN_STATUS_SUCCESS,
                 "it is set");
        }
        for (int i = 0; i < MANY; i++) {
            note(hipdnnBackendDestroyDescriptor(made[i]) == HIPDNN_STATUS_SUCCESS, "it is destroyed");
            note(hipdnnBackendDestroyDescriptor(made[i]) == HIPDNN_STATUS_BAD_PARAM, "it is destroyed once");
        }
    }
    return NULL;
}

/* One finalized plan, a handle and a pack for each thread */
static void* execute(void* number)
{
    hipdnnHandle_t own = NULL;
    buffers* data = aligned_alloc(64, (sizeof *data + 63) / 64 * 64);
    note(data != NULL && hipdnnCreate(&own) == HIPDNN_STATUS_SUCCESS, "a handle is made");
    fill_buffers(data, plan);
    for (int i = 0; i < X_COUNT; i++) {
        data->x[i] += (float)*(const int*)number;
    }
    hipdnnBackendDescriptor_t pack = make_pack(data);
    for (int round = 0; round < ROUNDS; round++) {
        memset(data->y, 0, sizeof data->y);
        note(hipdnnBackendExecute(own, plan, pack) == HIPDNN_STATUS_SUCCESS, "the plan runs");
        note(is_convolved(data), "its result is right");
    }
    note(hipdnnBackendDestroyDescriptor(pack) == HIPDNN_STATUS_SUCCESS, "the pack is destroyed");
    note(hipdnnDestroy(own) == HIPDNN_STATUS_SUCCESS, "the handle is destroyed");
    free(data->workspace);
    free(data);
    return NULL;
}

/* Everything from one finalized graph, by all threads at once */
static void* whole_flow(void* number)
{
    (void)number;
    for (int round = 0; round < ROUNDS / 10; round++) {
        hipdnnBackendDescriptor_t heuristic = NULL;
        hipdnnBackendDescriptor_t config = NULL;
        const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
        int64_t count = 0;
        bool good =
            hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic) == HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config) == HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendSetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                      1, &graph) == HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendSetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode) ==
                HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendFinalize(heuristic) == HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &count, &config) == HIPDNN_STATUS_SUCCESS &&
            hipdnnBackendFinalize(config) == HIPDNN_STATUS_SUCCESS;
        note(good && count == 1, "heuristic and configuration");
        note(hipdnnBackendDestroyDescriptor(heuristic) == HIPDNN_STATUS_SUCCESS &&
                 hipdnnBackendDestroyDescriptor(config) == HIPDNN_STATUS_SUCCESS,
             "they are destroyed");
    }
    return NULL;
}

/* Thread 0 replaces a finalized tensor over and over; the others read it. Each read gives the value or says that the
 * descriptor is gone, and nothing else. */
static void* use_while_destroyed(void* number)
{
    if (*(const int*)number == 0) {
        for (int round = 0; round < ROUNDS * 10; round++) {
            const int64_t dims[] = {4711};
            hipdnnBackendDescriptor_t next = open_tensor(4711, 1, dims, false);
            note(hipdnnBackendFinalize(next) == HIPDNN_STATUS_SUCCESS, "a tensor is finalized");
            hipdnnBackendDescriptor_t old = atomic_exchange(&shared, next);
            note(old == NULL || hipdnnBackendDestroyDescriptor(old) == HIPDNN_STATUS_SUCCESS, "the old one goes");
        }
        atomic_store(&stop, true);
        return NULL;
    }
    while (!atomic_load(&stop)) {
        hipdnnBackendDescriptor_t current = atomic_load(&shared);
        int64_t uid = 0;
        if (current == NULL) {
            sched_yield();
            continue;
        }
        const hipdnnStatus_t status =
            hipdnnBackendGetAttribute(current, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, NULL, &uid);
        note((status == HIPDNN_STATUS_SUCCESS && uid == 4711) || (status == HIPDNN_STATUS_BAD_PARAM && uid == 0),
             "a tensor is there or gone");
    }
    return NULL;
}

/* All threads destroy the same descriptor: one of them succeeds. */
static atomic_int destroyed;
static atomic_int waiting;

static void* destroy_together(void* number)
{
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        if (atomic_fetch_add(&waiting, 1) % THREADS == THREADS - 1) {
            /* The last to come makes the next one. */
            hipdnnBackendDescriptor_t next = NULL;
            note(hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &next) == HIPDNN_STATUS_SUCCESS,
                 "a pack is made");
            atomic_store(&shared, next);
            atomic_fetch_add(&waiting, 1 << 20);
        }
        while (atomic_load(&waiting) >> 20 <= round) {
            sched_yield();
        }
        const hipdnnStatus_t status = hipdnnBackendDestroyDescriptor(atomic_load(&shared));
        note(status == HIPDNN_STATUS_SUCCESS || status == HIPDNN_STATUS_BAD_PARAM, "destroyed, or destroyed already");
        atomic_fetch_add(&destroyed, status == HIPDNN_STATUS_SUCCESS);
    }
    return NULL;
}

/* First handles made by all threads at once, before any plugin is loaded */
static void* first_handles(void* number)
{
    hipdnnHandle_t own = NULL;
    size_t count = 0;
    size_t length = 0;
    (void)number;
    note(hipdnnCreate(&own) == HIPDNN_STATUS_SUCCESS, "a handle is made");
    note(hipdnnGetLoadedEnginePluginPaths_ext(own, &count, NULL, &length) == HIPDNN_STATUS_SUCCESS && count == 6,
         "the plugins are loaded");
    for (int round = 0; round < ROUNDS / 10; round++) {
        hipdnnHandle_t another = NULL;
        note(hipdnnCreate(&another) == HIPDNN_STATUS_SUCCESS && hipdnnDestroy(another) == HIPDNN_STATUS_SUCCESS,
             "handles come and go");
    }
    note(hipdnnDestroy(own) == HIPDNN_STATUS_SUCCESS, "the handle is destroyed");
    return NULL;
}

int main(void)
{
    run(first_handles);
    run(last_errors);
    run(descriptors);
    handle = make_handle();
    graph = make_graph(handle);
    run(whole_flow);
    plan = make_plan(graph);
    run(execute);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));

    run(use_while_destroyed);
    drop(atomic_exchange(&shared, NULL));
    run(destroy_together);
    CHECK_EQ(atomic_load(&destroyed), ROUNDS);
    return check_result();
}
