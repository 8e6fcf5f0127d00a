/* SPDX-License-Identifier: MIT */

/* Which engines are loaded: their number, their descriptions, names to ids and back. */
#include "../fixture.h"

static hipdnnHandle_t handle;

/* The four texts of an engine, asked for in two calls. */
struct texts {
    char name[64], plugin[64], version[64], type[64];
};

static int64_t describe(size_t index, struct texts* texts)
{
    size_t lengths[4] = {77, 77, 77, 77};
    int64_t id = -5;
    REQUIRE_OK(hipdnnGetEngineInfo_ext(handle, index, NULL, NULL, &lengths[0], texts->plugin, &lengths[1],
                                       texts->version, &lengths[2], texts->type, &lengths[3]));
    for (int i = 0; i < 4; i++) {
        REQUIRE(lengths[i] > 1 && lengths[i] <= 64);
    }
    size_t room[4] = {lengths[0], lengths[1], lengths[2], lengths[3]};
    REQUIRE_OK(hipdnnGetEngineInfo_ext(handle, index, &id, texts->name, &room[0], texts->plugin, &room[1],
                                       texts->version, &room[2], texts->type, &room[3]));
    CHECK(strlen(texts->name) + 1 == lengths[0] && strlen(texts->plugin) + 1 == lengths[1]);
    CHECK(strlen(texts->version) + 1 == lengths[2] && strlen(texts->type) + 1 == lengths[3]);
    /* One byte less than a text needs is too little, and nothing is written. */
    for (int i = 0; i < 4; i++) {
        size_t less[4] = {room[0], room[1], room[2], room[3]};
        less[i] -= 1;
        int64_t untouched = -5;
        struct texts other = {"?", "?", "?", "?"};
        CHECK_STATUS(hipdnnGetEngineInfo_ext(handle, index, &untouched, other.name, &less[0], other.plugin, &less[1],
                                             other.version, &less[2], other.type, &less[3]),
                     HIPDNN_STATUS_BAD_PARAM);
        CHECK(untouched == -5);
        CHECK_STR(other.name, "?");
        CHECK_STR(other.type, "?");
    }
    return id;
}

static void descriptions(void)
{
    size_t count = 0;
    REQUIRE_OK(hipdnnGetEngineCount_ext(handle, &count));
    REQUIRE(count == 10);
    /* The list does not depend on the presence of a device. */
    const char* const names[] = {
        "CPU_ENGINE",       "CPU_REFERENCE_ENGINE", "CUBLASLT_ENGINE", "CUDNN_ENGINE",
        "HIPBLASLT_ENGINE", "HIPRTC_ENGINE",        "MIOPEN_ENGINE",   "MIOPEN_ENGINE_DETERMINISTIC",
        "NVRTC_ENGINE",     "VULKAN_ENGINE"};
    /* Host, AMD, NVIDIA or any; and own kernels, a library, generated ones, or a reference. */
    const uint32_t kinds[][2] = {{1, 0}, {1, 3}, {3, 1}, {3, 1}, {2, 1}, {2, 2}, {2, 1}, {2, 1}, {3, 2}, {4, 2}};
    const char* const plugins[] = {"CPU", "CPU",    "cuDNN",  "cuDNN", "hipBLASLt",
                                   "RTC", "MIOpen", "MIOpen", "RTC",   "Vulkan"};
    for (size_t i = 0; i < count; i++) {
        struct texts texts;
        const int64_t id = describe(i, &texts);
        CHECK_STR(texts.name, names[i]);
        CHECK_STR(texts.plugin, plugins[i]);
        CHECK_STR(texts.type, "HIPDNN_PLUGIN_TYPE_ENGINE");
        CHECK(strchr(texts.version, '.') != NULL);
        uint32_t device = 9, implementation = 9;
        CHECK_OK(hipdnnGetEngineKind_ext(handle, i, &device, &implementation));
        CHECK(device == kinds[i][0] && implementation == kinds[i][1]);

        int64_t by_name = 0;
        CHECK_OK(hipdnnGetEngineIdByName_ext(handle, texts.name, &by_name));
        CHECK(by_name == id);
        size_t length = 0;
        CHECK_OK(hipdnnGetEngineNameById_ext(handle, id, NULL, &length));
        CHECK(length == strlen(texts.name) + 1);
        char name[64] = "";
        CHECK_OK(hipdnnGetEngineNameById_ext(handle, id, name, &length));
        CHECK_STR(name, texts.name);
        length -= 1;
        CHECK_STATUS(hipdnnGetEngineNameById_ext(handle, id, name, &length), HIPDNN_STATUS_BAD_PARAM);
    }
    size_t lengths[4];
    CHECK_STATUS(hipdnnGetEngineInfo_ext(handle, count, NULL, NULL, &lengths[0], NULL, &lengths[1], NULL, &lengths[2],
                                         NULL, &lengths[3]),
                 HIPDNN_STATUS_BAD_PARAM);
    uint32_t device = 9, implementation = 9;
    CHECK_STATUS(hipdnnGetEngineKind_ext(handle, count, &device, &implementation), HIPDNN_STATUS_BAD_PARAM);
    CHECK(device == 9 && implementation == 9);
    CHECK_STATUS(hipdnnGetEngineKind_ext(NULL, 0, &device, &implementation), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineKind_ext(handle, 0, NULL, &implementation), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineKind_ext(handle, 0, &device, NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

static void unknown(void)
{
    int64_t id = -5;
    CHECK_STATUS(hipdnnGetEngineIdByName_ext(handle, "NO_SUCH_ENGINE", &id), HIPDNN_STATUS_NOT_SUPPORTED);
    CHECK_STATUS(hipdnnGetEngineIdByName_ext(handle, "", &id), HIPDNN_STATUS_NOT_SUPPORTED);
    CHECK(id == -5);
    size_t length = 3;
    CHECK_STATUS(hipdnnGetEngineNameById_ext(handle, 12345, NULL, &length), HIPDNN_STATUS_NOT_SUPPORTED);
    CHECK(length == 3);
}

static void bad_arguments(void)
{
    size_t number = 0;
    int64_t id = 0;
    hipdnnHandle_t const forged = (hipdnnHandle_t)&number;
    CHECK_STATUS(hipdnnGetEngineCount_ext(NULL, &number), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineCount_ext(handle, NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineCount_ext(forged, &number), HIPDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(hipdnnGetEngineIdByName_ext(handle, NULL, &id), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineIdByName_ext(handle, "CPU_ENGINE", NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineIdByName_ext(NULL, "CPU_ENGINE", &id), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineNameById_ext(handle, 0, NULL, NULL), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineNameById_ext(NULL, 0, NULL, &number), HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineInfo_ext(NULL, 0, NULL, NULL, &number, NULL, &number, NULL, &number, NULL, &number),
                 HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineInfo_ext(handle, 0, NULL, NULL, NULL, NULL, &number, NULL, &number, NULL, &number),
                 HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(hipdnnGetEngineInfo_ext(handle, 0, NULL, NULL, &number, NULL, &number, NULL, &number, NULL, NULL),
                 HIPDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

int main(void)
{
    handle = make_handle();
    descriptions();
    unknown();
    bad_arguments();
    CHECK_OK(hipdnnDestroy(handle));
    return check_result();
}
