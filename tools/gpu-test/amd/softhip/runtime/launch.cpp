// Kernels, handed to the emulator.
#include "launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../dispatch.h"
#include "memory.h"

namespace softhip {

static void fill_hidden(const Node &arg, uint8_t *at, const uint32_t *grid, const uint32_t *group, uint32_t dyn_lds) {
  const std::string &k = arg[".value_kind"].str;
  uint64_t v = 0;
  int axis = k.empty() ? 0 : k.back() - 'x';
  if (axis < 0 || axis > 2) axis = 0;
  if (k.rfind("hidden_block_count", 0) == 0) v = grid[axis] / group[axis];
  else if (k.rfind("hidden_group_size", 0) == 0) v = group[axis];
  else if (k.rfind("hidden_remainder", 0) == 0) v = grid[axis] % group[axis];
  else if (k == "hidden_grid_dims") v = grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1;
  else if (k == "hidden_dynamic_lds_size") v = dyn_lds;
  else if (k == "hidden_private_base") v = 0x20000;  // high half of the apertures, as the emulator has them
  else if (k == "hidden_shared_base") v = 0x10000;
  memcpy(at, &v, std::min<size_t>(8, arg[".size"].num));
}

void record(hipEvent_t e) {
  if (!e) return;
  ((Event *)e)->at = Clock::now();
  ((Event *)e)->recorded = true;
}

hipError_t launch(Function *f, const uint32_t *grid, const uint32_t *group, uint32_t dyn_lds, void **params,
                  void **extra, hipEvent_t start, hipEvent_t stop) {
  if (!f) return set(hipErrorInvalidHandle);
  uint64_t threads = (uint64_t)group[0] * group[1] * group[2];
  if (!threads || threads > 1024 || !grid[0] || !grid[1] || !grid[2]) return set(hipErrorInvalidConfiguration);
  const Node &meta = f->meta;
  size_t size = meta[".kernarg_segment_size"].num;
  std::vector<uint64_t> kernarg((size + 256) / 8 + 1);
  uint8_t *ka = (uint8_t *)kernarg.data();
  if (extra) {
    const void *buf = nullptr;
    size_t n = 0;
    for (; *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
      if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER) buf = extra[1];
      else if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE) n = *(size_t *)extra[1];
      else return set(hipErrorInvalidValue);
    }
    memcpy(ka, buf, std::min(n, size));
  }
  size_t i = 0;
  for (auto &a : meta[".args"].list) {
    uint8_t *at = ka + a[".offset"].num;
    if (a[".value_kind"].str.rfind("hidden_", 0) == 0) fill_hidden(a, at, grid, group, dyn_lds);
    else if (!extra && params) memcpy(at, params[i++], a[".size"].num);
  }
  uint32_t lds = get<uint32_t>(f->kd) + dyn_lds, scratch = get<uint32_t>(f->kd + 4);
  if (meta[".uses_dynamic_stack"].num) scratch += 16384;

  uint8_t packet[64] = {};
  uint16_t dims = grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1;
  memcpy(packet + 2, &dims, 2);
  for (int j = 0; j < 3; j++) {
    uint16_t g = group[j];
    memcpy(packet + 4 + 2 * j, &g, 2);
    memcpy(packet + 12 + 4 * j, &grid[j], 4);
  }
  memcpy(packet + 24, &scratch, 4);
  memcpy(packet + 28, &lds, 4);
  memcpy(packet + 32, &f->kd, 8);
  memcpy(packet + 40, &ka, 8);

  softhip_dispatch d = {};
  d.kd = f->kd;
  d.entry = f->kd + get<int64_t>(f->kd + 16);
  d.end = f->module->code_end;
  d.kernarg = ka;
  d.packet = packet;
  for (int j = 0; j < 3; j++) { d.grid[j] = grid[j]; d.group[j] = group[j]; }
  d.lds = lds;
  d.scratch = scratch;

  static const char *const check = getenv("SOFTHIP_CHECK"), *const reverse = getenv("SOFTHIP_REVERSE");
  d.valid = check && !strcmp(check, "0") ? nullptr : valid_access;
  d.reverse = reverse && strcmp(reverse, "0");

  Open open;
  lend(ka, kernarg.size() * 8, hipMemoryTypeHost);
  lend(packet, sizeof packet, hipMemoryTypeHost);
  record(start);
  auto t0 = Clock::now();
  if (kLog)
    fprintf(stderr, "softhip: %s grid %u %u %u group %u %u %u lds %u scratch %u\n", f->name.c_str(), grid[0], grid[1],
            grid[2], group[0], group[1], group[2], lds, scratch);
  int rc = softhip_run(&d);
  if (kLog)
    fprintf(stderr, "softhip:   %.3f s, %llu wave instructions\n",
            std::chrono::duration<double>(Clock::now() - t0).count(), (unsigned long long)d.instructions);
  record(stop);
  take_back(ka);
  take_back(packet);
  if (rc) {
    fprintf(stderr, "softhip: kernel %s failed in the emulator (%d)\n", f->name.c_str(), rc);
    return set(hipErrorLaunchFailure);
  }
  return hipSuccess;
}

hipError_t launch_blocks(Function *f, dim3 g, dim3 b, uint32_t lds, void **params, void **extra) {
  uint32_t grid[3] = {g.x * b.x, g.y * b.y, g.z * b.z}, group[3] = {b.x, b.y, b.z};
  return launch(f, grid, group, lds, params, extra, nullptr, nullptr);
}

}  // namespace softhip
