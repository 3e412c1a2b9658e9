// Vector operations for AVX-512 with VNNI and VBMI; VBMI looks up 64 bytes in a table of 64.
#pragma once

#include "simd/x86_avx512vnni.h"

namespace tern::simd {
namespace {

struct X86Avx512Vbmi : X86Avx512Vnni {
  template <int kShift>
  static U lookup64(const std::uint8_t* table, U v) {  // indexed by the low six bits of each byte
    return _mm512_permutexvar_epi8(kShift == 0 ? v : _mm512_srli_epi16(v, kShift), _mm512_loadu_si512(table));
  }
  static U differing(U a, U b, int mask) {
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8(static_cast<char>(mask)), 0x28);  // (a ^ b) & mask
  }
};

}  // namespace
}  // namespace tern::simd
