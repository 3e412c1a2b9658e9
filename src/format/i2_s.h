// Format i2_s of bitnet.cpp: two bits a weight, code = trit + 1, in one of three orders. 32 bytes follow the codes; the
// first four are the f32 scale of the tensor. Nothing in the bytes says which order is used.
//
//     x86_128     rows in runs of 128 elements, 32 bytes each; k is a multiple of 128
//     byte p of a run     7 6 | 5 4 | 3 2 | 1 0
//     element of the run   p    32+p  64+p  96+p
//
//     arm_64      rows in runs of 64 elements, 16 bytes each; k is a multiple of 64
//     byte p of a run     7 6 | 5 4 | 3 2 | 1 0
//     element of the run   p    16+p  32+p  48+p
//
//     1x4         four rows side by side; n is a multiple of 4
//     byte (r / 4) * k + c     7 6 | 5 4 | 3 2 | 1 0
//     column c of row           r     r+1   r+2   r+3     r a multiple of 4
#pragma once

#include "format/deal.h"
#include "format/layout_traits.h"

namespace tern::i2_s {

template <class Runs>  // deal::Runs<8, true> for x86_128, <4, true> for arm_64
struct InRuns : LayoutTraits {
  static constexpr ScalesIn kScales = ScalesIn::trailer;
  static constexpr std::int64_t kRun = 4 * Runs::kBytes, kColumns = kRun;
  static constexpr std::string_view kBecause = "its kernels read rows in whole runs";

  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return with_trailer(n * (k / 4), n * (k / 4), 1);
  }
  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    for (std::int64_t i = 0; i < p.count; ++i) Runs::to_i2(bytes + (p.first + i) * (p.k / 4), p.k / kRun, codes.row(i));
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    for (std::int64_t i = 0; i < p.count; ++i)
      Runs::from_i2(codes.row(i), p.k / kRun, bytes + (p.first + i) * (p.k / 4));
  }
};
using X86 = InRuns<deal::Runs<8, true>>;
using Arm = InRuns<deal::Runs<4, true>>;
static_assert(X86::kRun == 128 && Arm::kRun == 64);

struct FourRows : LayoutTraits {
  static constexpr ScalesIn kScales = ScalesIn::trailer;
  static constexpr std::int64_t kRows = 4;
  static constexpr std::string_view kBecause = "a byte has codes of four rows";

  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return with_trailer(n / 4 * k, n / 4 * k, kRows);
  }
  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    for (std::int64_t i = 0; i < p.count; i += kRows)
      deal::line(bytes + (p.first + i) / kRows * p.k, p.k,
                 {codes.row(i + 3), codes.row(i + 2), codes.row(i + 1), codes.row(i)});
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    for (std::int64_t i = 0; i < p.count; i += kRows)
      deal::gather_line({codes.row(i + 3), codes.row(i + 2), codes.row(i + 1), codes.row(i)}, p.k,
                        bytes + (p.first + i) / kRows * p.k);
  }
};

}  // namespace tern::i2_s
