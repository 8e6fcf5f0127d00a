/* SPDX-License-Identifier: MIT */

/* A stand-in for ROCTx: it counts the ranges that are open. */
#include <stdio.h>

int standin_depth;
int standin_pushed;
char standin_last[256];

int roctxRangePushA(const char* name);
int roctxRangePushA(const char* name)
{
    snprintf(standin_last, sizeof standin_last, "%s", name);
    standin_pushed++;
    return standin_depth++;
}

int roctxRangePop(void);
int roctxRangePop(void) { return --standin_depth; }
