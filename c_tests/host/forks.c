/* SPDX-License-Identifier: MIT */

/*
 * Forks while threads create handles, plan, execute, log and destroy all the time, with the installed engines. Whatever those
 * threads are doing, the child can use the library. A child that exceeds its alarm counts as hanging.
 *
 * Each row is a process of its own. FORKS in the environment is the number of forks of each row; the table goes to standard output then.
 */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FEW = 40, PATIENCE = 30, MOST_THREADS = 8, SHAPES = 64 };

typedef enum { CREATE, PLAN_NEW, PLAN_OLD, EXECUTE, DESTROY, LOG, TRACE, MODES } child_mode;

static const char* const MODE_NAMES[MODES] = {
    "create a handle", "plan with a new handle", "plan with an old handle", "execute", "destroy", "log", "trace",
};

static void wait_for(long microseconds)
{
    const struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* What all threads and all children have. */
static hipdnnHandle_t old_handle;
static hipdnnBackendDescriptor_t old_graph, old_plan;
static buffers data;
static atomic_bool stops;
static atomic_long rounds, lines;

/* A graph that other rounds do not have. */
static hipdnnBackendDescriptor_t graph_of(hipdnnHandle_t handle, int round)
{
    const int side = 3 + round % SHAPES;
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 1, CHANNELS, side, side, false);
    hipdnnBackendDescriptor_t w = make_tensor(UID_W, CHANNELS, CHANNELS, 3, 3, false);
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, 1, CHANNELS, side, side, false);
    return graph_of_one(handle, convolution_of(x, w, y, 1));
}

static void plan_with(hipdnnHandle_t handle, int round)
{
    hipdnnBackendDescriptor_t graph = graph_of(handle, round);
    drop(make_plan(graph));
    drop(graph);
}

static void execute_old(buffers* own)
{
    hipdnnBackendDescriptor_t pack = make_pack(own);
    CHECK_OK(hipdnnBackendExecute(old_handle, old_plan, pack));
    CHECK(is_convolved(own));
    drop(pack);
}

static buffers* own_buffers(void)
{
    buffers* const own = aligned_alloc(64, sizeof(buffers));
    REQUIRE(own != NULL);
    *own = data;
    own->workspace = aligned_alloc(64, ((size_t)plan_workspace(old_plan) + 64) / 64 * 64);
    REQUIRE(own->workspace != NULL);
    return own;
}

/* Everything that a child may do, again and again. Only where plugins are unloaded with the last handle is the old one not there. */
static void* work(void* unused)
{
    buffers* const own = old_handle != NULL ? own_buffers() : NULL;
    for (int round = 0; !stops; round++) {
        hipdnnHandle_t handle = make_handle();
        plan_with(handle, round);
        if (own != NULL) {
            plan_with(old_handle, round);
            execute_old(own);
        }
        hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line of the parent");
        CHECK_OK(hipdnnDestroy(handle));
        rounds++;
    }
    if (own != NULL) {
        free(own->workspace);
        free(own);
    }
    return unused;
}

static void count_line(hipdnnUserLogCallbackHandle_t user, hipdnnSeverity_t severity, const char* line)
{
    (void)user;
    (void)severity;
    lines += strcmp(line, "a line of the child") == 0;
}

static int user;

static void set_callback(hipdnnLogCallbackMode_t mode, bool on)
{
    CHECK_OK(hipdnnSetUserLogCallback_ext(count_line, on ? HIPDNN_SEV_INFO : HIPDNN_SEV_OFF, mode, &user));
}

static void make_old(void)
{
    old_handle = make_handle();
    old_graph = make_graph(old_handle);
    old_plan = make_plan(old_graph);
    fill_buffers(&data, old_plan);
}

/* The child's work: with the parent's objects if there are any, else with its own. */
static void use(child_mode mode, int round)
{
    hipdnnHandle_t handle = NULL;
    if (old_handle == NULL && mode >= PLAN_OLD && mode != LOG) {
        make_old();
    }
    switch (mode) {
    case CREATE: CHECK_OK(hipdnnDestroy(make_handle())); break;
    case PLAN_NEW:
        handle = make_handle();
        plan_with(handle, round);
        CHECK_OK(hipdnnDestroy(handle));
        break;
    case PLAN_OLD: plan_with(old_handle, round); break;
    case EXECUTE:
    case TRACE: execute_old(&data); break;
    case DESTROY:
        drop(old_plan);
        drop(old_graph);
        CHECK_OK(hipdnnDestroy(old_handle));
        break;
    default:
        lines = 0;
        hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "a line of the child");
        while (lines == 0) {
            wait_for(100);
        }
        set_callback(HIPDNN_LOG_CALLBACK_SYNC, false);
        break;
    }
}

static void in_child(child_mode mode, int round)
{
    alarm(PATIENCE);
    use(mode, round);
    if (mode == TRACE) {
        char path[64];
        snprintf(path, sizeof path, "traces/%d.json", (int)getpid());
        CHECK(remove(path) == 0);
        exit(check_result());
    }
    _exit(check_result());
}

/* Forks beside threads, and answers how many children hang. */
static int run(child_mode mode, int threads, bool eager, int forks)
{
    pthread_t workers[MOST_THREADS];
    int hung = 0;
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(eager ? HIPDNN_PLUGIN_UNLOAD_EAGER : HIPDNN_PLUGIN_UNLOAD_LAZY));
    if (mode == LOG) {
        CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
        set_callback(threads == 1 ? HIPDNN_LOG_CALLBACK_SYNC : HIPDNN_LOG_CALLBACK_ASYNC, true);
    }
    if (!eager) {
        make_old();
    }
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_create(&workers[i], NULL, work, NULL) == 0);
    }
    while (rounds < threads) {
        wait_for(1000);
    }
    for (int i = 0; i < forks; i++) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            in_child(mode, i);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
            hung++;
        } else {
            CHECK_EQ(status, 0);
        }
        if (mode == TRACE && i % 64 == 0) {
            char path[64];
            snprintf(path, sizeof path, "traces/%d.json", (int)getpid());
            CHECK(truncate(path, 0) == 0);
        }
    }
    const long before = rounds;
    while (rounds < before + threads) {
        wait_for(1000);
    }
    stops = true;
    for (int i = 0; i < threads; i++) {
        REQUIRE(pthread_join(workers[i], NULL) == 0);
    }
    CHECK_EQ(hung, 0);
    return hung;
}

/* A row as its own process, since settings are read once. */
static void start(child_mode mode, int threads, bool eager, int forks)
{
    char words[4][16];
    const int numbers[] = {(int)mode, threads, eager, forks};
    for (int i = 0; i < 4; i++) {
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
    }
    const pid_t row = fork();
    REQUIRE(row >= 0);
    if (row == 0) {
        if (mode == TRACE) {
            setenv("HIPDNN_TRACE_FILE", "traces/%p.json", 1);
            setenv("HIPDNN_VERBOSE", "1", 1);
        }
        execl("/proc/self/exe", "forks", words[0], words[1], words[2], words[3], (char*)NULL);
        _exit(127);
    }
    int status = 0;
    REQUIRE(waitpid(row, &status, 0) == row);
    CHECK_EQ(status, 0);
}

int main(int count, char** words)
{
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    if (count == 5) {
        const child_mode mode = (child_mode)atoi(words[1]);
        const int threads = atoi(words[2]);
        const bool eager = atoi(words[3]) != 0;
        const int forks = atoi(words[4]);
        check_about("%s, %d threads, %s", MODE_NAMES[mode], threads, eager ? "eager unload" : "lazy unload");
        const int hung = run(mode, threads, eager, forks);
        if (getenv("FORKS") != NULL) {
            printf("%s,%d,%s,%d,%d\n", MODE_NAMES[mode], threads, eager ? "eager" : "lazy", forks, hung);
        }
        return check_result();
    }
    const char* const asked = getenv("FORKS");
    const int forks = asked != NULL ? atoi(asked) : FEW;
    for (child_mode mode = CREATE; mode < MODES; mode++) {
        for (int threads = 1; threads <= MOST_THREADS; threads *= MOST_THREADS) {
            start(mode, threads, false, forks);
            start(mode, threads, true, forks);
        }
    }
    return check_result();
}
