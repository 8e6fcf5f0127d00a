/* Checks that go on after a failure: a program exits with an error if `failures` is not 0. */
#ifndef VULKAN_FAILURES_H
#define VULKAN_FAILURES_H

#include <stdio.h>

static int failures = 0;

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                               \
        }                                                                                                             \
    } while (0)

#endif
