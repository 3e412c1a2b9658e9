// How the 64 bytes of a line become codes: by planes of four neighbouring columns, a vector of bytes each.
//
// codes<i>() are the codes of plane i. scaled<i>() are the same times 2^shift(sum(i)), which costs less; few tokens
// add these up in sum number sum(i), and shift the sum when it is emptied.
#pragma once

#include "format/tile16_b3.h"
#include "ops/linear/simd_table.h"

namespace tern::linear {
namespace {

template <int... kNumbers>
struct Sequence {};

constexpr Tile16B3 kB3;  // a copy for each instruction set

// Four codes a byte: a shift and a mask, or the mask alone.
template <class S>
struct I2Planes {
  using U = typename S::U;
  static constexpr int kPlanes = 4;
  static constexpr int kSums = S::kBytes == kLineBytes ? 4 : 2;
  static constexpr int kPlanesOfSum = kPlanes / kSums, kScale = 4;
  using Columns = Sequence<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
  static constexpr int sum(int plane) { return plane % kSums; }
  static constexpr int shift(int sum) { return sum % 2 * 2; }

  using Line = U;
  static Line line(U bytes) { return bytes; }
  template <int kPlane>
  static U codes(Line v) {
    return S::template codes<2 * kPlane>(v, 3);
  }
  template <int kPlane>
  static U scaled(Line v) {
    return S::template codes<kPlane / 2 * 4>(v, kPlane % 2 == 0 ? 0x03 : 0x0C);
  }
  template <int kColumn>
  static typename S::F trits(Line v) {
    return S::template trit_floats<kColumn % 4 * 8 + kColumn / 4 * 2>(v);
  }
};

// Five codes a byte: format/tile16_b3.h. Sums of int16 have no room for scaled codes.
template <class S>
struct B3Planes {
  using U = typename S::U;
  static constexpr bool kScaled = S::kFlushSteps >= (1 << 16);
  static constexpr int kPlanes = 5;
  static constexpr int kSums = 4;
  static constexpr int kPlanesOfSum = 2, kScale = kScaled ? 64 : 1;
  using Columns = Sequence<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19>;
  static constexpr int sum(int plane) { return plane < 3 ? 3 - plane : 0; }
  static constexpr int shift(int sum) { return kScaled ? 2 * sum : 0; }

  struct Line {
    U a, b;
  };
  static Line line(U bytes) {
    return {S::template lookup64<0>(kB3.first, bytes), S::template lookup64<2>(kB3.second, bytes)};
  }
  template <int kPlane>
  static U scaled(Line v) {
    if constexpr (kScaled && kPlane < 3)
      return S::differing(v.a, v.b, 3 << (6 - 2 * kPlane));
    else
      return codes<kPlane>(v);
  }
  template <int kPlane>
  static U codes(Line v) {
    if constexpr (kPlane < 3)
      return S::template codes<6 - 2 * kPlane>(S::differing(v.a, v.b, 3 << (6 - 2 * kPlane)), 3);
    else
      return S::template codes<0>(kPlane == 3 ? v.a : v.b, 3);
  }
  template <int kColumn>
  static typename S::F trits(Line v) {
    return S::template trit_floats<kColumn % 4 * 8>(codes<kColumn / 4>(v));
  }
};

}  // namespace
}  // namespace tern::linear
