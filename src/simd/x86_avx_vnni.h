// Vector words for AVX2 with VNNI: products of bytes are summed up by fours in int32, so nothing overflows on the way.
#pragma once

#include "simd/x86_avx2.h"

namespace tern::simd {
namespace {

struct X86AvxVnni : X86Avx2 {
  using A = __m256i;
  static constexpr std::size_t kFlushSteps = 1 << 20;  // of products up to 4 * 2 * 128 in magnitude
  static A zero_a() { return _mm256_setzero_si256(); }
  static A dot(A sums, U codes, U x) {  // GCC 12 copies the sums before and after its own word for this
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(codes), "x"(x));
    return sums;
  }
  static constexpr int kDotBytesLess = 0;
  static I dot_bytes(I sums, U codes, U x) { return dot(sums, codes, x); }  // does not saturate
  template <int kShift>
  static I total(A sums) {
    return kShift == 0 ? sums : _mm256_srai_epi32(sums, kShift);
  }
};

}  // namespace
}  // namespace tern::simd
