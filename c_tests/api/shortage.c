/* SPDX-License-Identifier: MIT */

/*
 * Too few file descriptors, or too little memory, for the plugins at the first hipdnnCreate: it says so or has every engine, and the next
 * handle has every engine. Each case runs in a child.
 */
#include "../fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, DESCRIPTORS = 64 };

static size_t count_engines(hipdnnHandle_t handle)
{
    size_t count = 0;
    CHECK_OK(hipdnnGetEngineCount_ext(handle, &count));
    return count;
}

static size_t engines_of_new_handle(void)
{
    hipdnnHandle_t handle = make_handle();
    const size_t count = count_engines(handle);
    CHECK_OK(hipdnnDestroy(handle));
    return count;
}

/* Leaves this many descriptors. */
static void without_descriptors(int left)
{
    struct rlimit before;
    int taken[DESCRIPTORS];
    int count = 0;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const struct rlimit limit = {DESCRIPTORS, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (count < DESCRIPTORS && (taken[count] = open("/dev/null", O_RDONLY)) >= 0) {
        count++;
    }
    const bool is_free = left > 0;
    for (; left > 0; left--) {
        close(taken[--count]);
    }
    hipdnnHandle_t handle = NULL;
    const hipdnnStatus_t status = hipdnnCreate(&handle);
    char words[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    hipdnnGetLastErrorString(words, sizeof words);
    while (count > 0) {
        close(taken[--count]);
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    const size_t all = engines_of_new_handle();
    CHECK(all > 0);
    if (status == HIPDNN_STATUS_SUCCESS) {
        CHECK_EQ(count_engines(handle), all);
    } else {
        CHECK_EQ(status, HIPDNN_STATUS_INTERNAL_ERROR);
        CHECK_CONTAINS(words, "Too many open files");
    }
    CHECK(status != HIPDNN_STATUS_SUCCESS || is_free);
}

/* Leaves this much address space. */
static void without_memory(int mib)
{
    struct rlimit before;
    unsigned long pages = 0;
    FILE* const file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    const struct rlimit limit = {(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)mib * MIB, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    hipdnnHandle_t handle = NULL;
    const hipdnnStatus_t status = hipdnnCreate(&handle);
    char words[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    hipdnnGetLastErrorString(words, sizeof words);
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    const size_t all = engines_of_new_handle();
    CHECK(all > 0);
    if (status == HIPDNN_STATUS_SUCCESS) {
        CHECK_EQ(count_engines(handle), all);
    } else {
        CHECK_EQ(status, HIPDNN_STATUS_ALLOC_FAILED);
        CHECK(strstr(words, "there is no memory for ") != NULL || strstr(words, "Cannot allocate memory") != NULL);
    }
}

static void in_child(void (*run)(int), int number)
{
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        run(number);
        _exit(check_result());
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    for (int left = 0; left < 4; left++) {
        check_about("%d descriptors", left);
        in_child(without_descriptors, left);
    }
    for (int mib = 2; mib <= 64; mib += mib < 12 ? 1 : 8) {
        check_about("%d MiB", mib);
        in_child(without_memory, mib);
    }
    return check_result();
}
