// The quality of a quantized matrix with the scales as they are stored, from sums over pieces of its rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/ternary_quantize/simd_table.h"
#include "tern/quantize.h"

namespace tern {

// Some rows of a matrix: floats, and what became of them.
struct QualityRows {
  const void* x = nullptr;  // dense
  DType dtype = DType::f32;
  std::int64_t rows = 0, k = 0;
  const std::uint8_t* codes = nullptr;
  std::int64_t signs = 0;                  // how many of the codes are not 0
  std::span<const float> decided, stored;  // scales that made the codes, and as they are stored: those of the rows, ...
  Granularity decided_by, stored_by;       // ... or the one of the tensor
  std::optional<double> threshold = {};    // of |x|, where it is not half of the scale
};

class QualitySums {
 public:
  // Of finite rows, fast: (x - x')^2 is x^2 - 2 x x' + x'^2, which needs x once and the codes not at all.
  static QualitySums fast(const ternary_quantize::SimdTable& loops, const QualityRows& rows);
  // One element at a time, NaN and infinities as they saturate.
  static QualitySums exact(const QualityRows& rows);

  // Pieces are added in their order, so that a result does not depend on the number of threads.
  void add(const QualitySums& other);
  // Whether enough digits are left where the sums were fast: an error that is small beside the whole loses them.
  [[nodiscard]] bool sure() const;
  [[nodiscard]] Quality quality(std::int64_t elements, std::int64_t zeros) const;

 private:
  double xx_ = 0, xy_ = 0, yy_ = 0, ee_ = 0;  // x^2, x x', x'^2, (x - x')^2
  bool tiny_ = false;                         // a threshold that the fast sums do not take
};

// How many of some evenly chosen weights are in each of kHistogramBins parts of -4 .. 4 times their scale.
inline constexpr std::int64_t kHistogramBins = 128;
std::vector<std::uint64_t> histogram_of(const ConstTensorView& x, std::span<const float> scales,
                                        const Granularity& granularity);

}  // namespace tern
