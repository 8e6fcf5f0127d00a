// Blocks of device memory.
#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace softhip {

std::map<uintptr_t, Block> g_blocks;
// The block that the last checked access lay in.
static uintptr_t g_hot[2];

int Open::depth_ = 0;

void Open::protect(int mode) {
  static const char *const off = getenv("SOFTHIP_GUARD");
  if (off && !strcmp(off, "0")) return;
  for (auto &b : g_blocks)
    if (b.second.owned && b.second.type == hipMemoryTypeDevice) mprotect((void *)b.first, b.second.size, mode);
}
Open::Open() : lock_(g_lock) {
  if (!depth_++) protect(PROT_READ | PROT_WRITE);
}
Open::~Open() {
  if (!--depth_) protect(PROT_NONE);
}

hipError_t allocate(void **p, size_t n, hipMemoryType type, unsigned flags) {
  if (!p) return set(hipErrorInvalidValue);
  *p = nullptr;
  if (!n) return hipSuccess;
  Open open;
  void *m = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return set(hipErrorOutOfMemory);
  memset(m, 0xCB, n);  // fresh device memory is garbage
  g_blocks[(uintptr_t)m] = {n, type, flags, true};
  *p = m;
  return hipSuccess;
}

hipError_t release(void *p) {
  if (!p) return hipSuccess;
  std::lock_guard<std::recursive_mutex> l(g_lock);
  auto it = g_blocks.find((uintptr_t)p);
  if (it == g_blocks.end() || !it->second.owned) return set(hipErrorInvalidValue);
  munmap(p, it->second.size);
  g_blocks.erase(it);
  g_hot[1] = 0;
  return hipSuccess;
}

void lend(const void *p, size_t n, hipMemoryType type) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  g_blocks[(uintptr_t)p] = {n, type, 0, false};
}
bool take_back(const void *p) {
  std::lock_guard<std::recursive_mutex> l(g_lock);
  auto it = g_blocks.find((uintptr_t)p);
  if (it == g_blocks.end() || it->second.owned) return false;
  g_blocks.erase(it);
  g_hot[1] = 0;
  return true;
}

std::map<uintptr_t, Block>::iterator find_block(const void *p) {
  auto it = g_blocks.upper_bound((uintptr_t)p);
  if (it == g_blocks.begin()) return g_blocks.end();
  --it;
  return (uintptr_t)p < it->first + it->second.size ? it : g_blocks.end();
}

int valid_access(uint64_t p, uint64_t n) {
  if (p >= g_hot[0] && p + n <= g_hot[1]) return 1;
  auto it = find_block((void *)p);
  if (it == g_blocks.end()) return 0;
  g_hot[0] = it->first;
  g_hot[1] = it->first + it->second.size;
  return p + n <= g_hot[1];
}

}  // namespace softhip
