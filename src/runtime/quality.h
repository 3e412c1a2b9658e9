// How close the codes of a tensor come to it: measure_quality() of a whole tensor, and sums over pieces of a matrix
// that is being written. Everything that becomes a Quality is here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/ternary_dequantize/simd_table.h"
#include "ops/ternary_quantize/simd_table.h"
#include "tern/quantize.h"

namespace tern {

// The loops of an instruction set that quality is measured with. All of them give the same bits.
struct QualityLoops {
  const ternary_quantize::SimdTable* sums = nullptr;
  const ternary_dequantize::SimdTable* values = nullptr;
  static QualityLoops of(Capabilities instructions);  // the best that need no other capabilities
};

// Some rows of a matrix: floats, and what became of them.
struct QualityRows {
  const void* x = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, k = 0;
  std::int64_t stride = 0;  // elements from one row of x to the next; k where they are dense
  Format format = Format::i2;
  const std::uint8_t* codes = nullptr;     // dense
  std::int64_t signs = 0;                  // how many of the codes are not 0; for QualitySums::fast
  std::span<const float> decided, stored;  // scales that made the codes, and as they are stored: those of the rows, ...
  Granularity decided_by, stored_by;       // ... or the one of the tensor
  std::optional<double> threshold = {};    // of |x|, where it is not half of the scale
};

class QualitySums {
 public:
  // Of finite dense rows in i2, fast: (x - x')^2 is x^2 - 2 x x' + x'^2, which needs x once and the codes not at all.
  static QualitySums fast(const QualityLoops& loops, const QualityRows& rows);
  // Every pair of an element and its code, in f64 and in the contract's order; NaN and infinities as they saturate.
  static QualitySums exact(const QualityLoops& loops, const QualityRows& rows);

  // Pieces are added in order, so that the result does not depend on the number of threads.
  void add(const QualitySums& other);
  // Whether the fast sums have enough digits left: a small error is the difference of large sums and loses them.
  [[nodiscard]] bool sure() const;
  [[nodiscard]] Quality quality(std::int64_t elements, std::int64_t zeros) const;

 private:
  friend class QualityBlocks;
  double xx_ = 0, xy_ = 0, yy_ = 0, ee_ = 0;  // x^2, x x', x'^2, (x - x')^2
  bool tiny_ = false;                         // a threshold that the fast sums do not take
};

// How many of some evenly chosen weights are in each of kHistogramBins parts of -4 .. 4 times their scale.
inline constexpr std::int64_t kHistogramBins = 128;
std::vector<std::uint64_t> histogram_of(const ConstTensorView& x, std::span<const float> scales,
                                        const Granularity& granularity);

}  // namespace tern
