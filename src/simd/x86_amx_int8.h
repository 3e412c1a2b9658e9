// Vector operations for AMX: those of AVX-512 with VNNI and VBMI, and tiles of 16 rows of 64 bytes. The code
// that detects the processor (device/cpuid.cpp) has asked Linux for permission to use them.
#pragma once

#include "simd/x86_avx512vbmi.h"

namespace tern::simd {
namespace {

struct X86AmxInt8 : X86Avx512Vbmi {
  // The shapes of the eight tiles. Setting them zeroes the tiles.
  struct Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Shapes) == 64);
  static void set_shapes(const Shapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  static void release_tiles() { asm volatile("tilerelease"); }

  // Inline assembly, because the compiler's intrinsics do not say that they read and write memory.
  template <int kTile>
  static void load_tile(const void* p, std::int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void zero_tile() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void store_tile(void* p, std::int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  // sums[t][r] += x[t][4i + j] * codes[i][4r + j] over i and j; x is int8, codes are uint8, sums wrap around.
  template <int kSums, int kX, int kCodes>
  static void dot_tiles() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kX), "i"(kCodes));
  }
};

}  // namespace
}  // namespace tern::simd
