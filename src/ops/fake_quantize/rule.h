// The rounding parameters that fake_quantize and fake_quantize_backward pass to the SIMD loops.
#pragma once

#include <cstdint>

namespace tern::fake_quantize {

struct Rule {
  std::int32_t q_min = 0;
  std::int32_t q_max = 0;
  bool reciprocal = false;      // x * (1/s) instead of x/s
  bool strict = false;          // the mask excludes the ends of the range
  bool narrow_product = false;  // for the f64 loop: compute the product y in f32
};

}  // namespace tern::fake_quantize
