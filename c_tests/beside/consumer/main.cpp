// SPDX-License-Identifier: MIT

// A program with AMD's headers (stand-ins of them) and this backend: each header is AMD's where AMD has one of its name.

#include <hipdnn_backend.h>

#include <hipdnn_data_sdk/utilities/Constants.hpp>
#include <hipdnn_flatbuffers_sdk/data_objects/graph_generated.h>
#include <hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn_plugin_sdk/PluginApi.h>
#if __has_include(<hipdnn_frontend.hpp>)
#include <hipdnn_frontend.hpp>
#endif
#if __has_include(<hipdnn_test_sdk/utilities/Seeds.hpp>)
#include <hipdnn_test_sdk/utilities/Seeds.hpp>
#endif

#include <cstdio>

#if !defined(STANDIN_DATA_SDK) || !defined(STANDIN_FLATBUFFERS_SDK) || !defined(STANDIN_PLUGIN_SDK)
#error "a header of AMD's was displaced"
#endif
#ifdef HIPDNN_PLUGIN_SDK_PLUGIN_API_H
#error "the plugin headers of this backend were taken"
#endif

int main()
{
    hipdnnHandle_t handle = nullptr;
    const hipdnnStatus_t status = hipdnnCreate(&handle);
    std::printf("%s\n", hipdnnGetErrorString(status));
    return status == HIPDNN_STATUS_SUCCESS && hipdnnDestroy(handle) == HIPDNN_STATUS_SUCCESS ? 0 : 1;
}
