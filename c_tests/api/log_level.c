/* SPDX-License-Identifier: MIT */

/* The level of the log, set and read by the program. */
#include "../fixture.h"

#include <limits.h>

int main(void)
{
    hipdnnSeverity_t level = HIPDNN_SEV_INFO;
    /* Nothing in the environment asks for a log. */
    CHECK_OK(hipdnnBackendGetGlobalLogLevel_ext(&level));
    CHECK(level == HIPDNN_SEV_OFF);
    setenv("HIPDNN_LOG_FILE", "log.txt", 1);
    for (int i = HIPDNN_SEV_INFO; i <= HIPDNN_SEV_OFF; i++) {
        CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext((hipdnnSeverity_t)i));
        CHECK_OK(hipdnnBackendGetGlobalLogLevel_ext(&level));
        CHECK((int)level == i);
    }
    const int bad[] = {-1, 5, 77, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(hipdnnBackendSetGlobalLogLevel_ext((hipdnnSeverity_t)bad[i]), HIPDNN_STATUS_BAD_PARAM);
        CHECK_OK(hipdnnBackendGetGlobalLogLevel_ext(&level));
        CHECK(level == HIPDNN_SEV_OFF);
    }
    CHECK_STATUS(hipdnnBackendGetGlobalLogLevel_ext(NULL), HIPDNN_STATUS_BAD_PARAM);

    /* What is written follows the level, from the next line on; plugins that are loaded are told too. */
    hipdnnHandle_t const handle = make_handle();
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "unheard");
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_WARN));
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "too quiet");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_WARN, "heard");
    CHECK_OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_OFF));
    CHECK_OK(hipdnnDestroy(handle));
    char text[4096] = "";
    FILE* file = fopen("log.txt", "rb");
    REQUIRE(file != NULL);
    const size_t read = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[read] = '\0';
    CHECK_CONTAINS(text, "heard\n");
    CHECK(strstr(text, "unheard") == NULL);
    CHECK(strstr(text, "too quiet") == NULL);
    return check_result();
}
