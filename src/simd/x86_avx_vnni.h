// Vector operations for AVX2 with VNNI: each int32 lane accumulates four products of bytes, so no intermediate sum
// overflows.
#pragma once

#include "simd/x86_avx2.h"

namespace tern::simd {
namespace {

struct X86AvxVnni : X86Avx2 {
  using A = __m256i;
  static constexpr std::size_t kFlushSteps = 1 << 20;  // a step adds up to 4 * 2 * 128 in magnitude
  static A zero_a() { return _mm256_setzero_si256(); }
  static A dot(A sums, U codes, U x) {  // inline assembly: GCC 12 copies the sums around its intrinsic
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(codes), "x"(x));
    return sums;
  }
  static constexpr int kDotBytesLess = 0;
  static I dot_bytes(I sums, U codes, U x) { return dot(sums, codes, x); }  // vpdpbusd does not saturate
  template <int kShift>
  static I total(A sums) {
    return kShift == 0 ? sums : _mm256_srai_epi32(sums, kShift);
  }
};

}  // namespace
}  // namespace tern::simd
