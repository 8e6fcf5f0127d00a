/* SPDX-License-Identifier: MIT */

/* What programs in c_tests call that mingw-w64 has under another name. Included before everything else where they are compiled for
 * Windows. */
#ifndef HIPDNN_C_TESTS_POSIX_H
#define HIPDNN_C_TESTS_POSIX_H

#include <direct.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Also the environment of the process, which other runtimes in it read. */
static inline int setenv(const char* name, const char* value, int replace)
{
    (void)replace;
    return _putenv_s(name, value);
}

static inline int unsetenv(const char* name) { return _putenv_s(name, ""); }

#define mkdir(path, mode) _mkdir(path)

/* The test driver ends programs that hang. */
#define SIGALRM 14

static inline unsigned alarm(unsigned seconds)
{
    (void)seconds;
    return 0;
}

#ifndef __cplusplus

/* Aligned memory has its own free function, so a program allocates all of its memory that way. */
static inline void* aligned_calloc(size_t count, size_t size)
{
    void* const memory = _aligned_malloc(count * size, 16);
    return memory == NULL ? NULL : memset(memory, 0, count * size);
}

#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define malloc(size) _aligned_malloc(size, 16)
#define calloc(count, size) aligned_calloc(count, size)
#define realloc(memory, size) _aligned_realloc(memory, size, 16)
#define free(memory) _aligned_free(memory)

#endif

#endif
