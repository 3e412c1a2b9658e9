// What an instruction set provides for ternary_quantize: loops over contiguous elements. The driver in cpu.cpp does the
// rest.
#pragma once

#include <cstdint>

namespace tern::ternary_quantize {

enum Rule : int { kAbsmean, kAbsmax, kMse, kInt2, kRules };  // in the order of tern::Scheme
enum Store : int { kI2, kS2, kI8, kB3, kStores };            // in the order of tern::Format
enum Source : int { kF32, kF64, kF16, kBf16, kSources };     // in the order of tern::DType

// The loops over elements of one type, of any alignment.
struct SourceLoops {
  // Whole equal ranges, one after the other, each with its own scale. `codes` advances by the bytes of a range, whose
  // length is a multiple of 4 unless count is 1 or the store is i8. Null for a store that the rule does not
  // use, and for b3, which the driver packs from i8. Returns the first range that holds a non-finite value (everything
  // after it is unwritten), or -1.
  std::int64_t (*ranges[kRules][kStores])(const void* x, std::int64_t count, std::int64_t len, float* scales,
                                          void* codes);
  std::int64_t max_len;  // the longest range that `ranges` take; 0: none

  // For pieces of a range that is too long or strided for `ranges`, or to be saturated. Sums are in the contract's
  // order.
  double (*abs_sum)(const void* x, std::int64_t n);
  double (*abs_sum_above)(const void* x, std::int64_t n, double h, std::int64_t* count);
  double (*max_abs)(const void* x, std::int64_t n);               // infinite if a value is not finite
  void (*max_signed)(const void* x, std::int64_t n, double* of);  // of[0]: of x and 0, of[1]: of -x and 0; likewise
  // For quality figures: of[0] = sum of x^2, of[1] = sum of |x| where |x| > h, for finite elements. Unlike the sums
  // above, these are right to 6 digits only, and infinite if a square overflows f32 (for f64 elements, f64). h is above
  // 1e-15, so squares that underflow f32 do not matter.
  void (*error_sums)(const void* x, std::int64_t n, double h, double* of);
  // For a block of up to 1,024 pairs of x and its dequantized y (f64 if x is f64, else f32): of[0] to [3] are the sums
  // of x*x, (x - y)*(x - y), x*y and y*y in f64, in the contract's order. Adds the number of y that are 0 to *zeros. If
  // some x is not finite, of[0] is not.
  void (*pair_sums)(const void* x, const void* y, std::int64_t n, double* of, std::int64_t* zeros);
  // `scale` as stored. n is a multiple of 4 except at the end of a row, whose padding is then written too.
  void (*codes[kRules][kStores])(const void* x, std::int64_t n, float scale, void* codes);
};

struct SimdTable {
  SourceLoops of[kSources];
};

// Whether a format has loops; `store` is its number in tern::Format. The driver packs all others from i8.
constexpr bool has_loops(const SourceLoops& loops, int rule, int store) {
  return store < kStores && loops.codes[rule][store] != nullptr;
}

// Sets codes (and ranges, where the loops have them) for every rule with its packed store and with i8.
template <class Loops>
constexpr void add_codes(SourceLoops& loops) {
  const auto add = [&]<int kRule, int kStore>() {
    loops.codes[kRule][kStore] = Loops::template codes<kRule, kStore>;
    if constexpr (requires { Loops::template ranges<kRule, kStore>; })
      loops.ranges[kRule][kStore] = Loops::template ranges<kRule, kStore>;
  };
  add.template operator()<kAbsmean, kI2>();
  add.template operator()<kAbsmean, kI8>();
  add.template operator()<kAbsmax, kI2>();
  add.template operator()<kAbsmax, kI8>();
  add.template operator()<kMse, kI2>();
  add.template operator()<kMse, kI8>();
  add.template operator()<kInt2, kS2>();
  add.template operator()<kInt2, kI8>();
}

}  // namespace tern::ternary_quantize
