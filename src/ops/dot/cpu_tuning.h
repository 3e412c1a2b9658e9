// How CPU kernels read weights when each is used once: how many streams they read in turn, and how far ahead they
// prefetch. The best choice depends on the processor's memory system, not on the instruction set. Results do not depend
// on it.
#pragma once

#include <cstdint>

#include "tern/device.h"
#include "tern/plan.h"

namespace tern::dot {

struct Reading {
  int streams = 1;
  std::int64_t ahead_bytes = 0;  // of each stream
};

// Limits what the caller asked for to max_streams, the most streams whose sums fit the kernel's registers, and fills in
// the rest with what suits the processor.
Tuning cpu_tuning(const CpuModel& cpu, const Tuning& asked, int max_streams);

// `tuning` was resolved before; null means the defaults for an unknown processor.
Reading reading_of(const Tuning* tuning, int max_streams);

}  // namespace tern::dot
