// Errors, versions, the device.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "memory.h"

namespace softhip {

std::recursive_mutex g_lock;
const char *const kLog = getenv("SOFTHIP_LOG");
static thread_local hipError_t t_last = hipSuccess;

hipError_t fail(hipError_t e, const char *where) {
  if (e != hipSuccess) t_last = e;
  if (e != hipSuccess && kLog) fprintf(stderr, "softhip: %s returns %d\n", where, (int)e);
  return e;
}

static const std::map<int, const char *> kErrors = {
    {0, "hipSuccess"}, {1, "hipErrorInvalidValue"}, {2, "hipErrorOutOfMemory"}, {9, "hipErrorInvalidConfiguration"},
    {98, "hipErrorInvalidDeviceFunction"}, {100, "hipErrorNoDevice"}, {101, "hipErrorInvalidDevice"},
    {209, "hipErrorNoBinaryForGpu"}, {301, "hipErrorFileNotFound"}, {400, "hipErrorInvalidHandle"},
    {500, "hipErrorNotFound"}, {600, "hipErrorNotReady"}, {719, "hipErrorLaunchFailure"}, {801, "hipErrorNotSupported"}};

}  // namespace softhip

using namespace softhip;

extern "C" {

// Every function of the real library that is not defined below is a generated stub calling this.
int softhip_missing(const char *name) {
  static std::set<std::string> seen;
  std::lock_guard<std::recursive_mutex> l(g_lock);
  if (seen.insert(name).second) fprintf(stderr, "softhip: %s is not implemented\n", name);
  return set(hipErrorNotSupported);
}

// ---- errors and versions
hipError_t hipInit(unsigned) { return hipSuccess; }
hipError_t hipGetLastError() { auto e = t_last; t_last = hipSuccess; return e; }
hipError_t hipPeekAtLastError() { return t_last; }
const char *hipGetErrorName(hipError_t e) {
  auto it = kErrors.find(e);
  return it == kErrors.end() ? "hipErrorUnknown" : it->second;
}
const char *hipGetErrorString(hipError_t e) { return hipGetErrorName(e); }
hipError_t hipDrvGetErrorName(hipError_t e, const char **s) { *s = hipGetErrorName(e); return hipSuccess; }
hipError_t hipDrvGetErrorString(hipError_t e, const char **s) { *s = hipGetErrorName(e); return hipSuccess; }
hipError_t hipRuntimeGetVersion(int *v) { *v = HIP_VERSION; return hipSuccess; }
hipError_t hipDriverGetVersion(int *v) { *v = HIP_VERSION; return hipSuccess; }

// ---- the device
hipError_t hipGetDeviceCount(int *n) { *n = 1; return hipSuccess; }
hipError_t hipGetDevice(int *d) { *d = 0; return hipSuccess; }
hipError_t hipSetDevice(int d) { return d ? set(hipErrorInvalidDevice) : hipSuccess; }
hipError_t hipDeviceGet(hipDevice_t *d, int i) { *d = 0; return i ? set(hipErrorInvalidDevice) : hipSuccess; }
hipError_t hipDeviceGetName(char *s, int n, hipDevice_t) { snprintf(s, n, "softhip gfx1100"); return hipSuccess; }
hipError_t hipDeviceTotalMem(size_t *n, hipDevice_t) { *n = kMemory; return hipSuccess; }
hipError_t hipDeviceGetPCIBusId(char *s, int n, int) { snprintf(s, n, "0000:00:00.0"); return hipSuccess; }
hipError_t hipDeviceSynchronize() { return hipSuccess; }
hipError_t hipDeviceReset() { return hipSuccess; }
hipError_t hipSetDeviceFlags(unsigned) { return hipSuccess; }
hipError_t hipGetDeviceFlags(unsigned *f) { *f = 0; return hipSuccess; }
hipError_t hipDeviceComputeCapability(int *a, int *b, hipDevice_t) { *a = 11; *b = 0; return hipSuccess; }
hipError_t hipDeviceCanAccessPeer(int *c, int, int) { *c = 0; return hipSuccess; }
hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *c, hipDevice_t) { *c = (hipCtx_t)1; return hipSuccess; }
hipError_t hipDevicePrimaryCtxRelease(hipDevice_t) { return hipSuccess; }
hipError_t hipCtxGetCurrent(hipCtx_t *c) { *c = (hipCtx_t)1; return hipSuccess; }
hipError_t hipCtxSetCurrent(hipCtx_t) { return hipSuccess; }
hipError_t hipCtxGetDevice(hipDevice_t *d) { *d = 0; return hipSuccess; }

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device) {
  if (device) return set(hipErrorInvalidDevice);
  *p = {};
  strcpy(p->name, "softhip gfx1100");
  strcpy(p->gcnArchName, "gfx1100");
  p->totalGlobalMem = kMemory;
  p->sharedMemPerBlock = p->sharedMemPerMultiprocessor = p->maxSharedMemoryPerMultiProcessor = 65536;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->memPitch = p->totalConstMem = 2147483647;
  p->maxThreadsPerBlock = 1024;
  for (int &d : p->maxThreadsDim) d = 1024;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65536;
  p->clockRate = 2482000;
  p->major = 11;
  p->multiProcessorCount = 48;
  p->canMapHostMemory = p->unifiedAddressing = p->concurrentKernels = 1;
  p->memoryClockRate = 1249000;
  p->memoryBusWidth = 384;
  p->l2CacheSize = 6 << 20;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 2;
  p->textureAlignment = p->texturePitchAlignment = 256;
  p->managedMemory = p->pageableMemoryAccess = p->memoryPoolsSupported = p->cooperativeLaunch = 1;
  p->clockInstructionRate = 100000;
  p->arch.hasGlobalInt32Atomics = p->arch.hasGlobalFloatAtomicExch = p->arch.hasSharedInt32Atomics = 1;
  p->arch.hasSharedFloatAtomicExch = p->arch.hasFloatAtomicAdd = p->arch.hasGlobalInt64Atomics = 1;
  p->arch.hasSharedInt64Atomics = p->arch.hasDoubles = p->arch.hasWarpVote = p->arch.hasWarpBallot = 1;
  p->arch.hasWarpShuffle = p->arch.has3dGrid = 1;
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *v, hipDeviceAttribute_t a, int device) {
  hipDeviceProp_tR0600 p;
  if (hipGetDevicePropertiesR0600(&p, device) != hipSuccess) return hipErrorInvalidDevice;
  switch (a) {
    case hipDeviceAttributeWarpSize: *v = p.warpSize; break;
    case hipDeviceAttributeMaxThreadsPerBlock:
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ: *v = 1024; break;
    case hipDeviceAttributeMaxGridDimX: *v = p.maxGridSize[0]; break;
    case hipDeviceAttributeMaxGridDimY: *v = p.maxGridSize[1]; break;
    case hipDeviceAttributeMaxGridDimZ: *v = p.maxGridSize[2]; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *v = 65536; break;
    case hipDeviceAttributeMaxRegistersPerBlock: *v = p.regsPerBlock; break;
    case hipDeviceAttributeTotalConstantMemory: *v = (int)p.totalConstMem; break;
    case hipDeviceAttributeClockRate: *v = p.clockRate; break;
    case hipDeviceAttributeWallClockRate: *v = p.clockInstructionRate; break;
    case hipDeviceAttributeMemoryClockRate: *v = p.memoryClockRate; break;
    case hipDeviceAttributeMemoryBusWidth: *v = p.memoryBusWidth; break;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount: *v = p.multiProcessorCount; break;
    case hipDeviceAttributeL2CacheSize: *v = p.l2CacheSize; break;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor: *v = p.maxThreadsPerMultiProcessor; break;
    case hipDeviceAttributeComputeCapabilityMajor: *v = p.major; break;
    case hipDeviceAttributeTextureAlignment: *v = 256; break;
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeCooperativeLaunch:
    case hipDeviceAttributeMemoryPoolsSupported: *v = 1; break;
    default: *v = 0;
  }
  return hipSuccess;
}

}  // extern "C"
