// Launches, which run to their end at once, and the events that note when.
#pragma once
#include <chrono>

#include "code_object.h"

namespace softhip {

using Clock = std::chrono::steady_clock;
struct Event { Clock::time_point at; bool recorded = false; };
struct Stream { unsigned flags; int priority; };

void record(hipEvent_t e);
// `grid` counts work items.
hipError_t launch(Function *f, const uint32_t *grid, const uint32_t *group, uint32_t dyn_lds, void **params,
                  void **extra, hipEvent_t start, hipEvent_t stop);
// `g` counts workgroups.
hipError_t launch_blocks(Function *f, dim3 g, dim3 b, uint32_t lds, void **params, void **extra);

}  // namespace softhip
