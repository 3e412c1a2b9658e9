// Casts floats from one type to another, rounding to nearest even, and reports what was lost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/threads.h"
#include "tern/checkpoint.h"
#include "tern/types.h"

namespace tern {

struct CastLoss {
  double largest_change = 0;     // relative, of values that stay finite and are not below the type's normal range
  std::int64_t overflowed = 0;   // finite values that became infinite
  std::int64_t underflowed = 0;  // values below that range that changed, to zero or nearly so
  void add(const CastLoss& other);
};

// `to` has room for as many elements as `from` holds.
CastLoss cast_floats(const Threads& threads, std::span<const std::uint8_t> from, DType from_type,
                     std::span<std::uint8_t> to, DType to_type);

// Scales as they are stored, in f32 or, where that is exact, bf16.
std::vector<std::uint8_t> bytes_of_scales(std::span<const float> scales, StoredType type);

}  // namespace tern
