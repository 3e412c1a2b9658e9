// How fake_quantize and its backward round, for the loops of an instruction set.
#pragma once

#include <cstdint>

namespace tern::fake_quantize {

struct Rule {
  std::int32_t q_min = 0;
  std::int32_t q_max = 0;
  bool reciprocal = false;      // x * (1/s) instead of x/s
  bool strict = false;          // the mask without its ends
  bool narrow_product = false;  // of the loop in f64: y is a product of f32
};

}  // namespace tern::fake_quantize
