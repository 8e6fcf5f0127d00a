/* SPDX-License-Identifier: MIT */

/* A plugin author's file: both names of the plugin headers, one after the other. */

#include <hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn_sdk/plugin/EnginePluginApi.h>

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type)
{
    if (type == NULL)
        return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
    *type = HIPDNN_PLUGIN_TYPE_ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
