/* SPDX-License-Identifier: MIT */

/* A library of another major version, as far as a client can see before it gives up; VERSION is its version, or NULL. */
const char* hipdnnVersionString_ext(void);
int hipdnnCreate(void** handle);

const char* hipdnnVersionString_ext(void) { return VERSION; }

/* Not reached. */
int hipdnnCreate(void** handle)
{
    *handle = handle;
    return 0;
}
