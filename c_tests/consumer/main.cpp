// SPDX-License-Identifier: MIT

// The same from C++, through every public header.

#include <hipdnn_backend.h>

#include <HipdnnAttentionImplementation.h>
#include <HipdnnBackendFlatbufferData.h>
#include <HipdnnDiagonalAlignment.h>
#include <HipdnnNormFwdPhase.h>
#include <HipdnnOperationType.h>
#include <HipdnnPointwiseMode.h>
#include <hipdnn_backend/version.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {
void check(hipdnnStatus_t status, const char* what)
{
    if (status == HIPDNN_STATUS_SUCCESS)
        return;
    std::vector<char> text(HIPDNN_ERROR_STRING_MAX_LENGTH);
    hipdnnGetLastErrorString(text.data(), text.size());
    std::fprintf(stderr, "%s: %s: %s\n", what, hipdnnGetErrorString(status), text.data());
    std::exit(EXIT_FAILURE);
}
} // namespace

int main()
{
    hipdnnHandle_t handle = nullptr;
    check(hipdnnCreate(&handle), "hipdnnCreate");
    size_t count = 0;
    size_t length = 0;
    check(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, nullptr, &length), "number of plugins");
    check(hipdnnDestroy(handle), "hipdnnDestroy");

    const std::string version = hipdnnVersionString_ext();
    std::printf("hipDNN backend %s, %zu plugins\n", version.c_str(), count);
    const bool same = version.rfind(HIPDNN_BACKEND_VERSION_STRING ".", 0) == 0;
    if (!same)
        std::fprintf(stderr, "the headers are of version %s\n", HIPDNN_BACKEND_VERSION_STRING);
    return same && count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
