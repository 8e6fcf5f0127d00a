/* SPDX-License-Identifier: MIT */

/*
 * The MIOpen engines with a MIOpen that forwards to hipDNN: their calls come back to them, and they stop the recursion. If MIOpen
 * has another library behind the forwarding one, the engines use that, and nothing comes back.
 *
 *   forwarding libMIOpen.so.1 | libMIOpen_private.so.1
 *
 * names the library that the engines have to take. Everything here is a stand-in, standin_hip.c and standin_miopen.c.
 */
#include "forwarding.h"
#include "../saved.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20 };

static hipdnnBackendDescriptor_t shared_plan;

static void execute(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan)
{
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    for (int i = 0; i < X_COUNT; i++) {
        CHECK(data.y[i] == STANDIN_ANSWER);
    }
    drop(pack);
    free(data.workspace);
}

static void* work(void* nothing)
{
    (void)nothing;
    for (int round = 0; round < ROUNDS; round++) {
        hipdnnHandle_t handle = make_handle();
        hipdnnBackendDescriptor_t graph = make_graph(handle);
        hipdnnBackendDescriptor_t plan = make_plan(graph);
        execute(handle, plan);
        execute(handle, shared_plan);
        const blob saved = save_plan(plan);
        hipdnnBackendDescriptor_t loaded = load_plan(handle, saved);
        execute(handle, loaded);
        drop(loaded);
        free(saved.bytes);
        drop(plan);
        drop(graph);
        CHECK_OK(hipdnnDestroy(handle));
    }
    return NULL;
}

int main(int count, char** words)
{
    pthread_t threads[THREADS];
    REQUIRE(count == 2);
    const bool forwards = strcmp(words[1], "libMIOpen.so.1") == 0;
    /* A deadlock would wait forever. */
    alarm(60);
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    shared_plan = make_plan(graph);
    execute(handle, shared_plan);
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, work, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    drop(shared_plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));

    void* const library = dlopen(words[1], RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library != NULL);
    const standin_counts* const counts = dlsym(library, forwards ? "standin" : "standin_impl");
    REQUIRE(counts != NULL);
    printf("%d runs; hipDNN was asked %d times, %d deep at most, and said %d times why not\n", counts->runs,
           counts->asked, counts->deepest, counts->turned_away);
    CHECK_EQ(counts->runs, 1 + 3 * THREADS * ROUNDS);
    CHECK_EQ(counts->turned_away, counts->asked);
    CHECK_EQ(counts->deepest, forwards ? 1 : 0);
    CHECK(forwards ? counts->asked > counts->runs : counts->asked == 0);
    CHECK(forwards || dlopen("libMIOpen.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
    return check_result();
}
