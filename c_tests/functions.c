/* SPDX-License-Identifier: MIT */

/*
 * Every function is declared with its signature and can be linked. The signatures are written from the interface's
 * description; a declaration that differs does not compile.
 */

#include "check.h"

/* hipdnnGetVersion_ext is deprecated but must still exist. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Volatile, so that each is loaded from the library instead of being a compile-time constant. */
#define FUNCTION(result, name, arguments) result(*volatile const p_##name) arguments = name

static FUNCTION(hipdnnStatus_t, hipdnnCreate, (hipdnnHandle_t*));
static FUNCTION(hipdnnStatus_t, hipdnnDestroy, (hipdnnHandle_t));
static FUNCTION(hipdnnStatus_t, hipdnnSetStream, (hipdnnHandle_t, hipStream_t));
static FUNCTION(hipdnnStatus_t, hipdnnGetStream, (hipdnnHandle_t, hipStream_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendCreateDescriptor,
                (hipdnnBackendDescriptorType_t, hipdnnBackendDescriptor_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendDestroyDescriptor, (hipdnnBackendDescriptor_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendExecute,
                (hipdnnHandle_t, hipdnnBackendDescriptor_t, hipdnnBackendDescriptor_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendFinalize, (hipdnnBackendDescriptor_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetAttribute,
                (hipdnnBackendDescriptor_t, hipdnnBackendAttributeName_t, hipdnnBackendAttributeType_t, int64_t,
                 int64_t*, void*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendSetAttribute,
                (hipdnnBackendDescriptor_t, hipdnnBackendAttributeName_t, hipdnnBackendAttributeType_t, int64_t,
                 const void*));
static FUNCTION(const char*, hipdnnGetErrorString, (hipdnnStatus_t));
static FUNCTION(void, hipdnnGetLastErrorString, (char*, size_t));
static FUNCTION(void, hipdnnPeekLastErrorString_ext, (char*, size_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendCreateAndDeserializeGraph_ext,
                (hipdnnBackendDescriptor_t*, const uint8_t*, size_t));
static FUNCTION(void, hipdnnLoggingCallback_ext, (hipdnnSeverity_t, const char*));
static FUNCTION(hipdnnStatus_t, hipdnnSetEnginePluginPaths_ext,
                (size_t, const char* const*, hipdnnPluginLoadingMode_ext_t));
static FUNCTION(hipdnnStatus_t, hipdnnGetLoadedEnginePluginPaths_ext, (hipdnnHandle_t, size_t*, char**, size_t*));
static FUNCTION(hipdnnStatus_t, hipdnnSetPluginUnloadMode_ext, (hipdnnPluginUnloadingMode_ext_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetSerializedBinaryGraph_ext,
                (hipdnnBackendDescriptor_t, size_t, size_t*, uint8_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetSerializedJsonGraph_ext,
                (hipdnnBackendDescriptor_t, size_t, size_t*, char*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendCreateAndDeserializeJsonGraph_ext,
                (hipdnnBackendDescriptor_t*, const char*, size_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetSerializedExecutionPlan_ext,
                (hipdnnBackendDescriptor_t, size_t, size_t*, uint8_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendCreateAndDeserializeExecutionPlan_ext,
                (hipdnnHandle_t, hipdnnBackendDescriptor_t*, const uint8_t*, size_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetSerializedBinaryGraphAndPlan_ext,
                (hipdnnBackendDescriptor_t, hipdnnBackendDescriptor_t, size_t, size_t*, uint8_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetSerializedBinaryContents_ext, (const uint8_t*, size_t, int*));
static FUNCTION(hipdnnStatus_t, hipdnnSetUserLogCallback_ext,
                (hipdnnUserLogCallback_t, hipdnnSeverity_t, hipdnnLogCallbackMode_t, hipdnnUserLogCallbackHandle_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendSetGlobalLogLevel_ext, (hipdnnSeverity_t));
static FUNCTION(hipdnnStatus_t, hipdnnBackendGetGlobalLogLevel_ext, (hipdnnSeverity_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetEngineCount_ext, (hipdnnHandle_t, size_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetEngineInfo_ext,
                (hipdnnHandle_t, size_t, int64_t*, char*, size_t*, char*, size_t*, char*, size_t*, char*, size_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetEngineKind_ext, (hipdnnHandle_t, size_t, uint32_t*, uint32_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetEngineIdByName_ext, (hipdnnHandle_t, const char*, int64_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetEngineNameById_ext, (hipdnnHandle_t, int64_t, char*, size_t*));
static FUNCTION(hipdnnStatus_t, hipdnnSetHeuristicPluginPaths_ext,
                (size_t, const char* const*, hipdnnPluginLoadingMode_ext_t));
static FUNCTION(hipdnnStatus_t, hipdnnGetHeuristicPolicyCount_ext, (hipdnnHandle_t, size_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetHeuristicPolicyInfo_ext,
                (hipdnnHandle_t, size_t, int64_t*, char*, size_t*, char*, size_t*, char*, size_t*, char*, size_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendWriteEngineTimes_ext,
                (hipdnnHandle_t, hipdnnBackendDescriptor_t, const int64_t*, const double*, size_t,
                 hipdnnAutotuneCacheWriteOutcome_ext_t*));
static FUNCTION(hipdnnStatus_t, hipdnnBackendWriteEngineRankingResults_ext,
                (hipdnnHandle_t, hipdnnBackendDescriptor_t, const int64_t*, size_t,
                 hipdnnAutotuneCacheWriteOutcome_ext_t*));
static FUNCTION(hipdnnStatus_t, hipdnnGetVersion_ext, (const char**));
static FUNCTION(const char*, hipdnnVersionString_ext, (void));

int main(void)
{
    CHECK(p_hipdnnCreate != NULL);
    CHECK(p_hipdnnDestroy != NULL);
    CHECK(p_hipdnnSetStream != NULL);
    CHECK(p_hipdnnGetStream != NULL);
    CHECK(p_hipdnnBackendCreateDescriptor != NULL);
    CHECK(p_hipdnnBackendDestroyDescriptor != NULL);
    CHECK(p_hipdnnBackendExecute != NULL);
    CHECK(p_hipdnnBackendFinalize != NULL);
    CHECK(p_hipdnnBackendGetAttribute != NULL);
    CHECK(p_hipdnnBackendSetAttribute != NULL);
    CHECK(p_hipdnnGetErrorString != NULL);
    CHECK(p_hipdnnGetLastErrorString != NULL);
    CHECK(p_hipdnnPeekLastErrorString_ext != NULL);
    CHECK(p_hipdnnBackendCreateAndDeserializeGraph_ext != NULL);
    CHECK(p_hipdnnLoggingCallback_ext != NULL);
    CHECK(p_hipdnnSetEnginePluginPaths_ext != NULL);
    CHECK(p_hipdnnGetLoadedEnginePluginPaths_ext != NULL);
    CHECK(p_hipdnnSetPluginUnloadMode_ext != NULL);
    CHECK(p_hipdnnBackendGetSerializedBinaryGraph_ext != NULL);
    CHECK(p_hipdnnBackendGetSerializedJsonGraph_ext != NULL);
    CHECK(p_hipdnnBackendCreateAndDeserializeJsonGraph_ext != NULL);
    CHECK(p_hipdnnBackendGetSerializedExecutionPlan_ext != NULL);
    CHECK(p_hipdnnBackendCreateAndDeserializeExecutionPlan_ext != NULL);
    CHECK(p_hipdnnBackendGetSerializedBinaryGraphAndPlan_ext != NULL);
    CHECK(p_hipdnnBackendGetSerializedBinaryContents_ext != NULL);
    CHECK(p_hipdnnSetUserLogCallback_ext != NULL);
    CHECK(p_hipdnnBackendSetGlobalLogLevel_ext != NULL);
    CHECK(p_hipdnnBackendGetGlobalLogLevel_ext != NULL);
    CHECK(p_hipdnnGetEngineCount_ext != NULL);
    CHECK(p_hipdnnGetEngineInfo_ext != NULL);
    CHECK(p_hipdnnGetEngineKind_ext != NULL);
    CHECK(p_hipdnnGetEngineIdByName_ext != NULL);
    CHECK(p_hipdnnGetEngineNameById_ext != NULL);
    CHECK(p_hipdnnSetHeuristicPluginPaths_ext != NULL);
    CHECK(p_hipdnnGetHeuristicPolicyCount_ext != NULL);
    CHECK(p_hipdnnGetHeuristicPolicyInfo_ext != NULL);
    CHECK(p_hipdnnBackendWriteEngineRankingResults_ext != NULL);
    CHECK(p_hipdnnBackendWriteEngineTimes_ext != NULL);
    CHECK(p_hipdnnGetVersion_ext != NULL);
    CHECK(p_hipdnnVersionString_ext != NULL);
    return check_result();
}
