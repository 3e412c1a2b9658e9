// What an instruction set gives to ternary_quantize: loops over contiguous elements. The driver in cpu.cpp does the
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
  // length is a multiple of 4 unless count is 1 or the store is i8. Null where a rule does not go with a store,
  // and for b3, which the driver packs from i8. Returns the first range that holds a non-finite value (everything after
  // it is unwritten), or -1.
  std::int64_t (*ranges[kRules][kStores])(const void* x, std::int64_t count, std::int64_t len, float* scales,
                                          void* codes);
  std::int64_t max_len;  // the longest range the above take; 0: none

  // Pieces of a range that is too long, strided or unclean for the above. Sums are in the contract's order.
  double (*abs_sum)(const void* x, std::int64_t n);
  double (*abs_sum_above)(const void* x, std::int64_t n, double h, std::int64_t* count);
  double (*max_abs)(const void* x, std::int64_t n);               // infinite after a non-finite value
  void (*max_signed)(const void* x, std::int64_t n, double* of);  // of x, of -x, of 0; the same
  // of[0] = sum of x^2, of[1] = sum of |x| where |x| > h, of finite elements: what quality is made of. Other than the
  // sums above these are right to 6 digits, and infinite where a square is beyond f32 (of f64: beyond f64). h is above
  // 1e-15, so that squares below f32 do not matter.
  void (*error_sums)(const void* x, std::int64_t n, double h, double* of);
  // Of a block of up to 1,024 pairs of x and what became of it, y (f32, or f64 beside f64): of[0] to [3] are the sums
  // of x*x, (x - y)*(x - y), x*y and y*y in f64 and in the contract's order; adds how many y are 0. Where x is not
  // finite of[0] is not.
  void (*pair_sums)(const void* x, const void* y, std::int64_t n, double* of, std::int64_t* zeros);
  // `scale` as stored. n is a multiple of 4 except at the end of a row, whose padding is then written too.
  void (*codes[kRules][kStores])(const void* x, std::int64_t n, float scale, void* codes);
};

struct SimdTable {
  SourceLoops of[kSources];
};

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
