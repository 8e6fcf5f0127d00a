// SPDX-License-Identifier: MIT

// A callback of the user's throws on a thread of a plugin's that is being unloaded, while the loader's lock is held: the exception
// ends without asking the loader.
#include "../check.h"

#include <atomic>
#include <csignal>
#include <stdexcept>
#include <string>
#include <unistd.h>

static std::atomic<long> thrown{0};

static void throws(hipdnnUserLogCallbackHandle_t, hipdnnSeverity_t, const char*)
{
    thrown++;
    throw std::runtime_error("not for the library");
}

static void too_long(int)
{
    static const char what[] = "hangs\n";
    _exit(write(STDERR_FILENO, what, sizeof what - 1) > 0 ? 3 : 4);
}

int main(int count, char** words)
{
    std::signal(SIGALRM, too_long);
    setenv("HIPDNN_LOG_FILE", NOWHERE, 1);
    const char* const folder = std::getenv("HIPDNN_TEST_PLUGINS");
    REQUIRE(folder != nullptr);
    const std::string path = std::string(folder) + "/libthreaded.so";
    const char* const paths[] = {path.c_str()};
    const int runs = count > 1 ? std::atoi(words[1]) : 30;
    int user = 0;
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_INFO));
    CHECK_OK(hipdnnSetUserLogCallback_ext(throws, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, &user));
    for (int i = 0; i < runs; i++) {
        alarm(60);
        hipdnnHandle_t handle = nullptr;
        CHECK_OK(hipdnnCreate(&handle));
        CHECK_OK(hipdnnDestroy(handle));
    }
    CHECK_OK(hipdnnSetUserLogCallback_ext(throws, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &user));
    CHECK(thrown > 0);
    return check_result();
}
