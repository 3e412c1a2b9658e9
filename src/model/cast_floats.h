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
  double largest_change = 0;     // relative; only of values that stay finite and are in the type's normal range
  std::int64_t overflowed = 0;   // finite values that became infinite
  std::int64_t underflowed = 0;  // values below the normal range that changed, to zero or nearly so
  void add(const CastLoss& other);
};

// `to` has room for as many elements as `from` holds.
CastLoss cast_floats(const Threads& threads, std::span<const std::uint8_t> from, DType from_type,
                     std::span<std::uint8_t> to, DType to_type);

// The bytes of scales as stored, in f32 or bf16. The caller asks for bf16 only where it is exact.
std::vector<std::uint8_t> bytes_of_scales(std::span<const float> scales, StoredType type);

}  // namespace tern
