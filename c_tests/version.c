/* SPDX-License-Identifier: MIT */

/* The version that the library reports is the one of its headers, with a fourth part. */

#include "check.h"
#include "hipdnn_backend/version.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int main(void)
{
    const char* version = hipdnnVersionString_ext();
    const char* same = NULL;
    size_t length = strlen(HIPDNN_BACKEND_VERSION_STRING);
    int parts[3] = {-1, -1, -1};

    CHECK(version != NULL && strncmp(version, HIPDNN_BACKEND_VERSION_STRING, length) == 0);
    CHECK(version != NULL && version[length] == '.' && version[length + 1] != '\0');
    CHECK_EQ(sscanf(HIPDNN_BACKEND_VERSION_STRING, "%d.%d.%d", &parts[0], &parts[1], &parts[2]), 3);
    CHECK_EQ(parts[0], HIPDNN_BACKEND_VERSION_MAJOR);
    CHECK_EQ(parts[1], HIPDNN_BACKEND_VERSION_MINOR);
    CHECK_EQ(parts[2], HIPDNN_BACKEND_VERSION_PATCH);

    CHECK_OK(hipdnnGetVersion_ext(&same));
    CHECK_STR(same, version);
    CHECK_STATUS(hipdnnGetVersion_ext(NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    return check_result();
}
