// Writes the codes of one row from pieces of any length, keeping back those that do not fill a byte.
#pragma once

#include <algorithm>
#include <cstdint>

#include "format/format.h"
#include "ops/ternary_quantize/simd_table.h"

namespace tern::ternary_quantize {

class RowWriter {
 public:
  // `first` is the element at which writing begins: a multiple of 4 where four codes share a byte.
  RowWriter(const SimdTable& table, int rule, int store, std::uint8_t* row, std::int64_t first)
      : table_(table), rule_(rule), store_(store), out_(row + (store == kI8 ? first : first / 4)) {}

  void write(const float* x, std::int64_t n, float scale) {
    if (store_ == kI8) {
      table_.codes[rule_][kI8](x, n, scale, out_);
      out_ += n;
      return;
    }
    if (kept_ > 0) {
      const std::int64_t fill = std::min<std::int64_t>(4 - kept_, n);
      keep(x, fill, scale);
      x += fill;
      n -= fill;
    }
    if (const std::int64_t whole = n / 4 * 4; whole > 0) {
      table_.codes[rule_][store_](x, whole, scale, out_);
      out_ += whole / 4;
      x += whole;
      n -= whole;
    }
    if (n > 0) keep(x, n, scale);
  }

  // The last byte of the row, or of a piece that ends on a byte.
  void finish() {
    if (kept_ > 0) flush();
  }

 private:
  void keep(const float* x, std::int64_t n, float scale) {
    table_.codes[rule_][kI8](x, n, scale, codes_ + kept_);
    kept_ += n;
    if (kept_ == 4) flush();
  }
  void flush() {
    pack_row(static_cast<Format>(store_), codes_, kept_, out_++);
    kept_ = 0;
  }

  const SimdTable& table_;
  int rule_, store_;
  std::uint8_t* out_;
  std::int8_t codes_[4] = {};
  std::int64_t kept_ = 0;
};

}  // namespace tern::ternary_quantize
