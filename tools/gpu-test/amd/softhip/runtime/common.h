// What every part of the runtime shares: its lock, the last error of each thread, the log.
#pragma once
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <mutex>

namespace softhip {

extern std::recursive_mutex g_lock;
// `SOFTHIP_LOG`, null where it is not set.
extern const char *const kLog;

// Notes an error as the last one of this thread, and answers it.
hipError_t fail(hipError_t e, const char *where);
#define set(e) softhip::fail(e, __func__)

template <class T> T get(const void *p) {
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace softhip
