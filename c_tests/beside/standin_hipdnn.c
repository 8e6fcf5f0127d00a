/* SPDX-License-Identifier: MIT */

/*
 * A stand-in for another library that is called hipdnn: some of its functions have the names of ours and do other things. Its
 * own calls of its own functions go through the loader, as those of most libraries do.
 */
#include <stddef.h>

enum { OTHER_STATUS = 4711 };

static int handle;
static void* stream_of_handle;

int hipdnnCreate(void** made);
int hipdnnDestroy(void* ended);
int hipdnnSetStream(void* set, void* stream);
int hipdnnGetStream(void* asked, void** stream);
const char* hipdnnGetErrorString(int status);
size_t hipdnnGetVersion(void);
const char* other_selfcheck(void);

int hipdnnCreate(void** made)
{
    *made = &handle;
    return OTHER_STATUS;
}

int hipdnnDestroy(void* ended) { return ended == &handle ? OTHER_STATUS : 0; }

int hipdnnSetStream(void* set, void* stream)
{
    stream_of_handle = stream;
    return set == &handle ? OTHER_STATUS : 0;
}

int hipdnnGetStream(void* asked, void** stream)
{
    *stream = stream_of_handle;
    return asked == &handle ? OTHER_STATUS : 0;
}

const char* hipdnnGetErrorString(int status)
{
    return status == OTHER_STATUS ? "the other library's success" : "the other library's error";
}

size_t hipdnnGetVersion(void) { return 90000; }

/* What it gets by calling itself. */
const char* other_selfcheck(void)
{
    void* made = NULL;
    void* stream = &made;
    if (hipdnnCreate(&made) != OTHER_STATUS || made != &handle || hipdnnSetStream(made, stream) != OTHER_STATUS) {
        return "its functions are not its own";
    }
    return hipdnnDestroy(made) == OTHER_STATUS ? hipdnnGetErrorString(OTHER_STATUS) : "a failure";
}
