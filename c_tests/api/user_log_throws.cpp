/* SPDX-License-Identifier: MIT */

/* A log callback that throws: the exception does not leave the callback, on the logging thread and on the library's. */
#include "../check.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <thread>

static std::atomic<int> calls{0};

static void throws(hipdnnUserLogCallbackHandle_t, hipdnnSeverity_t, const char* message)
{
    calls++;
    throw std::runtime_error(message);
}

int main()
{
    int user = 0;
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_ERROR));
    for (auto mode : {HIPDNN_LOG_CALLBACK_SYNC, HIPDNN_LOG_CALLBACK_ASYNC}) {
        calls = 0;
        CHECK_OK(hipdnnSetUserLogCallback_ext(throws, HIPDNN_SEV_ERROR, mode, &user));
        for (int i = 0; i < 10; i++) {
            hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "a line");
        }
        for (int i = 0; i < 5000 && calls < 10; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        CHECK_EQ(calls.load(), 10);
        CHECK_EQ(std::uncaught_exceptions(), 0);
        CHECK_OK(hipdnnSetUserLogCallback_ext(throws, HIPDNN_SEV_OFF, mode, &user));
    }
    return check_result();
}
