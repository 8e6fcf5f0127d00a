/* SPDX-License-Identifier: MIT */

/* What programs in c_tests call that mingw-w64 has under another name. Included before everything else where they are compiled for
 * Windows. */
#ifndef HIPDNN_C_TESTS_POSIX_H
#define HIPDNN_C_TESTS_POSIX_H

#include <direct.h>
#include <stdlib.h>

/* Also the environment of the process, which other runtimes in it read. */
static inline int setenv(const char* name, const char* value, int replace)
{
    (void)replace;
    return _putenv_s(name, value);
}

static inline int unsetenv(const char* name)
{
    return _putenv_s(name, "");
}

#define mkdir(path, mode) _mkdir(path)

#endif
