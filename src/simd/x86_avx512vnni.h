// Vector operations for AVX-512 with VNNI: each int32 lane accumulates four products of bytes, so no intermediate sum
// overflows.
#pragma once

#include "simd/x86_avx512.h"

namespace tern::simd {
namespace {

struct X86Avx512Vnni : X86Avx512 {
  using A = __m512i;
  static constexpr std::size_t kFlushSteps = 1 << 20;  // a step adds up to 4 * 2 * 128 in magnitude
  static A zero_a() { return _mm512_setzero_si512(); }
  static A dot(A sums, U codes, U x) {  // inline assembly: GCC 12 copies the sums around its intrinsic
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(codes), "v"(x));
    return sums;
  }
  static constexpr int kDotBytesLess = 0;
  static I dot_bytes(I sums, U codes, U x) { return dot(sums, codes, x); }  // vpdpbusd does not saturate
  template <int kShift>
  static I total(A sums) {
    return kShift == 0 ? sums : _mm512_srai_epi32(sums, kShift);
  }
};

}  // namespace
}  // namespace tern::simd
