/* SPDX-License-Identifier: MIT */

/* Engines that the user has disabled, by name, in decimal or hexadecimal, among unknown entries. */
#include "../fixture.h"

static bool has(hipdnnHandle_t handle, const char* name)
{
    int64_t id = 0;
    return hipdnnGetEngineIdByName_ext(handle, name, &id) == HIPDNN_STATUS_SUCCESS;
}

static void check_without(const char* list, bool fast, bool reference)
{
    setenv("HIPDNN_DISABLE_ENGINES", list, 1);
    check_about("%s", list);
    hipdnnHandle_t handle = make_handle();
    CHECK_EQ(has(handle, "CPU_ENGINE"), fast);
    CHECK_EQ(has(handle, "CPU_REFERENCE_ENGINE"), reference);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    CHECK_OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    check_without("", true, true);
    check_without(" CPU_REFERENCE_ENGINE ,other:engine", true, false);
    check_without("-390659045688246536", false, true);
    check_without("0xF05911D5FAC01F5A", true, false);
    check_without("cpu_engine,,7", true, true);
    return check_result();
}
