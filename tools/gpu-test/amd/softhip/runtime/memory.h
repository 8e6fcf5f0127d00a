// Device memory: blocks of the host heap that the host may touch only while the runtime works.
#pragma once
#include <map>

#include "common.h"

namespace softhip {

struct Block { size_t size; hipMemoryType type; unsigned flags; bool owned; };
extern std::map<uintptr_t, Block> g_blocks;
constexpr size_t kMemory = 24ull << 30;

// The host may not touch device memory: it is mapped without access, except while the runtime itself
// copies or runs a kernel.
class Open {
  static int depth_;
  std::lock_guard<std::recursive_mutex> lock_;
  static void protect(int mode);

 public:
  Open();
  ~Open();
};

hipError_t allocate(void **p, size_t n, hipMemoryType type, unsigned flags = 0);
hipError_t release(void *p);
// Memory that kernels may touch but hipFree may not free.
void lend(const void *p, size_t n, hipMemoryType type);
bool take_back(const void *p);
std::map<uintptr_t, Block>::iterator find_block(const void *p);
// Asked by the emulator for each access; the launch holds g_lock.
int valid_access(uint64_t p, uint64_t n);

}  // namespace softhip
