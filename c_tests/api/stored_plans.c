/* SPDX-License-Identifier: MIT */

/*
 * Plans on disk, shared by processes, any of which may be killed or stopped at any time: no other process waits for it, and none loads
 * an incomplete file. The results of CPU_ENGINE are compared with plain loops.
 */
#include "../fixture.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "plans"

/* Images of as many sizes, each a graph of its own. */
enum { GRAPHS = 6, LARGEST = SIDE + GRAPHS };

typedef struct {
    int plans;
    int others; /* incomplete files */
} files;

static files list(void)
{
    files found = {0, 0};
    DIR* const folder = opendir(FOLDER);
    for (const struct dirent* entry = folder == NULL ? NULL : readdir(folder); entry != NULL; entry = readdir(folder)) {
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (length > 5 && strcmp(entry->d_name + length - 5, ".plan") == 0) {
            found.plans++;
        } else {
            found.others++;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

static void empty(void)
{
    DIR* const folder = opendir(FOLDER);
    for (const struct dirent* entry = folder == NULL ? NULL : readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[400];
        snprintf(path, sizeof path, FOLDER "/%.250s", entry->d_name);
        if (entry->d_name[0] != '.') {
            unlink(path);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

static hipdnnBackendDescriptor_t graph_of(hipdnnHandle_t handle, int64_t side)
{
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, 1, CHANNELS, side, side, false);
    hipdnnBackendDescriptor_t w = make_tensor(UID_W, CHANNELS, CHANNELS, 3, 3, false);
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, 1, CHANNELS, side, side, false);
    return graph_of_one(handle, convolution_of(x, w, y, 1));
}

static float x_at(int i) { return (float)(i * 7 % 13 - 6) / 4.0f; }

static float w_at(int i) { return (float)(i * 5 % 11 - 5) / 8.0f; }

/* The values are small binary fractions, so the sums are exact. */
static float expected_at(int side, int k, int row, int column)
{
    float sum = 0.0f;
    for (int c = 0; c < CHANNELS; c++) {
        for (int tap = 0; tap < 9; tap++) {
            const int i = row + tap / 3 - 1;
            const int j = column + tap % 3 - 1;
            if (i >= 0 && i < side && j >= 0 && j < side) {
                sum += x_at((c * side + i) * side + j) * w_at((k * CHANNELS + c) * 9 + tap);
            }
        }
    }
    return sum;
}

static void expect_right(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan, int side)
{
    static _Alignas(64) float x[CHANNELS * LARGEST * LARGEST], y[CHANNELS * LARGEST * LARGEST], w[W_COUNT];
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {x, w, y};
    void* workspace = aligned_alloc(64, ((size_t)plan_workspace(plan) + 64) / 64 * 64);
    REQUIRE(workspace != NULL);
    for (int i = 0; i < CHANNELS * side * side; i++) {
        x[i] = x_at(i);
        y[i] = -99.0f;
    }
    for (int i = 0; i < W_COUNT; i++) {
        w[i] = w_at(i);
    }
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    int wrong = 0;
    for (int i = 0; i < CHANNELS * side * side; i++) {
        wrong += y[i] != expected_at(side, i / (side * side), i / side % side, i % side);
    }
    CHECK_EQ(wrong, 0);
    drop(pack);
    free(workspace);
}

static void plan_and_run(hipdnnHandle_t handle, int side)
{
    hipdnnBackendDescriptor_t graph = graph_of(handle, side);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    drop(graph);
    expect_right(handle, plan, side);
    drop(plan);
}

/* In its own process, without cached plans. */
static int in_child(void (*test)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        check_failures = 0;
        alarm(60);
        test();
        fflush(NULL);
        _exit(check_result());
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

static void expect_passed(void (*test)(void))
{
    const int status = in_child(test);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void plan_one(void)
{
    hipdnnHandle_t handle = make_handle();
    plan_and_run(handle, SIDE);
    CHECK_OK(hipdnnDestroy(handle));
}

static void plan_all(void)
{
    hipdnnHandle_t handle = make_handle();
    for (int side = SIDE; side < SIDE + GRAPHS; side++) {
        plan_and_run(handle, side);
    }
    CHECK_OK(hipdnnDestroy(handle));
}

/* No file of this process gets longer than 100 bytes: the system ends it while it writes the plan. */
static void die_while_writing(void)
{
    const struct rlimit little = {100, 100};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
    plan_one();
}

/* The same as an error of the write, as of a disk that is full. */
static void fail_to_write(void)
{
    signal(SIGXFSZ, SIG_IGN);
    die_while_writing();
}

/* How often a process with a log finds a stored plan. */
static int loads(void (*test)(void))
{
    static char text[1 << 20];
    int count = 0;
    remove("log.txt");
    setenv("HIPDNN_LOG_LEVEL", "info", 1);
    setenv("HIPDNN_LOG_FILE", "log.txt", 1);
    expect_passed(test);
    unsetenv("HIPDNN_LOG_LEVEL");
    unsetenv("HIPDNN_LOG_FILE");
    read_text("log.txt", text, sizeof text);
    for (const char* at = text; (at = strstr(at, "the plan was loaded from")) != NULL; at++) {
        count++;
    }
    return count;
}

static void test_killed_while_writing(void)
{
    check_about("killed while it writes");
    const int status = in_child(die_while_writing);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    files found = list();
    CHECK(found.plans == 0 && found.others == 1);
    CHECK_EQ(loads(plan_one), 0);
    CHECK_EQ(list().plans, 1);
    CHECK_EQ(loads(plan_one), 1);
    empty();
    check_about("no room");
    expect_passed(fail_to_write);
    found = list();
    CHECK(found.plans == 0 && found.others == 0);
}

static void plan_with_a_knob(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = graph_of(handle, SIDE);
    hipdnnBackendDescriptor_t plan = plan_with_knob(graph, "threads", 1);
    expect_right(handle, plan, SIDE);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* CPU_REFERENCE_ENGINE, which is offered last. */
static void plan_with_the_other_engine(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = graph_of(handle, SIDE);
    hipdnnBackendDescriptor_t plan = plan_of_engine(graph, 1);
    expect_right(handle, plan, SIDE);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(handle));
}

/* Another engine or a knob never finds the plan of a graph; each leaves its own. */
static void test_others(void)
{
    check_about("others");
    empty();
    CHECK_EQ(loads(plan_one), 0);
    CHECK_EQ(loads(plan_with_a_knob), 0);
    CHECK_EQ(list().plans, 2);
    CHECK_EQ(loads(plan_with_the_other_engine), 0);
    CHECK_EQ(list().plans, 3);
    CHECK_EQ(loads(plan_with_the_other_engine), 1);
    CHECK_EQ(loads(plan_with_a_knob), 1);
    CHECK_EQ(loads(plan_one), 1);
}

enum { PROCESSES = 4, KILLS = 60 };

static pid_t start_worker(unsigned seed)
{
    fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child > 0) {
        return child;
    }
    /* Every plan comes from the disk, or goes there. */
    setenv("HIPDNN_PLAN_CACHE_BYTES", "0", 1);
    check_failures = 0;
    alarm(60);
    hipdnnHandle_t handle = make_handle();
    while (check_failures == 0) {
        seed = seed * 1103515245u + 12345u;
        plan_and_run(handle, SIDE + (int)(seed >> 16) % GRAPHS);
        if ((seed >> 20) % 4 == 0) {
            empty();
        }
    }
    _exit(1);
}

/* Workers that store, load and remove the plans of the same graphs; one after the other is stopped for a while, or killed. */
static void test_processes(void)
{
    pid_t workers[PROCESSES];
    const struct timespec pause = {0, 5000000};
    check_about("processes");
    for (unsigned i = 0; i < PROCESSES; i++) {
        workers[i] = start_worker(i);
    }
    for (unsigned kill_number = 0; kill_number < KILLS; kill_number++) {
        const unsigned victim = kill_number % PROCESSES;
        int status = 0;
        if (kill_number % 3 == 0) {
            REQUIRE(kill(workers[victim], SIGSTOP) == 0);
            /* Its locks keep no other process waiting. */
            expect_passed(plan_all);
        }
        nanosleep(&pause, NULL);
        REQUIRE(kill(workers[victim], SIGKILL) == 0);
        REQUIRE(waitpid(workers[victim], &status, 0) == workers[victim]);
        /* Before, it had not ended by itself: that would be a wrong result or a signal. */
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        workers[victim] = start_worker(kill_number + PROCESSES);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        REQUIRE(kill(workers[i], SIGKILL) == 0);
        REQUIRE(waitpid(workers[i], &status, 0) == workers[i]);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    expect_passed(plan_all);
    CHECK_EQ(loads(plan_all), GRAPHS);
}

int main(void)
{
    setenv("HIPDNN_PLAN_CACHE_DIR", FOLDER, 1);
    test_killed_while_writing();
    test_others();
    test_processes();
    return check_result();
}
