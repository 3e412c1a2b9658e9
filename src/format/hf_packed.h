// Format hf_packed of Hugging Face checkpoints (microsoft/bitnet-b1.58-2B-4T): u8 [n/4, k], the four quarters of the
// rows on top of each other; n is a multiple of 4. Scales are a tensor of their own, `weight_scale`.
//
//     byte [r, c]     7 6 | 5 4 | 3 2 | 1 0
//     column c of     r+3q  r+2q  r+q    r      q = n/4; code = trit + 1, 3 never appears
#pragma once

#include "format/deal.h"
#include "format/rows.h"

namespace tern::hf_packed {

// Whole matrices only: every byte has codes of four rows far apart.
inline void to_i2(const RowPiece& p, const std::uint8_t* bytes, const CodesOut& codes) {
  const std::int64_t q = p.n / 4;
  for (std::int64_t r = 0; r < q; ++r)
    deal::line(bytes + r * p.k, p.k, {codes.row(r), codes.row(r + q), codes.row(r + 2 * q), codes.row(r + 3 * q)});
}
inline void from_i2(const RowPiece& p, const CodesIn& codes, std::uint8_t* bytes) {
  const std::int64_t q = p.n / 4;
  for (std::int64_t r = 0; r < q; ++r)
    deal::gather_line({codes.row(r), codes.row(r + q), codes.row(r + 2 * q), codes.row(r + 3 * q)}, p.k,
                      bytes + r * p.k);
}

}  // namespace tern::hf_packed
