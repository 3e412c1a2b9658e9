// Measures how close the codes of a tensor are to it: measure_quality() for a whole tensor, and sums over the pieces of
// a matrix while it is written. All code that computes a Quality is here.
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

// The vector loops that quality is measured with. Those of all instruction sets give the same bits.
struct QualityLoops {
  const ternary_quantize::SimdTable* sums = nullptr;
  const ternary_dequantize::SimdTable* values = nullptr;
  static QualityLoops of(Capabilities instructions);  // the best that `instructions` allow
};

// Some rows of a matrix: the floats, and their codes and scales.
struct QualityRows {
  const void* x = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, k = 0;
  std::int64_t stride = 0;  // elements from one row of x to the next; k where they are dense
  Format format = Format::i2;
  const std::uint8_t* codes = nullptr;     // dense
  std::int64_t signs = 0;                  // how many of the codes are not 0; for QualitySums::fast
  std::span<const float> decided, stored;  // scales that the codes were computed with, and as stored: those of ...
  Granularity decided_by, stored_by;       // ... these rows, or the tensor's one scale
  std::optional<double> threshold = {};    // the code is 0 up to this |x|; unset: half of the scale
};

class QualitySums {
 public:
  // For finite dense rows in i2. Computes (x - x')^2 as x^2 - 2 x x' + x'^2, which reads x once and decodes no x'; of
  // the codes it only needs to know how many are not 0.
  static QualitySums fast(const QualityLoops& loops, const QualityRows& rows);
  // Sums over every pair of an element and its code, in f64 and in the contract's order. NaN and infinities saturate.
  static QualitySums exact(const QualityLoops& loops, const QualityRows& rows);

  // Pieces are added in order, so that the result does not depend on the number of threads.
  void add(const QualitySums& other);
  // Whether the fast sums are accurate enough: a small error is the difference of large sums and loses digits.
  [[nodiscard]] bool sure() const;
  [[nodiscard]] Quality quality(std::int64_t elements, std::int64_t zeros) const;

 private:
  friend class QualityBlocks;
  double xx_ = 0, xy_ = 0, yy_ = 0, ee_ = 0;  // x^2, x x', x'^2, (x - x')^2
  bool tiny_ = false;                         // a threshold was too small for the fast sums
};

// A histogram of weights divided by their scale: evenly spaced samples in kHistogramBins bins over -4 .. 4. Values
// beyond count in the outer bins.
inline constexpr std::int64_t kHistogramBins = 128;
std::vector<std::uint64_t> histogram_of(const ConstTensorView& x, std::span<const float> scales,
                                        const Granularity& granularity);

}  // namespace tern
