/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Lines that a program adds to the library's log. Errors of calls are returned and not logged.
 */
#pragma once

#include "../../cpp/descriptor.hpp"

#include <sstream>

namespace hipdnn_frontend
{

/** Receives lines: a level and a text. */
using LoggingCallback = void (*)(hipdnnSeverity_t, const char*);

namespace detail
{

inline LoggingCallback& logging_callback()
{
    static LoggingCallback callback = nullptr;
    return callback;
}

inline void log_line(hipdnnSeverity_t severity, const std::string& line)
{
    if (const LoggingCallback callback = logging_callback())
    {
        callback(severity, line.c_str());
    }
}

/** The library's own log. */
inline void log_to_library(hipdnnSeverity_t severity, const char* line)
{
    HIPDNN_CPP_CALL(hipdnnLoggingCallback_ext)(severity, line);
}

} // namespace detail

/**
 * Sets the destination of HIPDNN_FE_LOG_INFO() and its like, by default the library's log. Call it before threads log.
 * @return 0, or -1 for a null function
 */
inline int32_t initializeFrontendLogging(LoggingCallback callback = &detail::log_to_library)
{
    if (callback == nullptr)
    {
        return -1;
    }
    detail::logging_callback() = callback;
    return 0;
}

} // namespace hipdnn_frontend

/* Logs what is streamed: HIPDNN_FE_LOG_INFO("built " << count << " plans"). */
#define HIPDNN_COMPAT_LOG(severity, streamed)                                  \
    do                                                                         \
    {                                                                          \
        std::ostringstream hipdnn_compat_line;                                 \
        hipdnn_compat_line << streamed;                                        \
        ::hipdnn_frontend::detail::log_line(severity, hipdnn_compat_line.str()); \
    } while (false)
#define HIPDNN_FE_LOG_INFO(streamed) HIPDNN_COMPAT_LOG(HIPDNN_SEV_INFO, streamed)
#define HIPDNN_FE_LOG_WARN(streamed) HIPDNN_COMPAT_LOG(HIPDNN_SEV_WARN, streamed)
#define HIPDNN_FE_LOG_ERROR(streamed) HIPDNN_COMPAT_LOG(HIPDNN_SEV_ERROR, streamed)
#define HIPDNN_FE_LOG_FATAL(streamed) HIPDNN_COMPAT_LOG(HIPDNN_SEV_FATAL, streamed)
