// Checks of scales and zeros that layouts need.
#pragma once

#include <cstdint>

#include "base/half.h"

namespace tern {

// Whether an f16 holds this scale exactly. The scale must be finite and above 0.
inline bool is_f16(float scale) { return half::from_f16(half::to_f16(scale)) == scale; }

// Whether codes begin .. end - 1 of a row of i2 are all trit 0.
bool all_zero(const std::uint8_t* row, std::int64_t begin, std::int64_t end);

}  // namespace tern
