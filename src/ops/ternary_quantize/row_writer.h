// Writes the codes of one row from pieces of any length, keeping back codes that do not fill a byte yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "format/format.h"
#include "ops/ternary_quantize/simd_table.h"

namespace tern::ternary_quantize {

class RowWriter {
 public:
  // Writing starts at element `first`, which must be the first element of its byte.
  RowWriter(const SourceLoops& loops, std::int64_t elem_bytes, int rule, int store, std::uint8_t* row,
            std::int64_t first)
      : loops_(loops),
        elem_bytes_(elem_bytes),
        rule_(rule),
        store_(store),
        per_byte_(codes_per_byte(static_cast<Format>(store))),
        out_(row + first / per_byte_) {}

  void write(const std::byte* x, std::int64_t n, float scale) {
    if (store_ == kI8) {
      loops_.codes[rule_][kI8](x, n, scale, out_);
      out_ += n;
      return;
    }
    if (kept_ > 0) {
      const std::int64_t fill = std::min(per_byte_ - kept_, n);
      keep(x, fill, scale);
      x += fill * elem_bytes_;
      n -= fill;
    }
    if (const std::int64_t whole = n / per_byte_ * per_byte_; whole > 0) {
      if (has_loops(loops_, rule_, store_))
        loops_.codes[rule_][store_](x, whole, scale, out_);
      else
        pack(x, whole, scale);
      out_ += whole / per_byte_;
      x += whole * elem_bytes_;
      n -= whole;
    }
    if (n > 0) keep(x, n, scale);
  }

  // Writes the last byte if it is not full: the row ends there.
  void finish() {
    if (kept_ > 0) flush();
  }

 private:
  void keep(const std::byte* x, std::int64_t n, float scale) {
    loops_.codes[rule_][kI8](x, n, scale, codes_ + kept_);
    kept_ += n;
    if (kept_ == per_byte_) flush();
  }
  // Packs whole bytes from int8 codes, a chunk at a time.
  void pack(const std::byte* x, std::int64_t n, float scale) {
    constexpr std::int64_t kChunk = 320;
    std::int8_t codes[kChunk];
    for (std::int64_t at = 0; at < n; at += kChunk) {
      const std::int64_t part = std::min(kChunk, n - at);
      loops_.codes[rule_][kI8](x + at * elem_bytes_, part, scale, codes);
      pack_row(static_cast<Format>(store_), codes, part, out_ + at / per_byte_);
    }
  }
  void flush() {
    pack_row(static_cast<Format>(store_), codes_, kept_, out_++);
    kept_ = 0;
  }

  const SourceLoops& loops_;
  std::int64_t elem_bytes_;
  int rule_, store_;
  std::int64_t per_byte_;
  std::uint8_t* out_;
  std::int8_t codes_[5] = {};
  std::int64_t kept_ = 0;
};

}  // namespace tern::ternary_quantize
