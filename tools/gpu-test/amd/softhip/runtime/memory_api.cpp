// The functions of HIP for memory.
#include <dlfcn.h>

#include <algorithm>

#include "memory.h"

using namespace softhip;

extern "C" {

int softhip_missing(const char *name);

hipError_t hipMalloc(void **p, size_t n) { return allocate(p, n, hipMemoryTypeDevice); }
hipError_t hipExtMallocWithFlags(void **p, size_t n, unsigned f) { return allocate(p, n, hipMemoryTypeDevice, f); }
hipError_t hipMallocManaged(void **p, size_t n, unsigned f) { return allocate(p, n, hipMemoryTypeManaged, f); }
hipError_t hipHostMalloc(void **p, size_t n, unsigned f) { return allocate(p, n, hipMemoryTypeHost, f); }
hipError_t hipHostAlloc(void **p, size_t n, unsigned f) { return allocate(p, n, hipMemoryTypeHost, f); }
hipError_t hipMallocHost(void **p, size_t n) { return allocate(p, n, hipMemoryTypeHost); }
hipError_t hipMallocAsync(void **p, size_t n, hipStream_t) { return allocate(p, n, hipMemoryTypeDevice); }
hipError_t hipFree(void *p) { return release(p); }
hipError_t hipFreeAsync(void *p, hipStream_t) { return release(p); }
hipError_t hipHostFree(void *p) { return release(p); }
hipError_t hipFreeHost(void *p) { return release(p); }
hipError_t hipHostRegister(void *p, size_t n, unsigned) { lend(p, n, hipMemoryTypeHost); return hipSuccess; }
hipError_t hipHostUnregister(void *p) { return take_back(p) ? hipSuccess : set(hipErrorInvalidValue); }
hipError_t hipHostGetDevicePointer(void **d, void *h, unsigned) { *d = h; return hipSuccess; }
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *p, int) { *p = (hipMemPool_t)1; return hipSuccess; }
hipError_t hipMemPoolTrimTo(hipMemPool_t, size_t) { return hipSuccess; }
hipError_t hipMemPoolSetAttribute(hipMemPool_t, hipMemPoolAttr, void *) { return hipSuccess; }
hipError_t hipMemPoolGetAttribute(hipMemPool_t, hipMemPoolAttr, void *v) { *(uint64_t *)v = 0; return hipSuccess; }
hipError_t hipMemGetInfo(size_t *avail, size_t *total) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  size_t used = 0;
  for (auto &b : g_blocks) used += b.second.owned ? b.second.size : 0;
  if (avail) *avail = kMemory - std::min(used, kMemory);
  if (total) *total = kMemory;
  return hipSuccess;
}
hipError_t hipMemPtrGetInfo(void *p, size_t *n) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  auto it = find_block(p);
  if (it == g_blocks.end()) return set(hipErrorInvalidValue);
  *n = it->second.size;
  return hipSuccess;
}
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *n, hipDeviceptr_t p) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  auto it = find_block(p);
  if (it == g_blocks.end()) return set(hipErrorNotFound);
  if (base) *base = (hipDeviceptr_t)it->first;
  if (n) *n = it->second.size;
  return hipSuccess;
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *a, const void *p) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  auto it = find_block(p);
  *a = {};
  if (it == g_blocks.end()) { a->type = hipMemoryTypeUnregistered; a->device = -2; return set(hipErrorInvalidValue); }
  a->type = it->second.type;
  a->devicePointer = (void *)p;
  a->hostPointer = a->type == hipMemoryTypeDevice ? nullptr : (void *)p;
  a->isManaged = a->type == hipMemoryTypeManaged;
  a->allocationFlags = it->second.flags;
  return hipSuccess;
}

static hipError_t copy(void *d, const void *s, size_t n) {
  if (n && (!d || !s)) return set(hipErrorInvalidValue);
  Open open;
  memmove(d, s, n);
  return hipSuccess;
}
hipError_t hipMemcpy(void *d, const void *s, size_t n, hipMemcpyKind) { return copy(d, s, n); }
hipError_t hipMemcpyAsync(void *d, const void *s, size_t n, hipMemcpyKind, hipStream_t) { return copy(d, s, n); }
hipError_t hipMemcpyWithStream(void *d, const void *s, size_t n, hipMemcpyKind, hipStream_t) { return copy(d, s, n); }
hipError_t hipMemcpyHtoD(hipDeviceptr_t d, void *s, size_t n) { return copy(d, s, n); }
hipError_t hipMemcpyDtoH(void *d, hipDeviceptr_t s, size_t n) { return copy(d, s, n); }
hipError_t hipMemcpyDtoD(hipDeviceptr_t d, hipDeviceptr_t s, size_t n) { return copy(d, s, n); }
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t d, void *s, size_t n, hipStream_t) { return copy(d, s, n); }
hipError_t hipMemcpyDtoHAsync(void *d, hipDeviceptr_t s, size_t n, hipStream_t) { return copy(d, s, n); }
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t d, hipDeviceptr_t s, size_t n, hipStream_t) { return copy(d, s, n); }
hipError_t hipMemcpy2D(void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, hipMemcpyKind) {
  Open open;
  for (size_t i = 0; i < h; i++) memmove((char *)d + i * dp, (const char *)s + i * sp, w);
  return hipSuccess;
}
hipError_t hipMemcpy2DAsync(void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, hipMemcpyKind k,
                            hipStream_t) {
  return hipMemcpy2D(d, dp, s, sp, w, h, k);
}
static hipError_t fill(void *d, const void *v, size_t w, size_t n) {
  if (n && !d) return set(hipErrorInvalidValue);
  Open open;
  for (size_t i = 0; i < n; i++) memcpy((char *)d + i * w, v, w);
  return hipSuccess;
}
hipError_t hipMemset(void *d, int v, size_t n) { return fill(d, &v, 1, n); }
hipError_t hipMemsetAsync(void *d, int v, size_t n, hipStream_t) { return fill(d, &v, 1, n); }
hipError_t hipMemsetD8(hipDeviceptr_t d, unsigned char v, size_t n) { return fill(d, &v, 1, n); }
hipError_t hipMemsetD8Async(hipDeviceptr_t d, unsigned char v, size_t n, hipStream_t) { return fill(d, &v, 1, n); }
hipError_t hipMemsetD16(hipDeviceptr_t d, unsigned short v, size_t n) { return fill(d, &v, 2, n); }
hipError_t hipMemsetD16Async(hipDeviceptr_t d, unsigned short v, size_t n, hipStream_t) { return fill(d, &v, 2, n); }
hipError_t hipMemsetD32(hipDeviceptr_t d, int v, size_t n) { return fill(d, &v, 4, n); }
hipError_t hipMemsetD32Async(hipDeviceptr_t d, int v, size_t n, hipStream_t) { return fill(d, &v, 4, n); }

hipError_t hipGetProcAddress(const char *name, void **f, int, uint64_t, hipDriverProcAddressQueryResult *status) {
  Dl_info self;
  dladdr((void *)&softhip_missing, &self);
  *f = dlsym(dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
  if (status) *status = *f ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *f ? hipSuccess : set(hipErrorNotFound);
}

}  // extern "C"
