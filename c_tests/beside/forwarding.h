/* SPDX-License-Identifier: MIT */

/* What the stand-in for MIOpen counts, for the test that reads it. */
#ifndef FORWARDING_H
#define FORWARDING_H

#include "../fixture.h"

#define STANDIN_ANSWER 42.0f
/* How deep calls within calls would get at most, before the stand-in gives up. */
#define STANDIN_LIMIT 20

typedef struct {
    _Atomic int asked;
    _Atomic int turned_away;
    _Atomic int deepest;
    _Atomic int runs;
} standin_counts;

#endif
