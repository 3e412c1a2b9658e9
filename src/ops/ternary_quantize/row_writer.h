// Writes the codes of one row from pieces of any length, keeping back those that do not fill a byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "format/format.h"
#include "ops/ternary_quantize/simd_table.h"

namespace tern::ternary_quantize {

class RowWriter {
 public:
  // `first` is the element at which writing begins: a multiple of 4 where four codes share a byte.
  RowWriter(const SourceLoops& loops, std::int64_t elem_bytes, int rule, int store, std::uint8_t* row,
            std::int64_t first)
      : loops_(loops),
        elem_bytes_(elem_bytes),
        rule_(rule),
        store_(store),
        out_(row + (store == kI8 ? first : first / 4)) {}

  void write(const std::byte* x, std::int64_t n, float scale) {
    if (store_ == kI8) {
      loops_.codes[rule_][kI8](x, n, scale, out_);
      out_ += n;
      return;
    }
    if (kept_ > 0) {
      const std::int64_t fill = std::min<std::int64_t>(4 - kept_, n);
      keep(x, fill, scale);
      x += fill * elem_bytes_;
      n -= fill;
    }
    if (const std::int64_t whole = n / 4 * 4; whole > 0) {
      loops_.codes[rule_][store_](x, whole, scale, out_);
      out_ += whole / 4;
      x += whole * elem_bytes_;
      n -= whole;
    }
    if (n > 0) keep(x, n, scale);
  }

  // The last byte of the row, or of a piece that ends on a byte.
  void finish() {
    if (kept_ > 0) flush();
  }

 private:
  void keep(const std::byte* x, std::int64_t n, float scale) {
    loops_.codes[rule_][kI8](x, n, scale, codes_ + kept_);
    kept_ += n;
    if (kept_ == 4) flush();
  }
  void flush() {
    pack_row(static_cast<Format>(store_), codes_, kept_, out_++);
    kept_ = 0;
  }

  const SourceLoops& loops_;
  std::int64_t elem_bytes_;
  int rule_, store_;
  std::uint8_t* out_;
  std::int8_t codes_[4] = {};
  std::int64_t kept_ = 0;
};

}  // namespace tern::ternary_quantize
