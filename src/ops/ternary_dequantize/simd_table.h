// What an instruction set provides for ternary_dequantize: loops over whole ranges of codes.
#pragma once

#include <cstdint>

namespace tern::ternary_dequantize {

enum Load : int { kI2, kS2, kI8, kB3, kLoads };           // in the order of tern::Format
enum Target : int { kF32, kF64, kF16, kBf16, kTargets };  // in the order of tern::DType

struct SimdTable {
  // y = code * scale over `count` equal ranges, one after the other. `codes` advances by the bytes of a range, whose
  // length is a multiple of 4 unless count is 1 or the codes are i8. `min_code` is the lowest valid code (i8).
  // With `stream`, y is 64-byte aligned and need not stay in the cache. Returns whether every code was valid. Null for
  // b3, which the driver unpacks to i8.
  bool (*ranges[kTargets][kLoads])(const void* codes, std::int64_t count, std::int64_t len, const float* scales,
                                   int min_code, bool stream, void* y);
};

// Whether a format has loops, of those for one target; `load` is its number in tern::Format. All others are unpacked to
// i8.
template <class Ranges>
constexpr bool has_loops(const Ranges& ranges, int load) {
  return load < kLoads && ranges[load] != nullptr;
}

}  // namespace tern::ternary_dequantize
