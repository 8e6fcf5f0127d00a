/* SPDX-License-Identifier: MIT */

/*
 * With a folder of stored rankings, a plan for a graph that is known asks nothing of the file system.
 *
 * A filter of the kernel turns every call that names or reads a file into a signal, which counts it. Where a process may not have one,
 * this is left out and says so.
 */
#define _GNU_SOURCE

#include "../fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static const int OF_FILES[] = {
#ifdef SYS_open
    SYS_open,       SYS_stat,       SYS_lstat, SYS_access,     SYS_readlink, SYS_getdents,
#endif
    SYS_openat,     SYS_openat2,    SYS_statx, SYS_newfstatat, SYS_fstat,    SYS_faccessat, SYS_faccessat2,
    SYS_readlinkat, SYS_getdents64, SYS_read,  SYS_pread64,    SYS_statfs,   SYS_fcntl,     SYS_flock,
};

static volatile sig_atomic_t calls = 0;
static volatile sig_atomic_t last_call = -1;

/* The call has not been made: the program is told that the kernel lacks it. */
static void count_call(int number, siginfo_t* info, void* context)
{
    (void)number;
    ucontext_t* const at = context;
    last_call = info->si_syscall;
    calls++;
#if defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
    at->uc_mcontext.regs[0] = (unsigned long long)-ENOSYS;
#else
    (void)at;
    abort();
#endif
}

/* Counts this thread's calls from here on. */
static bool watch(void)
{
    enum { MOST = 64 };
    struct sock_filter filter[MOST];
    unsigned short length = 0;
    const struct sigaction action = {.sa_sigaction = count_call, .sa_flags = SA_SIGINFO};
    REQUIRE(sigaction(SIGSYS, &action, NULL) == 0);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int64_t i = 0; i < COUNT(OF_FILES); i++) {
        REQUIRE(length + 3 < MOST);
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)OF_FILES[i], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = length, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* From an open convolution to a plan, as a frontend does. Returns the id of the engine. */
static int64_t plan_of(hipdnnHandle_t handle, hipdnnBackendDescriptor_t operation)
{
    int64_t id = 0;
    int64_t count = 0;
    hipdnnBackendDescriptor_t engine = NULL;
    hipdnnBackendDescriptor_t graph = graph_of_one(handle, operation);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    hipdnnBackendDescriptor_t config = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &count, &config));
    REQUIRE_OK(hipdnnBackendFinalize(config));
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    REQUIRE_OK(hipdnnBackendFinalize(plan));
    REQUIRE_OK(hipdnnBackendGetAttribute(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                         &engine));
    REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL, &id));
    drop(engine);
    drop(plan);
    drop(config);
    drop(heuristic);
    drop(graph);
    return id;
}

/* Both engines of the graph, the second of them stored as the better one. Returns it. */
static int64_t store(hipdnnHandle_t handle)
{
    int64_t ids[2] = {0, 0};
    int64_t count = 0;
    hipdnnBackendDescriptor_t configs[2];
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    REQUIRE(count_results(heuristic) == 2);
    for (int i = 0; i < 2; i++) {
        configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2,
                                         &count, configs));
    for (int i = 0; i < 2; i++) {
        hipdnnBackendDescriptor_t engine = NULL;
        REQUIRE_OK(hipdnnBackendFinalize(configs[i]));
        REQUIRE_OK(hipdnnBackendGetAttribute(configs[i], HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             1, NULL, &engine));
        REQUIRE_OK(hipdnnBackendGetAttribute(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, NULL,
                                             &ids[1 - i]));
        drop(engine);
        drop(configs[i]);
    }
    hipdnnAutotuneCacheWriteOutcome_ext_t outcome = (hipdnnAutotuneCacheWriteOutcome_ext_t)77;
    CHECK_OK(hipdnnBackendWriteEngineRankingResults_ext(handle, graph, ids, 2, &outcome));
    CHECK_EQ(outcome, HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN);
    drop(heuristic);
    drop(graph);
    return ids[0];
}

/* The same graph with other padding, and so a larger result. */
static hipdnnBackendDescriptor_t other_convolution(void)
{
    return convolution_of(make_tensor(UID_X, 1, CHANNELS, SIDE, SIDE, false),
                          make_tensor(UID_W, CHANNELS, CHANNELS, 3, 3, false),
                          make_tensor(UID_Y, 1, CHANNELS, SIDE + 2, SIDE + 2, false), 2);
}

int main(void)
{
    setenv("HIPDNN_ALL_ENGINES", "1", 1);
    setenv("HIPDNN_CACHE_DIR", "cache", 1);
    hipdnnHandle_t handle = make_handle();
    const int64_t stored = store(handle);
    /* Twice, so that whatever is looked up once is known. */
    CHECK_EQ(plan_of(handle, open_single_convolution()), stored);
    CHECK_EQ(plan_of(handle, open_single_convolution()), stored);
    if (!watch()) {
        printf("left out: this process may not have a filter of calls: %s\n", strerror(errno));
        CHECK_OK(hipdnnDestroy(handle));
        return check_result();
    }
    check_about("a known graph");
    CHECK_EQ(plan_of(handle, open_single_convolution()), stored);
    CHECK_EQ((int)calls, 0);
    if (calls > 0) {
        fprintf(stderr, "  the last call has the number %d\n", (int)last_call);
    }
    /* So that the filter is known to count. */
    check_about("another graph");
    plan_of(handle, other_convolution());
    CHECK(calls > 0);
    printf("files are asked 0 times for a known graph, %d times for another\n", (int)calls);
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
