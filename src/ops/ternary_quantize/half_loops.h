// The loops of ternary_quantize over f16 and bf16: widen a block at a time into L1, then run the loops over f32 on it.
// Trits need no widening: magnitudes of halves compare as their bits do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/ternary_quantize/f32_loops.h"

namespace tern::ternary_quantize {
namespace {

template <class S, int kSource>
struct HalfLoops {
  using F32 = F32Loops<S>;
  using InCache = typename F32::InCache;

  static constexpr std::size_t kBlock = simd::kSumBlock;
  static constexpr std::size_t kStep = 32 < S::kF ? S::kF : 32;  // a cache line

  static void widen(const std::uint16_t* x, std::size_t n, float* to) {
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep) {
      fetch(x + at);
      for (std::size_t i = at; i < at + kStep; i += S::kF)
        S::store(to + i, kSource == kF16 ? S::load_f16(x + i) : S::load_bf16(x + i));
    }
    for (; at < n; ++at) {
      std::uint16_t half = 0;
      __builtin_memcpy(&half, x + at, sizeof half);
      to[at] = kSource == kF16 ? half::from_f16(half) : half::from_bf16(half);
    }
  }

  // Calls f(block, number of elements, index of the first) for each widened block.
  template <class Fn>
  static void each_block(const void* x, std::int64_t elems, Fn f) {
    alignas(64) float block[kBlock];
    const auto* from = static_cast<const std::uint16_t*>(x);
    const auto n = static_cast<std::size_t>(elems);
    for (std::size_t at = 0; at < n; at += kBlock) {
      const std::size_t part = n - at < kBlock ? n - at : kBlock;
      widen(from + at, part, block);
      f(block, part, at);
    }
  }

  // Prefetches while the elements at x are read from memory.
  static void fetch(const std::uint16_t* x) {
    const auto here = reinterpret_cast<std::uintptr_t>(x);
    S::prefetch_l1(reinterpret_cast<const void*>(here + F32::kNearBytes));
    S::prefetch_l2(reinterpret_cast<const void*>(here + F32::kFarBytes));
  }

  static double abs_sum(const void* x, std::int64_t n) {
    simd::PairwiseFold fold;
    if constexpr (kSource == kBf16) {
      const auto* from = static_cast<const std::uint16_t*>(x);
      const auto elems = static_cast<std::size_t>(n);
      typename S::I top = S::zero_i();
      for (std::size_t at = 0; at < elems; at += kBlock)
        fold.add(F32::block_sum(
            from + at, elems - at < kBlock ? elems - at : kBlock,
            [&](const std::uint16_t* p) { return S::abs_quad_sums_bf16(p, top); },
            [&](std::size_t i) { fetch(from + at + i); }));
      // Scaling is exact: every scaled sum was exact, or was rounded like the sum of the values themselves.
      return S::finite_bf16(top) ? fold.total() * 0x1p896 : __builtin_huge_val();
    }
    each_block(x, n, [&](const float* block, std::size_t part, std::size_t) {
      fold.add(F32::abs_sum_ahead(block, part, InCache{}));
    });
    return fold.total();
  }
  static double abs_sum_above(const void* x, std::int64_t n, double h, std::int64_t* count) {
    simd::PairwiseFold fold;
    *count = 0;
    each_block(x, n, [&](const float* block, std::size_t part, std::size_t) {
      std::int64_t above = 0;
      fold.add(F32::abs_sum_above_ahead(block, part, static_cast<float>(h), &above, InCache{}));
      *count += above;
    });
    return fold.total();
  }
  static double max_abs(const void* x, std::int64_t n) {
    std::uint32_t top = 0;
    each_block(x, n, [&](const float* block, std::size_t part, std::size_t) {
      const std::uint32_t bits = F32::max_abs_bits_ahead(block, part, InCache{});
      top = bits > top ? bits : top;
    });
    return F32::finite(static_cast<std::int32_t>(top));
  }
  static void max_signed(const void* x, std::int64_t n, double* of) {
    of[0] = of[1] = 0.0;
    each_block(x, n, [&](const float* block, std::size_t part, std::size_t) {
      double here[2];
      F32::max_signed(block, static_cast<std::int64_t>(part), here);
      for (int i = 0; i < 2; ++i) of[i] = here[i] > of[i] ? here[i] : of[i];
    });
  }

  static void error_sums(const void* x, std::int64_t n, double h, double* of) {
    using Errors = ErrorLoops<S>;
    Errors::sums(static_cast<const std::uint16_t*>(x), static_cast<std::size_t>(n), static_cast<float>(h), of,
                 [](const std::uint16_t* p, typename Errors::Lanes& a) {
                   constexpr std::size_t kHalf = Errors::kVectors / 2;
                   for (std::size_t i = 0; i < Errors::kVectors && kSource == kF16; ++i)
                     a[i] = S::abs(S::load_f16(p + i * S::kF));
                   for (std::size_t i = 0; i < kHalf && kSource == kBf16; ++i)
                     S::magnitudes_bf16(p + 2 * i * S::kF, a[i], a[kHalf + i]);
                 });
  }

  static void pair_sums(const void* x, const void* y, std::int64_t elems, double* of, std::int64_t* zeros) {
    alignas(64) float block[kBlock];
    const auto n = static_cast<std::size_t>(elems);
    widen(static_cast<const std::uint16_t*>(x), n, block);
    PairLoops<S>::template block<0>(block, static_cast<const float*>(y), n, of, zeros);
  }

  // The bits of the largest value that is not above h.
  static std::uint16_t not_above(float h) {
    if constexpr (kSource == kBf16) return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, h) >> 16);
    const std::uint16_t nearest = half::to_f16(h);
    return static_cast<std::uint16_t>(half::from_f16(nearest) > h ? nearest - 1 : nearest);
  }
  template <int kStore>
  static void trits(const std::uint16_t* x, std::size_t n, float scale, void* codes) {
    constexpr std::size_t kCodeStep = F32::kCodeStep, kPerByte = kStore == kI8 ? 1 : 4;
    auto* out = static_cast<std::uint8_t*>(codes);
    const std::uint16_t most = not_above(threshold(scale));
    const std::size_t full = n / kCodeStep * kCodeStep;
    for (std::size_t at = 0; at < full; at += kCodeStep) {
      for (std::size_t i = 0; i < kCodeStep; i += 32)
        if ((at + i) % 32 == 0) fetch(x + at + i);
      F32::template store_step<kStore>(out + at / kPerByte, S::trits_half(x + at, most));
    }
    if (full < n) {
      std::uint8_t step[kCodeStep / kPerByte];
      const typename F32::template Padded<kCodeStep, std::uint16_t> rest(x + full, n - full);
      F32::template store_step<kStore>(step, S::trits_half(rest.x, most));
      const std::size_t bytes = (n - full + kPerByte - 1) / kPerByte;
      for (std::size_t i = 0; i < bytes; ++i) out[full / kPerByte + i] = step[i];
    }
  }

  template <int kRule, int kStore>
  static void codes(const void* x, std::int64_t n, float scale, void* out) {
    if constexpr (kRule != kInt2)
      return trits<kStore>(static_cast<const std::uint16_t*>(x), static_cast<std::size_t>(n), scale, out);
    each_block(x, n, [&](const float* block, std::size_t part, std::size_t at) {
      F32::template codes_ahead<kRule, kStore>(
          block, part, scale, static_cast<std::uint8_t*>(out) + (kStore == kI8 ? at : at / 4), InCache{});
    });
  }

  // Widens as many whole ranges at a time as a block holds.
  template <int kRule, int kStore>
  static std::int64_t ranges(const void* x, std::int64_t count, std::int64_t len, float* scales, void* codes) {
    const auto* from = static_cast<const std::uint16_t*>(x);
    auto* out = static_cast<std::uint8_t*>(codes);
    const std::int64_t bytes = kStore == kI8 ? len : (len + 3) / 4, most = static_cast<std::int64_t>(kBlock) / len;
    alignas(64) float block[kBlock];
    for (std::int64_t i = 0; i < count; i += most) {
      const std::int64_t now = count - i < most ? count - i : most;
      widen(from + i * len, static_cast<std::size_t>(now * len), block);
      const std::int64_t bad =
          F32::template ranges_in_cache<kRule, kStore>(block, now, len, scales + i, out + i * bytes);
      if (bad >= 0) return i + bad;
    }
    return -1;
  }

  static constexpr SourceLoops loops() {
    SourceLoops l{};
    l.max_len = kBlock;
    l.abs_sum = abs_sum;
    l.abs_sum_above = abs_sum_above;
    l.max_abs = max_abs;
    l.max_signed = max_signed;
    l.error_sums = error_sums;
    l.pair_sums = pair_sums;
    add_codes<HalfLoops>(l);
    return l;
  }
};

}  // namespace
}  // namespace tern::ternary_quantize
