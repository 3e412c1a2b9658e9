// Format hf_packed of Hugging Face checkpoints (microsoft/bitnet-b1.58-2B-4T): u8 [n/4, k], the four quarters of the
// rows on top of each other; n is a multiple of 4. Scales are a tensor of their own, `weight_scale`.
//
//     byte [r, c]     7 6 | 5 4 | 3 2 | 1 0
//     column c of     r+3q  r+2q  r+q    r      q = n/4; code = trit + 1, 3 never appears
#pragma once

#include "format/deal.h"
#include "format/layout_traits.h"

namespace tern {

struct HfPacked : LayoutTraits {
  static constexpr std::int64_t kRuns = 4, kRows = kRuns;
  static constexpr std::string_view kBecause = "a byte has codes of four rows";

  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return rows_alone(n / kRuns, k, n > 0 ? n : 1);
  }

  // Extracts a row of one quarter (0 .. 3) from the k bytes that contain it, four at a time.
  static void row_to_i2(const std::uint8_t* line, std::int64_t k, std::int64_t quarter, std::uint8_t* codes) {
    const auto four = [&](std::uint32_t word) {
      word = word >> (2 * quarter) & 0x0303'0303U;
      word |= word >> 6;
      return static_cast<std::uint8_t>((word & 0xFU) | (word >> 12 & 0xF0U));
    };
    for (std::int64_t i = 0; i < k / 4; ++i) codes[i] = four(deal::load(line + 4 * i));
    if (k % 4 == 0) return;
    std::array<std::uint8_t, 4> last{i2::kPadding, i2::kPadding, i2::kPadding, i2::kPadding};
    std::memcpy(last.data(), line + k / 4 * 4, static_cast<std::size_t>(k % 4));
    codes[k / 4] = four(deal::load(last.data()));
  }

  // Any rows. Each byte has codes of four rows that are far apart; converting the whole matrix at once reads each byte
  // only once.
  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    const std::int64_t q = p.n / 4;
    if (p.count < p.n) {
      for (std::int64_t i = 0; i < p.count; ++i)
        row_to_i2(bytes + (p.first + i) % q * p.k, p.k, (p.first + i) / q, codes.row(i));
      return;
    }
    for (std::int64_t r = 0; r < q; ++r)
      deal::line(bytes + r * p.k, p.k, {codes.row(r), codes.row(r + q), codes.row(r + 2 * q), codes.row(r + 3 * q)});
  }
  // Whole matrices only.
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    const std::int64_t q = p.n / 4;
    for (std::int64_t r = 0; r < q; ++r)
      deal::gather_line({codes.row(r), codes.row(r + q), codes.row(r + 2 * q), codes.row(r + 3 * q)}, p.k,
                        bytes + r * p.k);
  }
};

}  // namespace tern
