/* SPDX-License-Identifier: MIT */

/*
 * A CUDA driver without a device. cuDNN can make plans for a described device without having one, but parts of it need a driver to
 * load: this one accepts every kernel and runs none.
 */
#include <stddef.h>

enum { SUCCESS = 0, NO_DEVICE = 100 };

#define DRIVER(name) int name(void); int name(void)
#define MAKES(name) int name(void** made); int name(void** made)
#define ANSWERS(name) int name(int* answer); int name(int* answer)

static int make(void** made)
{
    static char something;
    *made = &something;
    return SUCCESS;
}

MAKES(cuModuleLoadData) { return make(made); }
MAKES(cuModuleGetFunction) { return make(made); }
DRIVER(cuModuleUnload) { return SUCCESS; }
MAKES(cuLibraryLoadData) { return make(made); }
MAKES(cuLibraryLoadFromFile) { return make(made); }
MAKES(cuLibraryGetKernel) { return make(made); }
DRIVER(cuLibraryUnload) { return SUCCESS; }
MAKES(cuKernelGetFunction) { return make(made); }
DRIVER(cuKernelSetAttribute) { return SUCCESS; }
ANSWERS(cuKernelGetAttribute)
{
    *answer = 0;
    return SUCCESS;
}
ANSWERS(cuOccupancyMaxPotentialClusterSize)
{
    *answer = 8;
    return SUCCESS;
}

MAKES(cuCtxGetCurrent) { return make(made); }
MAKES(cuCtxPopCurrent) { return make(made); }
DRIVER(cuCtxPushCurrent) { return SUCCESS; }
ANSWERS(cuDriverGetVersion)
{
    *answer = 13000;
    return SUCCESS;
}
ANSWERS(cuDeviceGetCount)
{
    *answer = 0;
    return SUCCESS;
}

DRIVER(cuDeviceGet) { return NO_DEVICE; }
DRIVER(cuCtxGetLimit) { return NO_DEVICE; }
DRIVER(cuStreamGetCtx) { return NO_DEVICE; }
DRIVER(cuLinkCreate) { return NO_DEVICE; }
DRIVER(cuLinkAddData) { return NO_DEVICE; }
DRIVER(cuLinkComplete) { return NO_DEVICE; }
DRIVER(cuLinkDestroy) { return NO_DEVICE; }
DRIVER(cuLaunchKernel) { return NO_DEVICE; }
DRIVER(cuLaunchKernelEx) { return NO_DEVICE; }
DRIVER(cuLaunchCooperativeKernel) { return NO_DEVICE; }
DRIVER(cuTensorMapEncodeTiled) { return NO_DEVICE; }
DRIVER(cuTensorMapEncodeIm2col) { return NO_DEVICE; }

int cuGetErrorString(int error, const char** text);
int cuGetErrorString(int error, const char** text)
{
    *text = error == SUCCESS ? "no error" : "there is no device";
    return SUCCESS;
}

int cuGetErrorName(int error, const char** name);
int cuGetErrorName(int error, const char** name)
{
    *name = error == SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_NO_DEVICE";
    return SUCCESS;
}
