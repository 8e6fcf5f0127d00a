/* SPDX-License-Identifier: MIT */

/* Runs the program again with the caller's environment, for settings that the library reads once per process. */
#ifndef HIPDNN_C_TESTS_AGAIN_H
#define HIPDNN_C_TESTS_AGAIN_H

#include "check.h"

#ifdef _WIN32
#include <process.h>

/* The exit status of a program that gets up to two words, which have no spaces. */
static inline int run_again(const char* program, const char* first, const char* second)
{
    char name[1024];
    REQUIRE(snprintf(name, sizeof name, "\"%s\"", program) < (int)sizeof name);
    return (int)_spawnl(_P_WAIT, program, name, first, second, NULL);
}
#else
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of a program that gets up to two words; -1 where a signal ended it. */
static inline int run_again(const char* program, const char* first, const char* second)
{
    int status = -1;
    const pid_t process = fork();
    REQUIRE(process >= 0);
    if (process == 0) {
        execl(program, program, first, second, (char*)NULL);
        _exit(99);
    }
    REQUIRE(waitpid(process, &status, 0) == process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#endif

#endif
