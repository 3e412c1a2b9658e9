// How CPU kernels read weights that one token meets once: from how many places in turn, and how far ahead they
// prefetch. That is a fact of a processor's memory system, not of an instruction set, and no bit depends on it.
#pragma once

#include <cstdint>

#include "tern/device.h"
#include "tern/plan.h"

namespace tern::linear {

struct Reading {
  int streams = 1;
  std::int64_t ahead_bytes = 0;  // of each stream
};

// What of a wish words with room for the sums of max_streams streams can do, and what suits the processor for the rest.
Tuning cpu_tuning(const CpuModel& cpu, const Tuning& asked, int max_streams);

// Of a tuning that is resolved, or null: of no processor that is known.
Reading reading_of(const Tuning* tuning, int max_streams);

}  // namespace tern::linear
