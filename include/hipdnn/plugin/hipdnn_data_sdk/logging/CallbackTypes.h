/* SPDX-License-Identifier: MIT */

/*
 * Log lines: their severity, and the functions that receive them.
 *
 * A frontend's SDK brings a header with the same types. Both copies carry the guard `HIPDNN_CALLBACK_TYPES_DEFINED`,
 * so that whichever comes first defines them; an SDK copy without the guard, when it is on the include path, is
 * included from here.
 *
 * Generated from src/ffi/callback_types.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_DATA_SDK_LOGGING_CALLBACK_TYPES_H
#define HIPDNN_DATA_SDK_LOGGING_CALLBACK_TYPES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HIPDNN_CALLBACK_TYPES_DEFINED
#define HIPDNN_CALLBACK_TYPES_DEFINED

/// How serious a log line is; as a level, the least serious that is let through.
typedef enum
{
    /// What happens.
    HIPDNN_SEV_INFO = 0,
    /// Something unexpected that the library dealt with.
    HIPDNN_SEV_WARN = 1,
    /// A call failed.
    HIPDNN_SEV_ERROR = 2,
    /// The process cannot go on.
    HIPDNN_SEV_FATAL = 3,
    /// Nothing; a level only, no line has it.
    HIPDNN_SEV_OFF = 4,
} hipdnnSeverity_t;

/// Receives a plugin's log lines. `message` ends with a NUL and lives during the call only.
typedef void (*hipdnnCallback_t)(hipdnnSeverity_t severity, const char *message);

#endif

#ifdef __cplusplus
}
#endif

#endif
