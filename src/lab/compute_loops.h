// The candidate loops for the instruction peaks of this processor: the rate of its arithmetic when nothing waits for
// memory.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tern/device.h"

namespace tern::lab {

struct ComputeLoop {
  std::string_view name;
  double operations = 0;  // of one step; a multiply-add counts as two
  void (*run)(std::int64_t steps);
};

// int8 products summed in int16, in fours in int32 (VNNI), in tiles (AMX), and f32 products summed in f32. Empty if the
// processor has none of the instructions.
std::vector<ComputeLoop> int8_loops(Capabilities capabilities);
std::vector<ComputeLoop> vnni_loops(Capabilities capabilities);
std::vector<ComputeLoop> amx_loops(Capabilities capabilities);
std::vector<ComputeLoop> f32_loops(Capabilities capabilities);

}  // namespace tern::lab
