/* SPDX-License-Identifier: MIT */

/* A stand-in for a frontend SDK's copy of the callback types, without any guard but its own. */

#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    HIPDNN_SEV_INFO = 0,
    HIPDNN_SEV_WARN = 1,
    HIPDNN_SEV_ERROR = 2,
    HIPDNN_SEV_FATAL = 3,
    HIPDNN_SEV_OFF = 4
} hipdnnSeverity_t;

typedef void (*hipdnnCallback_t)(hipdnnSeverity_t severity, const char* message);

#ifdef __cplusplus
}
#endif
