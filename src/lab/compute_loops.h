// The candidate loops for the instruction peaks of this processor: what its arithmetic does when nothing waits for
// memory.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tern/device.h"

namespace tern::lab {

struct ComputeLoop {
  std::string_view name;
  double operations = 0;  // of one step; a multiplication and an addition are two
  void (*run)(std::int64_t steps);
};

// int8 products summed up in int16, by fours in int32 (VNNI), by tiles (AMX), and f32 products summed up in f32. Empty
// where the processor has none we know.
std::vector<ComputeLoop> int8_loops(Capabilities capabilities);
std::vector<ComputeLoop> vnni_loops(Capabilities capabilities);
std::vector<ComputeLoop> amx_loops(Capabilities capabilities);
std::vector<ComputeLoop> f32_loops(Capabilities capabilities);

}  // namespace tern::lab
