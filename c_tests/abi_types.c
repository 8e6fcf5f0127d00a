/* SPDX-License-Identifier: MIT */

/* Sizes and layouts of passed types, written from the interface's description, independently of the generator.
 * The numbers of the enums have golden/abi.txt. */

#include "hipdnn_backend.h"

#include "HipdnnAttentionImplementation.h"
#include "HipdnnBackendFlatbufferData.h"
#include "HipdnnDiagonalAlignment.h"
#include "HipdnnNormFwdPhase.h"
#include "HipdnnOperationType.h"
#include "HipdnnPointwiseMode.h"
#include "hipdnn_backend/version.h"

#define VALUE(number, name) _Static_assert((long)(name) == (number), #name " is not " #number)

/* Every enum is passed as an int. */
#define IS_INT(type) _Static_assert(sizeof(type) == sizeof(int), #type " is not an int")
IS_INT(hipdnnStatus_t);
IS_INT(hipdnnBackendDescriptorType_t);
IS_INT(hipdnnBackendAttributeType_t);
IS_INT(hipdnnBackendHeurMode_t);
IS_INT(hipdnnDataType_t);
IS_INT(hipdnnOperationType_ext_t);
IS_INT(hipdnnOperationType_t);
IS_INT(hipdnnConvolutionMode_t);
IS_INT(hipdnnPointwiseMode_t);
IS_INT(hipdnnReduceTensorOp_t);
IS_INT(hipdnnReductionMode_t);
IS_INT(hipdnnResampleMode_t);
IS_INT(hipdnnPaddingMode_t);
IS_INT(hipdnnNormFwdPhase_t);
IS_INT(hipdnnDiagonalAlignment_t);
IS_INT(hipdnnAttentionImplementation_t);
IS_INT(hipdnnMoeGroupedMatmulMode_t);
IS_INT(hipdnnBackendBehaviorNote_t);
IS_INT(hipdnnBackendNumericalNote_t);
IS_INT(hipdnnPluginLoadingMode_ext_t);
IS_INT(hipdnnPluginUnloadingMode_ext_t);
IS_INT(hipdnnSeverity_t);
IS_INT(hipdnnLogCallbackMode_t);
IS_INT(hipdnnSerializedContentFlags_t);
IS_INT(hipdnnAutotuneCacheWriteOutcome_ext_t);
IS_INT(hipdnnBackendAttributeName_t);

/* Constants. */
VALUE(2048, HIPDNN_ERROR_STRING_MAX_LENGTH);
VALUE(0, HIPDNN_BACKEND_VERSION_MAJOR);

/* hipdnnBackendFlatbufferData_t */
_Static_assert(sizeof(hipdnnBackendFlatbufferData_t) == sizeof(void*) + sizeof(size_t), "size");
_Static_assert(offsetof(hipdnnBackendFlatbufferData_t, ptr) == 0, "ptr");
_Static_assert(offsetof(hipdnnBackendFlatbufferData_t, size) == sizeof(void*), "size");
_Static_assert(_Generic(((hipdnnBackendFlatbufferData_t*)0)->ptr, const void*: 1, default: 0), "ptr's type");
_Static_assert(_Generic(((hipdnnBackendFlatbufferData_t*)0)->size, size_t: 1, default: 0), "size's type");

/* Handles are pointers to structs with these tags. */
_Static_assert(_Generic((hipdnnHandle_t)0, struct hipdnnHandle*: 1, default: 0), "hipdnnHandle_t");
_Static_assert(_Generic((hipdnnBackendDescriptor_t)0, struct HipdnnBackendDescriptor*: 1, default: 0),
               "hipdnnBackendDescriptor_t");
_Static_assert(_Generic((hipStream_t)0, struct ihipStream_t*: 1, default: 0), "hipStream_t");

/* Callbacks. */
_Static_assert(_Generic((hipdnnCallback_t)0, void (*)(hipdnnSeverity_t, const char*): 1, default: 0),
               "hipdnnCallback_t");
_Static_assert(_Generic((hipdnnUserLogCallback_t)0, void (*)(void*, hipdnnSeverity_t, const char*): 1, default: 0),
               "hipdnnUserLogCallback_t");

int main(void) { return 0; }
