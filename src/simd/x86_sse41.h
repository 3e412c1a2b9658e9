// Vector operations for SSE4.1: 4 floats, 2 doubles. See emulated.h for what each operation does.
#pragma once

#include <smmintrin.h>
#include <tmmintrin.h>

#include <cstddef>
#include <cstdint>

#include "simd/decode_table.h"
#include "simd/fused.h"

namespace tern::simd {
namespace {

struct X86Sse41 {
  using F = __m128;
  using D = __m128d;
  using I = __m128i;
  using B = __m128i;
  static constexpr std::size_t kF = 4, kD = 2;

  static F load(const float* p) { return _mm_loadu_ps(p); }
  static F set1(float v) { return _mm_set1_ps(v); }
  static void store(float* p, F v) { _mm_storeu_ps(p, v); }
  static void stream(float* p, F v) { _mm_stream_ps(p, v); }
  static void stream_fence() { _mm_sfence(); }
  static void prefetch_l1(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
  static void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

  static D zero_d() { return _mm_setzero_pd(); }
  static D add(D a, D b) { return _mm_add_pd(a, b); }
  static void store(double* p, D v) { _mm_storeu_pd(p, v); }
  // (a0 + a1, a2 + a3) of a quad in f64. A second hadd with another quad's pairs gives the sums of both quads.
  static D pair_sums(F v) { return _mm_hadd_pd(_mm_cvtps_pd(v), _mm_cvtps_pd(_mm_movehl_ps(v, v))); }
  static D abs_quad_sums(const float* p) { return _mm_hadd_pd(pair_sums(abs(load(p))), pair_sums(abs(load(p + 4)))); }
  static D abs_quad_sums_bf16(const std::uint16_t* p, I& top) {
    const __m128i v = _mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi16(0x7FFF));
    top = _mm_max_epu16(top, v);
    const auto wide = [](__m128i q) {
      return _mm_castsi128_pd(_mm_and_si128(q, _mm_set1_epi64x(std::int64_t{0x7FFF} << 45)));
    };
    return _mm_add_pd(_mm_add_pd(wide(_mm_slli_epi64(v, 45)), wide(_mm_slli_epi64(v, 29))),
                      _mm_add_pd(wide(_mm_slli_epi64(v, 13)), wide(_mm_srli_epi64(v, 3))));
  }
  // SSE4.1 has a minimum across lanes but no maximum, so this looks for the smallest 0xFFFF - top.
  static bool finite_bf16(I top) {
    return _mm_extract_epi16(_mm_minpos_epu16(_mm_sub_epi16(_mm_set1_epi16(-1), top)), 0) > 0xFFFF - 0x7F80;
  }
  static D abs_quad_sums_above(const float* p, float h, I& count) {
    const auto keep = [&](const float* q) {
      const F a = abs(load(q));
      const F mask = _mm_cmpgt_ps(a, set1(h));
      count = _mm_sub_epi32(count, _mm_castps_si128(mask));
      return _mm_and_ps(a, mask);
    };
    const D first = pair_sums(keep(p));
    return _mm_hadd_pd(first, pair_sums(keep(p + 4)));
  }
  static D square_quad_sums(F a, F b) {
    const auto pairs = [](F v) {
      const D low = _mm_cvtps_pd(v), high = _mm_cvtps_pd(_mm_movehl_ps(v, v));
      return _mm_hadd_pd(_mm_mul_pd(low, low), _mm_mul_pd(high, high));
    };
    return _mm_hadd_pd(pairs(a), pairs(b));
  }
  static void add_pair_quads(const F (&x)[2], const F (&y)[2], D (&sums)[4]) {
    const auto add = [](D& sum, const D(&p)[4], const D(&q)[4]) {  // low and high half of each quad
      sum = _mm_add_pd(sum, _mm_hadd_pd(_mm_hadd_pd(_mm_mul_pd(p[0], q[0]), _mm_mul_pd(p[1], q[1])),
                                        _mm_hadd_pd(_mm_mul_pd(p[2], q[2]), _mm_mul_pd(p[3], q[3]))));
    };
    const auto high = [](F v) { return _mm_cvtps_pd(_mm_movehl_ps(v, v)); };
    const D a[4] = {_mm_cvtps_pd(x[0]), high(x[0]), _mm_cvtps_pd(x[1]), high(x[1])};
    const D b[4] = {_mm_cvtps_pd(y[0]), high(y[0]), _mm_cvtps_pd(y[1]), high(y[1])};
    const D error[4] = {_mm_sub_pd(a[0], b[0]), _mm_sub_pd(a[1], b[1]), _mm_sub_pd(a[2], b[2]), _mm_sub_pd(a[3], b[3])};
    add(sums[0], a, a);
    add(sums[1], error, error);
    add(sums[2], a, b);
    add(sums[3], b, b);
  }

  static I zero_i() { return _mm_setzero_si128(); }
  static F abs(F v) { return _mm_andnot_ps(_mm_set1_ps(-0.0F), v); }
  static F negate(F v) { return _mm_xor_ps(_mm_set1_ps(-0.0F), v); }
  static F add_above(F sum, F a, F h) { return _mm_add_ps(sum, _mm_and_ps(a, _mm_cmpgt_ps(a, h))); }
  static void magnitudes_bf16(const std::uint16_t* p, F& even, F& odd) {
    const __m128i v = _mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi16(0x7FFF));
    even = _mm_castsi128_ps(_mm_slli_epi32(v, 16));
    odd = _mm_castsi128_ps(_mm_blend_epi16(v, _mm_setzero_si128(), 0x55));
  }
  static I max_bits(I m, F v) { return max(m, _mm_castps_si128(v)); }
  static I max(I a, I b) { return _mm_max_epi32(a, b); }
  static I add(I a, I b) { return _mm_add_epi32(a, b); }
  static std::int32_t max_lane(I v) {
    const I m = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0b01'00'11'10));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0b10'11'00'01)));
  }
  static std::int32_t sum_lanes(I v) {
    const I m = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0b01'00'11'10));
    return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0b10'11'00'01)));
  }

  static I trits(F x, F h) {
    return _mm_sub_epi32(_mm_castps_si128(_mm_cmplt_ps(x, negate(h))), _mm_castps_si128(_mm_cmpgt_ps(x, h)));
  }
  static B trits_half(const std::uint16_t* p, std::uint16_t most) {
    const auto eight = [&](const std::uint16_t* q) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
      const __m128i above =
          _mm_cmpgt_epi16(_mm_and_si128(v, _mm_set1_epi16(0x7FFF)), _mm_set1_epi16(static_cast<std::int16_t>(most)));
      return _mm_and_si128(above, _mm_or_si128(_mm_srai_epi16(v, 15), _mm_set1_epi16(1)));
    };
    return _mm_packs_epi16(eight(p), eight(p + 8));
  }
  static I int2(F x, F s) {
    return _mm_cvtps_epi32(_mm_min_ps(_mm_max_ps(_mm_div_ps(x, s), _mm_set1_ps(-2.0F)), _mm_set1_ps(1.0F)));
  }
  static B narrow(I a, I b, I c, I d) { return _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)); }
  static void store_i8(std::int8_t* p, B v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
  static void store_i2(std::uint8_t* p, B v) { store_quads(p, _mm_add_epi8(v, _mm_set1_epi8(1))); }
  static void store_s2(std::uint8_t* p, B v) { store_quads(p, _mm_and_si128(v, _mm_set1_epi8(3))); }
  static void store_u8(std::uint8_t* p, B v) { store_bytes(p, _mm_xor_si128(v, _mm_set1_epi8(-128))); }
  static void store_nibbles(std::uint8_t* p, B v) {
    const __m128i low = _mm_and_si128(v, _mm_set1_epi8(15));
    const __m128i pairs = _mm_maddubs_epi16(low, _mm_set1_epi16(0x1001));  // c0 + 16 c1
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(pairs, pairs));
  }

  static I widen(const std::int8_t* p) {
    std::int32_t bytes = 0;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return _mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes));
  }
  static I widen_u8(const std::uint8_t* p) {
    std::int32_t bytes = 0;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
  }
  static I invert(I v) { return _mm_xor_si128(v, _mm_set1_epi32(-1)); }
  static F to_float(I v) { return _mm_cvtepi32_ps(v); }
  static F mul(F a, F b) { return _mm_mul_ps(a, b); }
  static F table4(const float* values) { return _mm_loadu_ps(values); }
  static void decode4(const std::uint8_t* p, F table, F (&out)[4]) {
    for (int i = 0; i < 4; ++i) {
      const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(kDecodeShuffles.bytes[p[i]]));
      out[i] = _mm_castsi128_ps(_mm_shuffle_epi8(_mm_castps_si128(table), order));
    }
  }

  // load_f16() and store_f16() are from_f16() and to_f16() of half.h, on four lanes.
  static F load_f16(const std::uint16_t* p) {
    const __m128i half = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x8000)), 16);
    const __m128i rest = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x7FFF)), 13);
    const F scaled = _mm_mul_ps(_mm_castsi128_ps(rest), set1(0x1p112F));
    const __m128i nan = _mm_cmpgt_epi32(rest, _mm_set1_epi32(0x0F80'0000));
    const __m128i quiet =
        _mm_or_si128(_mm_or_si128(rest, _mm_set1_epi32(0x7F80'0000)), _mm_and_si128(nan, _mm_set1_epi32(0x40'0000)));
    const __m128i special = _mm_cmpgt_epi32(rest, _mm_set1_epi32(0x0F7F'FFFF));
    return _mm_or_ps(_mm_blendv_ps(scaled, _mm_castsi128_ps(quiet), _mm_castsi128_ps(special)), _mm_castsi128_ps(sign));
  }
  static F load_bf16(const std::uint16_t* p) {
    const __m128i half = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), half));
  }
  static void store_f16(std::uint16_t* p, F v) {
    const __m128i bits = _mm_castps_si128(v), magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7FFF'FFFF));
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
    const __m128i rounded = _mm_add_epi32(magnitude, _mm_add_epi32(odd, _mm_set1_epi32(0xFFF - 0x3800'0000)));
    const F shifted = _mm_add_ps(_mm_castsi128_ps(magnitude), set1(0.5F));
    const __m128i tiny = _mm_sub_epi32(_mm_castps_si128(shifted), _mm_set1_epi32(0x3F00'0000));
    const __m128i quiet =
        _mm_or_si128(_mm_set1_epi32(0x7E00), _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(0x3FF)));
    __m128i half = _mm_srli_epi32(rounded, 13);
    half = _mm_blendv_epi8(half, tiny, _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x3880'0000)));
    half = _mm_blendv_epi8(half, _mm_set1_epi32(0x7C00), _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477F'EFFF)));
    half = _mm_blendv_epi8(half, quiet, _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7F80'0000)));
    store_halves(p, _mm_or_si128(half, _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(0x8000))));
  }
  static void store_bf16(std::uint16_t* p, F v) {
    const __m128i bits = _mm_castps_si128(v), high = _mm_srli_epi32(bits, 16);
    const __m128i odd = _mm_and_si128(high, _mm_set1_epi32(1));
    const __m128i even = _mm_add_epi32(bits, _mm_add_epi32(odd, _mm_set1_epi32(0x7FFF)));
    const __m128i nan = _mm_castps_si128(_mm_cmpunord_ps(v, v));
    store_halves(p, _mm_blendv_epi8(_mm_srli_epi32(even, 16), _mm_or_si128(high, _mm_set1_epi32(0x40)), nan));
  }
  static I load_i32(const std::int32_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static void store_i32(std::int32_t* p, I v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }

  static F zero_f() { return _mm_setzero_ps(); }
  static F add(F a, F b) { return _mm_add_ps(a, b); }
  static F div(F a, F b) { return _mm_div_ps(a, b); }
  // maxps returns the second operand if one is NaN or both are 0.
  static F relu(F v) { return _mm_max_ps(_mm_setzero_ps(), v); }
  static F clamp(F v, F low, F high) { return _mm_min_ps(_mm_max_ps(v, low), high); }
  static I within(F v, F low, F high) {
    const F both = _mm_and_ps(_mm_cmpge_ps(v, low), _mm_cmple_ps(v, high));
    return _mm_srli_epi32(_mm_castps_si128(both), 31);
  }
  static I round(F v) { return _mm_cvtps_epi32(v); }
  static F mul_add(F a, F b, F c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
  static F fma(F a, F b, F c) {
    alignas(16) float x[4], y[4], z[4];
    _mm_store_ps(x, a);
    _mm_store_ps(y, b);
    _mm_store_ps(z, c);
    for (int i = 0; i < 4; ++i) z[i] = fused_multiply_add(x[i], y[i], z[i]);
    return _mm_load_ps(z);
  }
  static constexpr bool kFused = false;  // whether mul_add rounds once

  using U = __m128i;
  using A = __m128i;
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kFlushSteps = 64;
  static U load_bytes(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static void store_bytes(void* p, U v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
  template <int kShift>
  static U codes(U v, int mask) {
    return _mm_and_si128(kShift == 0 ? v : _mm_srli_epi16(v, kShift), _mm_set1_epi8(static_cast<char>(mask)));
  }
  static A zero_a() { return _mm_setzero_si128(); }
  static A dot(A sums, U codes, U x) {
    sums = _mm_add_epi16(sums, _mm_maddubs_epi16(codes, x));
    asm("" : "+x"(sums));  // keeps the compiler from adding products to each other first, which takes more registers
    return sums;
  }
  template <int kShift>
  static I total(A sums) {
    const __m128i pairs = _mm_madd_epi16(sums, _mm_set1_epi16(1));
    return kShift == 0 ? pairs : _mm_srai_epi32(pairs, kShift);
  }
  static constexpr int kDotBytesLess = 0;
  static I dot_bytes(I sums, U codes, U x) {  // widened, because int16 may not hold two products of bytes
    const I even = _mm_and_si128(codes, _mm_set1_epi16(255)), odd = _mm_srli_epi16(codes, 8);
    const I x_even = _mm_srai_epi16(_mm_slli_epi16(x, 8), 8), x_odd = _mm_srai_epi16(x, 8);
    sums = _mm_add_epi32(sums, _mm_madd_epi16(even, x_even));
    return _mm_add_epi32(sums, _mm_madd_epi16(odd, x_odd));
  }
  static U broadcast4(const void* p) {
    std::int32_t four = 0;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm_set1_epi32(four);
  }
  template <int kShift>
  static F trit_floats(U v) {
    const __m128i codes = _mm_and_si128(_mm_srli_epi32(v, kShift), _mm_set1_epi32(3));
    return _mm_cvtepi32_ps(_mm_sub_epi32(codes, _mm_set1_epi32(1)));
  }

 private:
  static void store_halves(std::uint16_t* p, __m128i halves) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(halves, halves));
  }
  // Packs 16 codes of 0..3 into 4 bytes, four codes a byte.
  static void store_quads(std::uint8_t* p, B codes) {
    const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x0401));    // c0 + 4 c1
    const __m128i quads = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0010'0001));  // + 16 (c2 + 4 c3)
    const std::int32_t bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(quads, _mm_set1_epi32(0x0C'08'04'00)));
    __builtin_memcpy(p, &bytes, sizeof bytes);
  }
};

}  // namespace
}  // namespace tern::simd
