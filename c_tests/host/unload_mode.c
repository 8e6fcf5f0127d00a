/* SPDX-License-Identifier: MIT */

/* Unloading of plugins: kept for the next handle by default, unloaded with the last one on request. */
#include "host.h"

#include <limits.h>

/* Whether a library of this name is mapped into the process. */
static bool is_loaded(const char* name)
{
    char line[4096];
    bool found = false;
    FILE* maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        found = found || strstr(line, name) != NULL;
    }
    fclose(maps);
    return found;
}

int main(void)
{
    const int bad[] = {-1, 2, 77, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(hipdnnSetPluginUnloadMode_ext((hipdnnPluginUnloadingMode_ext_t)bad[i]), HIPDNN_STATUS_BAD_PARAM);
    }
    use_plugin("null");
    hipdnnHandle_t handle = make_handle();
    CHECK(is_loaded("libnull.so"));
    CHECK_OK(hipdnnDestroy(handle));
    CHECK(is_loaded("libnull.so"));

    /* With no handle alive the change acts at once. */
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    CHECK(!is_loaded("libnull.so"));

    handle = make_handle();
    hipdnnHandle_t const second = make_handle();
    CHECK_OK(hipdnnDestroy(handle));
    CHECK(is_loaded("libnull.so"));
    CHECK_OK(hipdnnDestroy(second));
    CHECK(!is_loaded("libnull.so"));

    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_LAZY));
    handle = make_handle();
    CHECK_OK(hipdnnDestroy(handle));
    CHECK(is_loaded("libnull.so"));
    return check_result();
}
