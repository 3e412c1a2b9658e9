// Inner products for NEON with i8mm, matrix products of bytes: many tokens by i2 weights use it, the rest is NEON with
// dotprod.
//
//     a decoded line     columns 0..7 of rows 0 1 | of rows 2 3 | ... | of rows 14 15 | columns 8..15 of rows 0 1 | ...
//     a product          two tokens by two rows, over eight columns
//
// Three pairs of tokens by the eight pairs of rows of a tile are 24 accumulators; there are 32 registers.
#include "simd/arm_i8mm.h"
#include "ops/dot/generic.h"

namespace tern::dot {
namespace {

using Words = simd::ArmI8mm;
using Vectors = Tiles<Words, I2Planes<Words>>;
using Many = Vectors::Many;
using U = Words::U;

constexpr int kRowPairs = kTileRows / 2;
constexpr int kTokenPairs = 3;
constexpr std::int64_t kHalfBytes = Vectors::kDecodedBytes / 2;  // eight columns

// Decodes four rows of a line. Zipping puts four columns of a row next to the following four.
void decode_rows(const std::uint8_t* w, std::uint8_t* codes) {
  const U packed = Words::load_bytes(w);
  const U c0 = Words::codes<0>(packed, 3), c4 = Words::codes<2>(packed, 3);
  const U c8 = Words::codes<4>(packed, 3), c12 = Words::codes<6>(packed, 3);
  Words::store_bytes(codes, Words::zip_low(c0, c4));
  Words::store_bytes(codes + 16, Words::zip_high(c0, c4));
  Words::store_bytes(codes + kHalfBytes, Words::zip_low(c8, c12));
  Words::store_bytes(codes + kHalfBytes + 16, Words::zip_high(c8, c12));
}

void decode(const Many& p) {
  for (std::int64_t i = 0; i < p.lines; ++i) {
    const std::uint8_t* line = p.w + i * kLineBytes;
    Words::prefetch_l2(Vectors::behind(line, p.tile_bytes));
    for (int v = 0; v < 4; ++v) decode_rows(line + 16 * v, p.codes + i * Vectors::kDecodedBytes + 32 * v);
  }
}

void put(const Many& p, std::int32_t* to, Words::I sums) {
  Words::store_i32(to, p.fresh ? sums : Words::add(Words::load_i32(to), sums));
}

// With an odd number of tokens the last one is computed twice, and the second result is dropped.
template <int kPairs>
void panel(const Many& p, std::int64_t first) {
  const std::int8_t* x[kPairs][2];
  for (int t = 0; t < kPairs; ++t)
    for (int i = 0; i < 2; ++i) {
      const std::int64_t token = 2 * (first + t) + i;
      x[t][i] = Vectors::hidden(p.x.x + (token < p.tokens ? token : token - 1) * p.x.stride);
    }
  Words::A part[kPairs][kRowPairs];
  for (auto& pair : part)
    for (Words::A& a : pair) a = Words::zero_a();
  const std::uint8_t* codes = p.codes;
  for (std::int64_t column = 0; column < p.lines * Vectors::kLineColumns; column += 8, codes += kHalfBytes) {
    U with[kPairs];
    for (int t = 0; t < kPairs; ++t) with[t] = Words::two_of_8(x[t][0] + column, x[t][1] + column);
    for (int r = 0; r < kRowPairs; ++r) {
      const U rows = Words::load_bytes(codes + 16 * r);
      for (int t = 0; t < kPairs; ++t) part[t][r] = Words::dot_2x2(part[t][r], with[t], rows);
    }
  }
  for (int t = 0; t < kPairs; ++t)
    for (int r = 0; r < kRowPairs; r += 2) {
      const std::int64_t token = 2 * (first + t);
      std::int32_t* to = p.sums + token * p.ld + 2 * r;
      put(p, to, Words::row<0>(part[t][r], part[t][r + 1]));
      if (token + 1 < p.tokens) put(p, to + p.ld, Words::row<1>(part[t][r], part[t][r + 1]));
    }
}

void many(const Many& p) {
  decode(p);
  Vectors::each_panel<kTokenPairs>((p.tokens + 1) / 2,
                                   [&]<int kPairs>(std::int64_t first) { panel<kPairs>(p, first); });
}

constexpr SimdTable table() {
  SimdTable t = Loops<Words>::table();
  static_assert(Vectors::kTiles == 1);
  t.i2.many = many;
  return t;
}

}  // namespace

extern const SimdTable arm_i8mm;
constinit const SimdTable arm_i8mm = table();

}  // namespace tern::dot
