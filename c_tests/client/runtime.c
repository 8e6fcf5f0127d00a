/* SPDX-License-Identifier: MIT */

/* Something that a client takes for HIP's runtime, so that it looks beside it. */
int hipInit(unsigned flags);

int hipInit(unsigned flags)
{
    /* There is no device. */
    (void)flags;
    return 100;
}
