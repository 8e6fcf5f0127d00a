/* SPDX-License-Identifier: MIT */

/* What a function of a stand-in does wrong: STANDIN_THROWS names the one that throws, STANDIN_LIES the one whose size is absurd. */
#ifndef MAY_THROW_H
#define MAY_THROW_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LIE_BITS = 46 };

/* std::__throw_bad_alloc() */
void _ZSt17__throw_bad_allocv(void);

static inline void may_throw(const char* function)
{
    const char* const thrower = getenv("STANDIN_THROWS");
    if (thrower != NULL && strcmp(thrower, function) == 0) {
        _ZSt17__throw_bad_allocv();
    }
}

static inline size_t may_lie(const char* function, size_t size)
{
    const char* const liar = getenv("STANDIN_LIES");
    return liar != NULL && strcmp(liar, function) == 0 ? (size_t)1 << LIE_BITS : size;
}

#endif
