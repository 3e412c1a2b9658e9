// What an instruction set gives to ternary_quantize: loops over contiguous floats. The driver in cpu.cpp does the rest.
#pragma once

#include <cstdint>

namespace tern::ternary_quantize {

enum Rule : int { kAbsmean, kAbsmax, kMse, kInt2, kRules };  // in the order of tern::Scheme
enum Store : int { kI2, kS2, kI8, kStores };                 // in the order of tern::Format

struct SimdTable {
  // Whole equal ranges, one after the other, each with its own scale. `codes` advances by the bytes of a range, whose
  // length is a multiple of 4 unless count is 1 or the store is i8. Null where a rule does not go with a store.
  // Returns the first range that holds a non-finite value (everything after it is unwritten), or -1.
  std::int64_t (*ranges[kRules][kStores])(const float* x, std::int64_t count, std::int64_t len, float* scales,
                                          void* codes);

  // Pieces of a range that is too long, strided or unclean for the above. Sums are in the contract's order.
  double (*abs_sum)(const float* x, std::int64_t n);
  double (*abs_sum_above)(const float* x, std::int64_t n, float h, std::int64_t* count);
  std::uint32_t (*max_abs_bits)(const float* x, std::int64_t n);              // >= 0x7F800000: non-finite
  void (*max_signed_bits)(const float* x, std::int64_t n, std::int32_t* of);  // of x, of -x; below 0: none positive
  // `scale` as stored. n is a multiple of 4 except at the end of a row, whose padding is then written too.
  void (*codes[kRules][kStores])(const float* x, std::int64_t n, float scale, void* codes);
};

}  // namespace tern::ternary_quantize
