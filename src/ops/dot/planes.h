// Decodes the 64 bytes of a line to codes. A plane is a vector of bytes: the codes of four neighbouring columns.
//
// codes<i>() returns the codes of plane i. scaled<i>() returns them times 2^shift(sum(i)), which costs less. Few tokens
// accumulate scaled codes in sum number sum(i) and shift that sum back when they flush it. Sums count their steps for
// codes up to 2: kScale and kCodeScale say how many times larger scaled codes and codes may be. kZero is the code of a
// weight of 0.
#pragma once

#include "format/tile16_b3.h"
#include "ops/dot/simd_table.h"

namespace tern::dot {
namespace {

template <int... kNumbers>
struct Sequence {};

constexpr Tile16B3 kB3;  // a copy for each instruction set

// Sums of products of small codes; narrow ones, if the words have these.
template <class S>
struct CodeSums {
  using U = typename S::U;
  using A = typename S::A;
  static constexpr std::size_t kFlushSteps = S::kFlushSteps;
  static A zero() { return S::zero_a(); }
  // Codes are multiplied with four columns of a line of activations, which are broadcast to a vector unless the words
  // select them from a vector that holds the line.
  static constexpr bool kDotsLane = requires(A a, U u) { S::template dot_lane<0>(a, u, u); };
  template <int kFour>
  static U activations(const std::int8_t* line) {
    if constexpr (kDotsLane)
      return S::load_bytes(line);
    else
      return S::broadcast4(line + 4 * kFour);
  }
  template <int kFour>
  static A dot(A sums, U codes, U with) {
    if constexpr (kDotsLane)
      return S::template dot_lane<kFour>(sums, codes, with);
    else
      return S::dot(sums, codes, with);
  }
  template <int kShift>
  static typename S::I total(A sums) {
    return S::template total<kShift>(sums);
  }
};

// The same for codes of any byte value: int32 sums, which wrap around.
template <class S>
struct ByteSums {
  using U = typename S::U;
  using A = typename S::I;
  static constexpr std::size_t kFlushSteps = std::size_t{1} << 40;  // no row has as many
  static A zero() { return S::zero_i(); }
  template <int kFour>
  static U activations(const std::int8_t* line) {
    return S::broadcast4(line + 4 * kFour);
  }
  template <int kFour>
  static A dot(A sums, U codes, U with) {
    return S::dot_bytes(sums, codes, with);
  }
  template <int kShift>
  static A total(A sums) {
    static_assert(kShift == 0);
    return sums;
  }
};

// Four codes per byte: a shift and a mask, or the mask alone.
template <class S>
struct I2Planes {
  using U = typename S::U;
  using Sums = CodeSums<S>;
  static constexpr int kPlanes = 4, kZero = 1;
  static constexpr int kSums = S::kBytes == kLineBytes ? 4 : 2;
  static constexpr int kPlanesOfSum = kPlanes / kSums, kScale = 4, kCodeScale = 1;
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

// Five codes per byte (format/tile16_b3.h). int16 sums have no room for scaled codes.
template <class S>
struct B3Planes {
  using U = typename S::U;
  using Sums = CodeSums<S>;
  static constexpr bool kScaled = S::kFlushSteps >= (1 << 16);
  static constexpr int kPlanes = 5, kZero = 1;
  static constexpr int kSums = 4;
  static constexpr int kPlanesOfSum = 2, kScale = kScaled ? 64 : 1, kCodeScale = 1;
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

// Two codes per byte, 0 to 15.
template <class S>
struct S4Planes {
  using U = typename S::U;
  using Sums = CodeSums<S>;
  static constexpr int kPlanes = 2, kZero = 8;
  static constexpr int kSums = 2;
  static constexpr int kPlanesOfSum = 1, kScale = 8, kCodeScale = 8;
  static constexpr int sum(int plane) { return plane; }
  static constexpr int shift(int) { return 0; }

  using Line = U;
  static Line line(U bytes) { return bytes; }
  template <int kPlane>
  static U codes(Line v) {
    return S::template codes<4 * kPlane>(v, 15);
  }
  template <int kPlane>
  static U scaled(Line v) {
    return codes<kPlane>(v);
  }
};

// One code per byte, so there is nothing to decode. Words whose products need signed bytes convert them.
template <class S>
struct S8Planes {
  using U = typename S::U;
  using Sums = ByteSums<S>;
  static constexpr int kPlanes = 1, kZero = 128 - S::kDotBytesLess;
  static constexpr int kSums = 1;
  static constexpr int kPlanesOfSum = 1, kScale = 1, kCodeScale = 1;
  static constexpr bool kDecoded = true;
  static constexpr int sum(int) { return 0; }
  static constexpr int shift(int) { return 0; }

  using Line = U;
  static Line line(U bytes) { return bytes; }
  template <int kPlane>
  static U codes(Line v) {
    return v;
  }
  template <int kPlane>
  static U scaled(Line v) {
    return v;
  }
};

}  // namespace
}  // namespace tern::dot
