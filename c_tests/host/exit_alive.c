/* SPDX-License-Identifier: MIT */

/*
 * A process that exits with live objects: handles, graphs, plans and packs that are never destroyed, threads that compute and
 * threads that create handles and plans, by exit() in any thread, by returning from main, with exit handlers. Each case is a
 * separate process, which must exit by itself, soon, and with its own exit status.
 *
 *   exit_alive [once]
 *
 * runs each case many times, or once, as under valgrind.
 */
#include "host.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Under valgrind one thread at a time runs, and slowly. */
enum { THREADS = 3, STATUS = 17, ROUNDS = 20, SECONDS = 60 };

static const char* program;
/* The threads have begun, each with a result or a plan of its own. */
static _Atomic int working;

typedef struct {
    hipdnnHandle_t handle;
    hipdnnBackendDescriptor_t graph;
    hipdnnBackendDescriptor_t plan;
    hipdnnBackendDescriptor_t pack;
    buffers data;
} state;

/* All that a program has in use, which is never given back. */
static state* alive(void)
{
    state* const made = aligned_alloc(64, (sizeof(state) + 63) / 64 * 64);
    REQUIRE(made != NULL);
    made->handle = make_handle();
    made->graph = make_graph(made->handle);
    made->plan = make_plan(made->graph);
    fill_buffers(&made->data, made->plan);
    made->pack = make_pack(&made->data);
    REQUIRE_OK(hipdnnBackendExecute(made->handle, made->plan, made->pack));
    return made;
}

/* Both go on while the process ends around them. What they get then is not checked. */
static void* compute(void* nothing)
{
    const state* const own = alive();
    (void)nothing;
    working++;
    for (;;) {
        hipdnnBackendExecute(own->handle, own->plan, own->pack);
    }
    return NULL;
}

static void* make_all(void* nothing)
{
    (void)nothing;
    hipdnnHandle_t handle = NULL;
    for (int round = 0;; round++) {
        if (hipdnnCreate(&handle) != HIPDNN_STATUS_SUCCESS) {
            continue;
        }
        hipdnnBackendDescriptor_t graph = make_graph(handle);
        drop(make_plan(graph));
        drop(graph);
        hipdnnDestroy(handle);
        working += round == 0;
    }
    return NULL;
}

static void start(void* (*work)(void*))
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_detach(thread) == 0);
    }
    while (working < THREADS) {
        sched_yield();
    }
}

static void* exit_in_thread(void* nothing)
{
    (void)nothing;
    alive();
    exit(STATUS);
}

static state* of_main;

/* What runs at exit still has the library, and a thread may still be using it. */
static void at_exit(void)
{
    if (hipdnnBackendExecute(of_main->handle, of_main->plan, of_main->pack) != HIPDNN_STATUS_SUCCESS) {
        _exit(3);
    }
    if (hipdnnDestroy(of_main->handle) != HIPDNN_STATUS_SUCCESS ||
        hipdnnCreate(&of_main->handle) != HIPDNN_STATUS_SUCCESS) {
        _exit(4);
    }
}

static void no_line(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* message)
{
    (void)user, (void)severity, (void)message;
}

/* Runs one case, and answers the exit status that main returns. */
static int run(const char* name)
{
    if (strstr(name, "null plugin") != NULL) {
        use_plugin("null");
    }
    if (strstr(name, "eager") != NULL) {
        REQUIRE_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    }
    if (strstr(name, "log") != NULL) {
        REQUIRE_OK(hipdnnSetUserLogCallback_ext(no_line, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_ASYNC, &working));
    }
    of_main = alive();
    if (strstr(name, "compute") != NULL) {
        start(compute);
    }
    if (strstr(name, "make") != NULL) {
        start(make_all);
    }
    if (strstr(name, "at exit") != NULL) {
        REQUIRE(atexit(at_exit) == 0);
    }
    if (strstr(name, "in a thread") != NULL) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, exit_in_thread, NULL) == 0);
        pthread_join(thread, NULL);
    }
    if (strstr(name, "exit()") != NULL) {
        exit(STATUS);
    }
    return STATUS;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const char* const CASES[] = {
    "return from main",
    "exit()",
    "exit() in a thread",
    "null plugin, return from main",
    "null plugin, exit(), compute",
    "return from main, compute",
    "exit(), compute",
    "exit() in a thread, compute",
    "return from main, make",
    "exit(), make",
    "exit(), make, log",
    "exit(), compute, log",
    "return from main, at exit",
    "exit(), at exit, compute",
    "eager, return from main, compute",
    "eager, exit(), make",
    "eager, exit(), at exit, make",
};

/* Ends as a child should, or is ended. */
static void test_case(const char* name, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        const double started = now();
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(SECONDS);
            /* From the start: a child of a process that has used the library would have its threads' memory, and not its threads. */
            execl(program, program, name, (char*)NULL);
            _exit(5);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        check_about("%s, round %d, %.1f s, %s %d", name, round, now() - started,
                    WIFEXITED(status) ? "status" : "signal",
                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
    }
    check_about("%s", "");
}

int main(int count, char** words)
{
    program = words[0];
    const bool once = count > 1 && strcmp(words[1], "once") == 0;
    if (count > 1 && !once) {
        return run(words[1]);
    }
    for (int64_t i = 0; i < COUNT(CASES); i++) {
        test_case(CASES[i], once ? 1 : ROUNDS);
    }
    return check_result();
}
