// Shared by tests of layouts: rows of codes with gaps, random trits, and shapes for every layout.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/format.h"
#include "lab/weights.h"
#include "tern/layout.h"

namespace tern::test {

// The error of a Status or Result, or "".
std::string text(const auto& result) { return result.ok() ? "" : result.error().str(); }

inline std::vector<std::int8_t> random_trits(std::int64_t count, std::uint64_t seed = 5) {
  lab::Random random(seed);
  std::vector<std::int8_t> trits(static_cast<std::size_t>(count));
  for (std::int8_t& trit : trits) trit = static_cast<std::int8_t>(random.below(3) - 1);
  return trits;
}

// Rows of i2 codes, each followed by a gap that must stay untouched.
struct Codes {
  std::int64_t n, k, line, stride;
  std::vector<std::uint8_t> bytes;
  Codes(std::int64_t n_, std::int64_t k_, std::int64_t gap = 0)
      : n(n_),
        k(k_),
        line(row_bytes(Format::i2, k_)),
        stride(line + gap),
        bytes(static_cast<std::size_t>(n_ * stride), 0xEE) {}
  TensorView view() { return rows({0, n}); }
  TensorView rows(RowRange range) {
    TensorView v(bytes.data() + range.first * stride, DType::u8, {range.count, line});
    v.strides[0] = stride;
    return v;
  }
  void fill(const std::vector<std::int8_t>& trits) {
    for (std::int64_t row = 0; row < n; ++row)
      pack_row(Format::i2, trits.data() + row * k, k, bytes.data() + row * stride);
  }
  // Whether codes and padding are equal, and the gaps of both are untouched.
  [[nodiscard]] bool equal(const Codes& other) const {
    for (std::int64_t row = 0; row < n; ++row) {
      const std::uint8_t *a = bytes.data() + row * stride, *b = other.bytes.data() + row * other.stride;
      for (std::int64_t i = 0; i < line; ++i)
        if (a[i] != b[i]) return false;
      for (std::int64_t i = line; i < stride; ++i)
        if (a[i] != 0xEE) return false;
      for (std::int64_t i = line; i < other.stride; ++i)
        if (b[i] != 0xEE) return false;
    }
    return true;
  }
};

struct LayoutCase {
  LayoutSpec spec;
  std::int64_t n, k;
  [[nodiscard]] std::string text() const {
    return std::string(name(spec.layout)) + " " + std::to_string(n) + " x " + std::to_string(k) + " tiles " +
           std::to_string(spec.tiles.tile_rows) + " " + std::to_string(spec.tiles.tile_columns) + " " +
           std::to_string(spec.tiles.block_rows);
  }
};

// Every layout, in shapes from one block to the sizes of real models along an axis.
inline std::vector<LayoutCase> layout_cases() {
  std::vector<LayoutCase> cases;
  const auto add = [&cases](const LayoutSpec& spec,
                            std::initializer_list<std::pair<std::int64_t, std::int64_t>> shapes) {
    for (const auto& [n, k] : shapes) cases.push_back({spec, n, k});
  };
  for (const Layout layout : {Layout::i2, Layout::b3})
    add(layout, {{1, 1}, {3, 2}, {2, 3}, {5, 4}, {1, 5}, {7, 6}, {2, 19}, {3, 20}, {1, 21}, {4, 2560}, {97, 101}});
  add(Layout::ms_gpu, {{16, 32}, {48, 96}, {2560, 64}, {32, 6912}});
  for (const Layout layout : {Layout::hf_packed, Layout::i2_s_1x4})
    add(layout, {{4, 1}, {8, 3}, {12, 4}, {4, 7}, {64, 66}, {640, 100}, {8, 2563}});
  add(Layout::i2_s_x86_128, {{1, 128}, {3, 256}, {7, 384}, {33, 2560}, {5, 6912}, {2560, 128}});
  add(Layout::i2_s_arm_64, {{1, 64}, {3, 128}, {7, 192}, {33, 2560}, {5, 8640}});
  for (const Layout layout : {Layout::tq1_0, Layout::tq2_0})
    add(layout, {{1, 256}, {3, 512}, {7, 768}, {33, 2560}, {640, 256}});
  add({Layout::tl1, {32, 8, 32}}, {{32, 8}, {96, 24}});
  add({Layout::tl1, {64, 4, 64}}, {{64, 4}, {128, 12}});
  add({Layout::tl1, {160, 64, 32}}, {{160, 64}, {480, 128}});
  add({Layout::tl1, {256, 128, 64}}, {{512, 384}});
  add({Layout::tl2, {32, 96, 32}}, {{32, 288}, {32, 256}, {96, 320}, {64, 352}});
  add({Layout::tl2, {160, 96, 32}}, {{320, 8640}});
  add({Layout::tl2, {128, 192, 32}}, {{256, 1536}, {128, 416}});
  add({Layout::tl2, {32, 24, 32}}, {{64, 264}, {32, 288}});
  return cases;
}

// Valid scales for all that the layout has: exact in f16, and each different from its neighbour.
inline std::vector<float> some_scales(const LayoutCase& c) {
  std::vector<float> scales(static_cast<std::size_t>(*layout_scales(c.spec, c.n, c.k)));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.015625F * static_cast<float>(1 + i % 1000);
  return scales;
}

}  // namespace tern::test
