/* SPDX-License-Identifier: MIT */

/*
 * Log lines: their severity, and the functions that receive them.
 *
 * A frontend's SDK has a header with the same types. Both copies carry the guard `HIPDNN_CALLBACK_TYPES_DEFINED`,
 * so that whichever comes first defines them; this header includes an SDK copy on the include path that lacks the guard.
 *
 * Generated from src/ffi/callback_types.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_CALLBACK_TYPES_H
#define HIPDNN_BACKEND_CALLBACK_TYPES_H

#if !defined(HIPDNN_CALLBACK_TYPES_DEFINED) && defined(__has_include)
#if __has_include(<hipdnn_sdk/logging/CallbackTypes.h>)
#include <hipdnn_sdk/logging/CallbackTypes.h>
#ifndef HIPDNN_CALLBACK_TYPES_DEFINED
#define HIPDNN_CALLBACK_TYPES_DEFINED
#endif
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HIPDNN_CALLBACK_TYPES_DEFINED
#define HIPDNN_CALLBACK_TYPES_DEFINED

/// The severity of a log line; as a level, the lowest severity that is logged.
typedef enum
{
    /// Information.
    HIPDNN_SEV_INFO = 0,
    /// Something unexpected that the library handled.
    HIPDNN_SEV_WARN = 1,
    /// A call failed.
    HIPDNN_SEV_ERROR = 2,
    /// The process cannot go on.
    HIPDNN_SEV_FATAL = 3,
    /// Logs nothing; valid only as a level.
    HIPDNN_SEV_OFF = 4,
} hipdnnSeverity_t;

/// Receives a plugin's log lines. `message` ends with a NUL and lives during the call only.
typedef void (*hipdnnCallback_t)(hipdnnSeverity_t severity, const char *message);

#endif

/// A caller's pointer that is passed to its callback; together they identify a registration.
typedef void *hipdnnUserLogCallbackHandle_t;

/// Receives the library's log lines. `message` ends with a NUL and lives during the call only.
typedef void (*hipdnnUserLogCallback_t)(hipdnnUserLogCallbackHandle_t userHandle,
                                        hipdnnSeverity_t severity,
                                        const char *message);

#ifdef __cplusplus
}
#endif

#endif
