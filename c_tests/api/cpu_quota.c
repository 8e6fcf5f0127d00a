/* SPDX-License-Identifier: MIT */

/*
 * The quota of a cgroup decides how many threads CPU_ENGINE takes, whatever asks for more.
 *
 * The files that say the quota are our own, in a mount that only the tested process sees. Where a process may not have one, or there is
 * only one processor, this is left out and says so.
 */
#define _GNU_SOURCE

#include "../fixture.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { X = 1, W = 2, Y = 3, BATCH = 64, SIDES = 28, MAPS = 16 };
/* Exit statuses: this one, or a number of threads above that one */
enum { LEFT_OUT = 77, THREADS = 100 };

#define CGROUPS "/sys/fs/cgroup"

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

static bool write_file(const char* folder, const char* name, const char* text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* const file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/* A folder with those it lies in, below the mount */
static void make_folders(const char* path)
{
    char part[600];
    for (size_t length = strlen(CGROUPS) + 1; length <= strlen(path); length++) {
        if (path[length] == '/' || path[length] == '\0') {
            snprintf(part, sizeof part, "%.*s", (int)length, path);
            REQUIRE(mkdir(part, 0755) == 0 || errno == EEXIST);
        }
    }
}

/* In the folder of this process's group, of version 2 or of the controller `cpu` of version 1, the files that say the quota */
static void write_quota(int processors)
{
    char line[512], path[600], text[64];
    FILE* const groups = fopen("/proc/self/cgroup", "r");
    REQUIRE(groups != NULL);
    while (fgets(line, sizeof line, groups) != NULL) {
        char* const controllers = strchr(line, ':');
        char* const group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        *group = '\0';
        const bool is_second = controllers[1] == '\0';
        if (!is_second && strcmp(controllers + 1, "cpu") != 0 && strcmp(controllers + 1, "cpu,cpuacct") != 0) {
            continue;
        }
        const char* const own = strcmp(group + 1, "/") == 0 ? "" : group + 1;
        snprintf(path, sizeof path, CGROUPS "%s%s%s", is_second ? "" : "/", controllers + 1, own);
        make_folders(path);
        snprintf(text, sizeof text, is_second ? "%d50000 100000\n" : "%d50000\n", processors);
        if (is_second) {
            REQUIRE(write_file(path, "cgroup.controllers", "cpu\n") && write_file(path, "cpu.max", text));
        } else {
            REQUIRE(write_file(path, "cpu.cfs_quota_us", text) && write_file(path, "cpu.cfs_period_us", "100000\n"));
        }
    }
    fclose(groups);
}

/* Whether this process has got a mount of its own over the cgroups */
static bool has_own_cgroups(void)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "0 %ld 1\n", (long)getuid());
    snprintf(groups, sizeof groups, "0 %ld 1\n", (long)getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        printf("left out: no user namespace: %s\n", strerror(errno));
        return false;
    }
    if (!write_file("/proc/self", "uid_map", users) || !write_file("/proc/self", "setgroups", "deny") ||
        !write_file("/proc/self", "gid_map", groups) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", CGROUPS, "tmpfs", 0, NULL) != 0) {
        printf("left out: no mount in a user namespace: %s\n", strerror(errno));
        return false;
    }
    return true;
}

/* The threads that a plan for large images starts, the one that plans included */
static int threads_of_plan(int64_t knob)
{
    const int before = count_threads();
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t x = make_tensor(X, BATCH, MAPS, SIDES, SIDES, false);
    hipdnnBackendDescriptor_t w = make_tensor(W, MAPS, MAPS, 3, 3, false);
    hipdnnBackendDescriptor_t y = make_tensor(Y, BATCH, MAPS, SIDES, SIDES, false);
    hipdnnBackendDescriptor_t graph = graph_of_one(handle, convolution_of(x, w, y, 1));
    drop(plan_with_knob(graph, "threads", knob));
    return 1 + count_threads() - before;
}

/* The threads in a process with a quota, and with a knob or a variable that asks for others; LEFT_OUT where it cannot have a quota. */
static int threads_with(int quota, int64_t knob, const char* variable)
{
    fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (!has_own_cgroups()) {
            fflush(NULL);
            _exit(LEFT_OUT);
        }
        write_quota(quota);
        if (variable != NULL) {
            setenv("HIPDNN_CPU_THREADS", variable, 1);
        }
        _exit(THREADS + threads_of_plan(knob));
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == LEFT_OUT || WEXITSTATUS(status) > THREADS);
    return WEXITSTATUS(status) == LEFT_OUT ? LEFT_OUT : WEXITSTATUS(status) - THREADS;
}

int main(void)
{
    enum { MOST = 4 };
    cpu_set_t processors;
    REQUIRE(sched_getaffinity(0, sizeof processors, &processors) == 0);
    const int all = CPU_COUNT(&processors);
    if (all < 2) {
        puts("left out: this process may use one processor alone");
        return check_result();
    }
    /* Half a processor more is none. */
    for (int quota = 1; quota <= all + 1 && quota <= MOST; quota++) {
        const int threads = threads_with(quota, 0, NULL);
        const int expected = quota < all ? quota : all;
        if (threads == LEFT_OUT) {
            break;
        }
        check_about("a quota of %d.5 processors, of %d", quota, all);
        CHECK_EQ(threads, expected);
        CHECK_EQ(threads_with(quota, 64, NULL), expected);
        CHECK_EQ(threads_with(quota, 0, "64"), expected);
    }
    return check_result();
}
