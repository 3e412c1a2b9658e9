// Vector operations for NEON, which every 64-bit ARM has: 4 floats, 2 doubles. See emulated.h for what each operation
// does.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "simd/decode_table.h"

namespace tern::simd {
namespace {

struct ArmNeon {
  using F = float32x4_t;
  using D = float64x2_t;
  using I = int32x4_t;
  using B = int8x16_t;
  static constexpr std::size_t kF = 4, kD = 2;

  static F load(const float* p) { return any<F>(p); }
  static F set1(float v) { return vdupq_n_f32(v); }
  static void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
  static void stream(float* p, F v) { store(p, v); }  // a plain store: NEON streams only pairs of registers
  static void stream_fence() {}
  static void prefetch_l1(const void* p) { __builtin_prefetch(p, 0, 3); }
  static void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

  static D zero_d() { return vdupq_n_f64(0); }
  static D add(D a, D b) { return vaddq_f64(a, b); }
  static void store(double* p, D v) { __builtin_memcpy(p, &v, sizeof v); }
  static D pair_sums(F v) { return vpaddq_f64(vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v)); }
  static D abs_quad_sums(const float* p) { return vpaddq_f64(pair_sums(abs(load(p))), pair_sums(abs(load(p + 4)))); }
  static D abs_quad_sums_bf16(const std::uint16_t* p, I& top) {
    const uint16x8_t half = vandq_u16(any<uint16x8_t>(p), vdupq_n_u16(0x7FFF));
    top = vreinterpretq_s32_u16(vmaxq_u16(vreinterpretq_u16_s32(top), half));
    const uint64x2_t v = vreinterpretq_u64_u16(half);
    const auto wide = [](uint64x2_t q) {
      return vreinterpretq_f64_u64(vandq_u64(q, vdupq_n_u64(std::uint64_t{0x7FFF} << 45)));
    };
    return vaddq_f64(vaddq_f64(wide(vshlq_n_u64(v, 45)), wide(vshlq_n_u64(v, 29))),
                     vaddq_f64(wide(vshlq_n_u64(v, 13)), wide(vshrq_n_u64(v, 3))));
  }
  static bool finite_bf16(I top) { return vmaxvq_u16(vreinterpretq_u16_s32(top)) < 0x7F80; }
  static D abs_quad_sums_above(const float* p, float h, I& count) {
    const auto keep = [&](const float* q) {
      const F a = abs(load(q));
      const uint32x4_t mask = vcgtq_f32(a, set1(h));
      count = vsubq_s32(count, vreinterpretq_s32_u32(mask));
      return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), mask));
    };
    const D first = pair_sums(keep(p));
    return vpaddq_f64(first, pair_sums(keep(p + 4)));
  }
  static D square_quad_sums(F a, F b) {
    const auto pairs = [](F v) {
      const D low = vcvt_f64_f32(vget_low_f32(v)), high = vcvt_high_f64_f32(v);
      return vpaddq_f64(vmulq_f64(low, low), vmulq_f64(high, high));
    };
    return vpaddq_f64(pairs(a), pairs(b));
  }
  static void add_pair_quads(const F (&x)[2], const F (&y)[2], D (&sums)[4]) {
    const auto add = [](D& sum, const D(&p)[4], const D(&q)[4]) {  // low and high half of each quad
      sum = vaddq_f64(sum, vpaddq_f64(vpaddq_f64(vmulq_f64(p[0], q[0]), vmulq_f64(p[1], q[1])),
                                      vpaddq_f64(vmulq_f64(p[2], q[2]), vmulq_f64(p[3], q[3]))));
    };
    const auto low = [](F v) { return vcvt_f64_f32(vget_low_f32(v)); };
    const D a[4] = {low(x[0]), vcvt_high_f64_f32(x[0]), low(x[1]), vcvt_high_f64_f32(x[1])};
    const D b[4] = {low(y[0]), vcvt_high_f64_f32(y[0]), low(y[1]), vcvt_high_f64_f32(y[1])};
    const D error[4] = {vsubq_f64(a[0], b[0]), vsubq_f64(a[1], b[1]), vsubq_f64(a[2], b[2]), vsubq_f64(a[3], b[3])};
    add(sums[0], a, a);
    add(sums[1], error, error);
    add(sums[2], a, b);
    add(sums[3], b, b);
  }

  static I zero_i() { return vdupq_n_s32(0); }
  static F abs(F v) { return vabsq_f32(v); }
  static F negate(F v) { return vnegq_f32(v); }
  static F add_above(F sum, F a, F h) {
    return vaddq_f32(sum, vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vcgtq_f32(a, h))));
  }
  static void magnitudes_bf16(const std::uint16_t* p, F& even, F& odd) {
    const uint32x4_t v = vreinterpretq_u32_u16(vandq_u16(any<uint16x8_t>(p), vdupq_n_u16(0x7FFF)));
    even = vreinterpretq_f32_u32(vshlq_n_u32(v, 16));
    odd = vreinterpretq_f32_u32(vandq_u32(v, vdupq_n_u32(0xFFFF'0000U)));
  }
  static I max_bits(I m, F v) { return max(m, vreinterpretq_s32_f32(v)); }
  static I max(I a, I b) { return vmaxq_s32(a, b); }
  static I add(I a, I b) {  // unsigned, because GCC's int32 addition must not overflow
    return vreinterpretq_s32_u32(vaddq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)));
  }
  static std::int32_t max_lane(I v) { return vmaxvq_s32(v); }
  static std::int32_t sum_lanes(I v) { return vaddvq_s32(v); }

  static I trits(F x, F h) { return vreinterpretq_s32_u32(vsubq_u32(vcltq_f32(x, vnegq_f32(h)), vcgtq_f32(x, h))); }
  static B trits_half(const std::uint16_t* p, std::uint16_t most) {
    const auto eight = [&](const std::uint16_t* q) {
      const uint16x8_t v = any<uint16x8_t>(q);
      const uint16x8_t above = vcgtq_u16(vandq_u16(v, vdupq_n_u16(0x7FFF)), vdupq_n_u16(most));
      const int16x8_t sign = vorrq_s16(vshrq_n_s16(vreinterpretq_s16_u16(v), 15), vdupq_n_s16(1));
      return vmovn_s16(vandq_s16(sign, vreinterpretq_s16_u16(above)));
    };
    return vcombine_s8(eight(p), eight(p + 8));
  }
  static I int2(F x, F s) {
    return vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(vdivq_f32(x, s), vdupq_n_f32(-2.0F)), vdupq_n_f32(1.0F)));
  }
  static B narrow(I a, I b, I c, I d) {  // the low byte of each lane
    const int16x8_t ab = vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
    const int16x8_t cd = vuzp1q_s16(vreinterpretq_s16_s32(c), vreinterpretq_s16_s32(d));
    return vuzp1q_s8(vreinterpretq_s8_s16(ab), vreinterpretq_s8_s16(cd));
  }
  static void store_i8(std::int8_t* p, B v) { __builtin_memcpy(p, &v, sizeof v); }
  static void store_i2(std::uint8_t* p, B v) { store_quads(p, vaddq_u8(vreinterpretq_u8_s8(v), vdupq_n_u8(1))); }
  static void store_s2(std::uint8_t* p, B v) { store_quads(p, vandq_u8(vreinterpretq_u8_s8(v), vdupq_n_u8(3))); }

  static void store_u8(std::uint8_t* p, B v) { store_bytes(p, veorq_u8(vreinterpretq_u8_s8(v), vdupq_n_u8(128))); }
  static void store_nibbles(std::uint8_t* p, B v) {
    const uint8x16_t codes = vreinterpretq_u8_s8(v);
    const uint8x16_t even = vuzp1q_u8(codes, codes), odd = vuzp2q_u8(codes, codes);
    const uint8x8_t bytes = vget_low_u8(vsliq_n_u8(vandq_u8(even, vdupq_n_u8(15)), odd, 4));
    __builtin_memcpy(p, &bytes, sizeof bytes);
  }

  static I widen(const std::int8_t* p) {
    const int8x8_t bytes = vreinterpret_s8_u32(vdup_n_u32(any<std::uint32_t>(p)));
    return vmovl_s16(vget_low_s16(vmovl_s8(bytes)));
  }
  static I widen_u8(const std::uint8_t* p) {
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(any<std::uint32_t>(p)));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
  }
  static I invert(I v) { return vmvnq_s32(v); }
  static F to_float(I v) { return vcvtq_f32_s32(v); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F table4(const float* values) { return load(values); }
  static void decode4(const std::uint8_t* p, F table, F (&out)[4]) {
    for (int i = 0; i < 4; ++i)
      out[i] = vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(table), vld1q_u8(kDecodeShuffles.bytes[p[i]])));
  }

  static F load_f16(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(any<uint16x4_t>(p))); }
  static F load_bf16(const std::uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(any<uint16x4_t>(p), 16)); }
  static void store_f16(std::uint16_t* p, F v) {
    const uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(v));
    __builtin_memcpy(p, &halves, sizeof halves);
  }
  static void store_bf16(std::uint16_t* p, F v) {  // same as to_bf16() of half.h
    const uint32x4_t bits = vreinterpretq_u32_f32(v), high = vshrq_n_u32(bits, 16);
    const uint32x4_t rounded =
        vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), vandq_u32(high, vdupq_n_u32(1)));  // ties to even
    const uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
    const uint16x4_t halves = vmovn_u32(vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(rounded, 16), quiet));
    __builtin_memcpy(p, &halves, sizeof halves);
  }
  static I load_i32(const std::int32_t* p) { return any<I>(p); }
  static void store_i32(std::int32_t* p, I v) { __builtin_memcpy(p, &v, sizeof v); }

  static F zero_f() { return vdupq_n_f32(0); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F relu(F v) { return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltzq_f32(v))); }
  static F clamp(F v, F low, F high) { return vminnmq_f32(vmaxnmq_f32(v, low), high); }
  static I within(F v, F low, F high) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vandq_u32(vcgeq_f32(v, low), vcleq_f32(v, high)), 31));
  }
  static I round(F v) { return vcvtnq_s32_f32(v); }
  static F mul_add(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static constexpr bool kFused = true;  // whether mul_add rounds once

  // One sum for each byte, so that dot() need not add neighbouring products. A vector has four bytes of each of four
  // rows: two rows go to `low`, two to `high`.
  using U = uint8x16_t;
  struct A {
    int16x8_t low, high;
  };
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kFlushSteps = 124;  // 124 * 2 * 128 and 31 * 8 * 128 are below 2^15
  static U load_bytes(const void* p) { return any<U>(p); }
  static void store_bytes(void* p, U v) { __builtin_memcpy(p, &v, sizeof v); }
  template <int kShift>
  static U codes(U v, int mask) {
    if constexpr (kShift > 0) v = vshrq_n_u8(v, kShift);
    return kShift == 6 && mask == 3 ? v : vandq_u8(v, vdupq_n_u8(static_cast<std::uint8_t>(mask)));
  }
  static A zero_a() { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static A dot(A sums, U codes, U x) {
    const int8x16_t a = vreinterpretq_s8_u8(codes), b = vreinterpretq_s8_u8(x);
    return {vmlal_s8(sums.low, vget_low_s8(a), vget_low_s8(b)), vmlal_high_s8(sums.high, a, b)};
  }
  template <int kShift>
  static I total(A sums) {
    return shifted<kShift>(vpaddq_s32(vpaddlq_s16(sums.low), vpaddlq_s16(sums.high)));
  }
  static constexpr int kDotBytesLess = 128;
  static I dot_bytes(I sums, U codes, U x) {  // a product of signed bytes fits int16: 128 * 128
    const int8x16_t a = less_128(codes), b = vreinterpretq_s8_u8(x);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return add(sums, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
  }
  static U broadcast4(const void* p) { return vreinterpretq_u8_u32(vdupq_n_u32(any<std::uint32_t>(p))); }
  template <int kShift>
  static F trit_floats(U v) {
    uint32x4_t codes = vreinterpretq_u32_u8(v);
    if constexpr (kShift > 0) codes = vshrq_n_u32(codes, kShift);
    codes = vandq_u32(codes, vdupq_n_u32(3));
    return vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(codes), vdupq_n_s32(1)));
  }

 protected:
  static int8x16_t less_128(U codes) { return vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(128))); }
  // Loads a value of any alignment.
  template <class V>
  static V any(const void* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  template <int kShift>
  static I shifted(I sums) {
    if constexpr (kShift > 0) sums = vshrq_n_s32(sums, kShift);
    return sums;
  }

 private:
  // Packs 16 codes of 0..3 into 4 bytes, four codes a byte.
  static void store_quads(std::uint8_t* p, uint8x16_t codes) {
    const int8x16_t places = vreinterpretq_s8_u32(vdupq_n_u32(0x06'04'02'00));
    const uint8x16_t quads = vshlq_u8(codes, places);
    const uint8x16_t pairs = vpaddq_u8(quads, quads);
    const std::uint32_t bytes = vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(pairs, pairs)), 0);
    __builtin_memcpy(p, &bytes, sizeof bytes);
  }
};

}  // namespace
}  // namespace tern::simd
