/* SPDX-License-Identifier: MIT */

/* A stand-in that a client takes for HIP's runtime, so that it searches the same folder. */
int hipInit(unsigned flags);

int hipInit(unsigned flags)
{
    /* There is no device. */
    (void)flags;
    return 100;
}
