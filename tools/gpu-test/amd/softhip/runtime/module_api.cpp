// The functions of HIP for modules, launches, and kernels compiled into a program.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "launch.h"
#include "memory.h"

namespace softhip {

struct FatBinary { const uint8_t *image; std::unique_ptr<Module> module; };
struct Registered { FatBinary *binary; std::string name; };
static std::map<const void *, Registered> g_registered;
struct Config { dim3 grid, block; size_t lds; hipStream_t stream; };
static thread_local std::vector<Config> t_configs;

static Function *registered_function(const void *host) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  auto it = g_registered.find(host);
  if (it == g_registered.end()) return nullptr;
  FatBinary *b = it->second.binary;
  if (!b->module) {
    hipModule_t m;
    if (load_module(&m, b->image) != hipSuccess) return nullptr;
    b->module.reset((Module *)m);
  }
  return b->module->function(it->second.name);
}

}  // namespace softhip

using namespace softhip;

extern "C" {

hipError_t hipModuleLoadData(hipModule_t *m, const void *image) { return load_module(m, image); }
hipError_t hipModuleLoadDataEx(hipModule_t *m, const void *image, unsigned, hipJitOption *, void **) {
  return load_module(m, image);
}
hipError_t hipModuleLoad(hipModule_t *m, const char *path) {
  std::ifstream f(path, std::ios::binary);
  if (!f) return set(hipErrorFileNotFound);
  std::string s((std::istreambuf_iterator<char>(f)), {});
  return load_module(m, s.data());
}
hipError_t hipModuleUnload(hipModule_t m) { delete (Module *)m; return hipSuccess; }
hipError_t hipModuleGetFunction(hipFunction_t *f, hipModule_t m, const char *name) {
  *f = (hipFunction_t)((Module *)m)->function(name);
  if (kLog && !*f) fprintf(stderr, "softhip: no kernel %s among %zu\n", name, ((Module *)m)->functions.size());
  return *f ? hipSuccess : set(hipErrorNotFound);
}
hipError_t hipModuleGetGlobal(hipDeviceptr_t *p, size_t *n, hipModule_t m, const char *name) {
  auto &s = ((Module *)m)->symbols;
  auto it = s.find(name);
  if (it == s.end()) return set(hipErrorNotFound);
  if (p) *p = it->second.first;
  if (n) *n = it->second.second;
  return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned lds, hipStream_t, void **params, void **extra) {
  return launch_blocks((Function *)f, dim3(gx, gy, gz), dim3(bx, by, bz), lds, params, extra);
}
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                            unsigned by, unsigned bz, unsigned lds, hipStream_t, void **params) {
  return launch_blocks((Function *)f, dim3(gx, gy, gz), dim3(bx, by, bz), lds, params, nullptr);
}
hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
                                    uint32_t bz, size_t lds, hipStream_t, void **params, void **extra,
                                    hipEvent_t start, hipEvent_t stop, uint32_t) {
  uint32_t grid[3] = {gx, gy, gz}, group[3] = {bx, by, bz};  // here the grid counts work items
  return launch((Function *)f, grid, group, lds, params, extra, start, stop);
}
hipError_t hipHccModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
                                    uint32_t bz, size_t lds, hipStream_t s, void **params, void **extra,
                                    hipEvent_t start, hipEvent_t stop) {
  return hipExtModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, s, params, extra, start, stop, 0);
}
hipError_t hipFuncGetAttribute(int *v, hipFunction_attribute a, hipFunction_t fn) {
  const Node &m = ((Function *)fn)->meta;
  switch (a) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = m[".max_flat_workgroup_size"].num; break;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *v = m[".group_segment_fixed_size"].num; break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *v = m[".private_segment_fixed_size"].num; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *v = m[".vgpr_count"].num; break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *v = 65536 - m[".group_segment_fixed_size"].num; break;
    default: *v = 0;
  }
  return hipSuccess;
}
hipError_t hipFuncGetAttributes(hipFuncAttributes *a, const void *host) {
  Function *f = registered_function(host);
  if (!f) return set(hipErrorInvalidDeviceFunction);
  *a = {};
  a->maxThreadsPerBlock = f->meta[".max_flat_workgroup_size"].num;
  a->sharedSizeBytes = f->meta[".group_segment_fixed_size"].num;
  a->localSizeBytes = f->meta[".private_segment_fixed_size"].num;
  a->numRegs = f->meta[".vgpr_count"].num;
  return hipSuccess;
}
hipError_t hipFuncSetAttribute(const void *, hipFuncAttribute, int) { return hipSuccess; }
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, hipFunction_t, int block, size_t) {
  *n = block > 0 ? std::max(1, 2048 / block) : 0;
  return hipSuccess;
}
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int block, size_t) {
  return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(n, nullptr, block, 0);
}

hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t f, size_t, int limit) {
  int most = ((Function *)f)->meta[".max_flat_workgroup_size"].num;
  *block = limit > 0 ? std::min(limit, most) : most;
  *grid = 48;
  return hipSuccess;
}

// ---- kernels compiled into a program
void **__hipRegisterFatBinary(const void *wrapper) {
  return (void **)new FatBinary{get<const uint8_t *>((const char *)wrapper + 8), nullptr};
}
void __hipUnregisterFatBinary(void **) {}
void __hipRegisterFunction(void **modules, const void *host, char *, const char *name, unsigned, void *, void *, void *,
                           void *, int *) {
  g_registered[host] = {(FatBinary *)modules, name};
}
void __hipRegisterVar(void **, void *, char *, char *, int, size_t, int, int) {}
void __hipRegisterManagedVar(void *, void **, void *, const char *, size_t, unsigned) {}
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t s) {
  t_configs.push_back({grid, block, lds, s});
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds, hipStream_t *s) {
  auto c = t_configs.back();
  t_configs.pop_back();
  *grid = c.grid; *block = c.block; *lds = c.lds; *s = c.stream;
  return hipSuccess;
}
hipError_t hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t lds, hipStream_t) {
  Function *f = registered_function(host);
  return f ? launch_blocks(f, grid, block, lds, args, nullptr) : set(hipErrorInvalidDeviceFunction);
}

}  // extern "C"
