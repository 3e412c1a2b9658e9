// The quality of a quantized matrix with the scales as they are stored, and how its weights lie about the thresholds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tern/model.h"

namespace tern {

struct QualityInput {
  ConstTensorView x;
  const QuantizedTensor& weights;        // codes, and the scales that decided them
  std::span<const float> scales;         // as they are stored ...
  Granularity granularity;               // ... by this
  std::optional<double> threshold = {};  // of |x|, where it is not half of the scale
  std::array<std::int64_t, 3> trits = {};
  NonFinite non_finite = NonFinite::reject;
};

Result<Quality> quality_of(const Context& context, const QualityInput& input);

// How many of some evenly chosen weights are in each of kHistogramBins parts of -4 .. 4 times their scale.
inline constexpr std::int64_t kHistogramBins = 128;
std::vector<std::uint64_t> histogram_of(const QualityInput& input);

}  // namespace tern
