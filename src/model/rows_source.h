// Rows of a matrix as canonical i2 codes, a few at a time and as often as needed, so that a matrix of any size is
// converted in little memory.
#pragma once

#include <cstdint>

#include "format/ranges.h"
#include "tern/layout.h"

namespace tern {

class RowsSource {
 public:
  RowsSource(std::int64_t n, std::int64_t k, Granularity granularity) : n_(n), k_(k), granularity_(granularity) {}
  virtual ~RowsSource() = default;
  RowsSource(const RowsSource&) = delete;
  RowsSource& operator=(const RowsSource&) = delete;

  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] std::int64_t k() const { return k_; }
  [[nodiscard]] Granularity granularity() const { return granularity_; }
  // How many scales some rows have: 1 if the matrix has one scale, which then belongs to all rows.
  [[nodiscard]] std::int64_t scale_count(std::int64_t rows) const { return make_ranges(rows, k_, granularity_).total; }
  // Reading is fastest in pieces that begin and end at multiples of this many rows.
  [[nodiscard]] virtual std::int64_t row_block() const { return 1; }
  // The scale, if the matrix has only one.
  [[nodiscard]] virtual float tensor_scale() const = 0;

  // codes are [rows.count, ceil(k/4)], scales scale_count(rows.count). Runs on the calling thread only; several threads
  // may call it at once.
  virtual Status read(RowRange rows, std::uint8_t* codes, float* scales) const = 0;

 private:
  std::int64_t n_, k_;
  Granularity granularity_;
};

}  // namespace tern
