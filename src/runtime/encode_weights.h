// Canonical codes and scales to the bytes of a layout, by all threads.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "device/threads.h"
#include "tern/model.h"

namespace tern {

// How many -1, 0 and +1 a matrix in canonical i2 has.
std::array<std::int64_t, 3> count_trits(const Threads& threads, const QuantizedTensor& weights);

// How many of n codes of a row in i2 from one on are -1 or +1.
std::int64_t count_signs(const std::uint8_t* row, std::int64_t first, std::int64_t n);

// The weights' scales as the planned layout and granularity have them.
Result<FittedScales> fitted_scales(const QuantizedTensor& weights, const TensorPlan& plan, Lossy lossy);

// `bytes` are all of the layout's, `scales` those of fitted_scales().
Status encode_weights(const Threads& threads, const QuantizedTensor& weights, const LayoutSpec& layout,
                      std::span<const float> scales, std::span<std::uint8_t> bytes);

}  // namespace tern
