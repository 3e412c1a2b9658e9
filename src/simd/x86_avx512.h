// Vector operations for AVX-512 (F, BW, VL, DQ): 16 floats, 8 doubles. See emulated.h for what each operation does.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tern::simd {
namespace {

struct X86Avx512 {
  using F = __m512;
  using D = __m512d;  // holds quads in the order 0 2 4 6 1 3 5 7; store() reorders them
  using I = __m512i;
  using B = __m512i;
  static constexpr std::size_t kF = 16, kD = 8;

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F set1(float v) { return _mm512_set1_ps(v); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void stream(float* p, F v) { _mm512_stream_ps(p, v); }
  static void stream_fence() { _mm_sfence(); }
  static void prefetch_l1(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
  static void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

  static D zero_d() { return _mm512_setzero_pd(); }
  static D add(D a, D b) { return _mm512_add_pd(a, b); }
  static void store(double* p, D v) {
    _mm512_storeu_pd(p, _mm512_permutexvar_pd(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), v));
  }
  // The quad sums of two vectors of four quads each; f is applied to each widened element.
  template <class Fn>
  static D quad_sums(F a, F b, Fn f) {
    const F even = _mm512_shuffle_ps(a, b, 0b10'00'10'00);  // of quads 0 4 1 5 | 2 6 3 7
    const F odd = _mm512_shuffle_ps(a, b, 0b11'01'11'01);
    const D low = _mm512_add_pd(f(low_half(even)), f(low_half(odd)));
    const D high = _mm512_add_pd(f(high_half(even)), f(high_half(odd)));
    return _mm512_add_pd(_mm512_unpacklo_pd(low, high), _mm512_unpackhi_pd(low, high));
  }
  static D quad_sums(F a, F b) {
    return quad_sums(a, b, [](D v) { return v; });
  }
  static D square_quad_sums(F a, F b) {
    return quad_sums(a, b, [](D v) { return _mm512_mul_pd(v, v); });
  }
  static D abs_quad_sums(const float* p) { return quad_sums(abs(load(p)), abs(load(p + 16))); }
  static D abs_quad_sums_bf16(const std::uint16_t* p, I& top) {
    const __m512i v = _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi16(0x7FFF));
    top = _mm512_max_epu16(top, v);
    const auto wide = [](__m512i q) {
      return _mm512_castsi512_pd(_mm512_and_si512(q, _mm512_set1_epi64(std::int64_t{0x7FFF} << 45)));
    };
    const D quads = _mm512_add_pd(_mm512_add_pd(wide(_mm512_slli_epi64(v, 45)), wide(_mm512_slli_epi64(v, 29))),
                                  _mm512_add_pd(wide(_mm512_slli_epi64(v, 13)), wide(_mm512_srli_epi64(v, 3))));
    return _mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), quads);
  }
  static bool finite_bf16(I top) { return _mm512_cmpgt_epu16_mask(top, _mm512_set1_epi16(0x7F7F)) == 0; }
  static D abs_quad_sums_above(const float* p, float h, I& count) {
    const auto keep = [&](const float* q) {
      const F a = abs(load(q));
      const __mmask16 above = _mm512_cmp_ps_mask(a, set1(h), _CMP_GT_OQ);
      count = _mm512_mask_add_epi32(count, above, count, _mm512_set1_epi32(1));
      return _mm512_maskz_mov_ps(above, a);
    };
    const F first = keep(p);
    return quad_sums(first, keep(p + 16));
  }
  static void add_pair_quads(const F (&x)[2], const F (&y)[2], D (&sums)[4]) {
    struct Wide {
      D even[2], odd[2];  // elements 0 2 and 1 3 of quads 0 4 1 5 | 2 6 3 7
      explicit Wide(const F (&v)[2]) {
        const F evens = _mm512_shuffle_ps(v[0], v[1], 0b10'00'10'00),
                odds = _mm512_shuffle_ps(v[0], v[1], 0b11'01'11'01);
        even[0] = low_half(evens);
        even[1] = high_half(evens);
        odd[0] = low_half(odds);
        odd[1] = high_half(odds);
      }
    };
    const auto add = [](D& sum, const Wide& p, const Wide& q) {
      D pairs[2];
      for (int i = 0; i < 2; ++i)
        pairs[i] = _mm512_add_pd(_mm512_mul_pd(p.even[i], q.even[i]), _mm512_mul_pd(p.odd[i], q.odd[i]));
      sum = _mm512_add_pd(
          sum, _mm512_add_pd(_mm512_unpacklo_pd(pairs[0], pairs[1]), _mm512_unpackhi_pd(pairs[0], pairs[1])));
    };
    const Wide a(x), b(y);
    Wide error = a;
    for (int i = 0; i < 2; ++i) {
      error.even[i] = _mm512_sub_pd(a.even[i], b.even[i]);
      error.odd[i] = _mm512_sub_pd(a.odd[i], b.odd[i]);
    }
    add(sums[0], a, a);
    add(sums[1], error, error);
    add(sums[2], a, b);
    add(sums[3], b, b);
  }

  static I zero_i() { return _mm512_setzero_si512(); }
  static F abs(F v) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), v); }
  static F negate(F v) { return _mm512_xor_ps(_mm512_set1_ps(-0.0F), v); }
  static F add_above(F sum, F a, F h) { return _mm512_mask_add_ps(sum, _mm512_cmp_ps_mask(a, h, _CMP_GT_OQ), sum, a); }
  static void magnitudes_bf16(const std::uint16_t* p, F& even, F& odd) {
    const __m512i v = _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi16(0x7FFF));
    even = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(0x7FFF'0000)));
  }
  static I max_bits(I m, F v) { return max(m, _mm512_castps_si512(v)); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  static std::int32_t max_lane(I v) { return _mm512_reduce_max_epi32(v); }
  static std::int32_t sum_lanes(I v) { return _mm512_reduce_add_epi32(v); }

  static I trits(F x, F h) {
    const __mmask16 above = _mm512_cmp_ps_mask(x, h, _CMP_GT_OQ);
    const __mmask16 below = _mm512_cmp_ps_mask(x, negate(h), _CMP_LT_OQ);
    return _mm512_mask_sub_epi32(_mm512_maskz_set1_epi32(above, 1), below, _mm512_setzero_si512(),
                                 _mm512_set1_epi32(1));
  }
  static B trits_half(const std::uint16_t* p, std::uint16_t most) {
    const auto half = [&](const std::uint16_t* q) {
      const __m512i v = _mm512_loadu_si512(q);
      const __mmask32 above = _mm512_cmpgt_epi16_mask(_mm512_and_si512(v, _mm512_set1_epi16(0x7FFF)),
                                                      _mm512_set1_epi16(static_cast<std::int16_t>(most)));
      return _mm512_cvtepi16_epi8(
          _mm512_or_si512(_mm512_maskz_mov_epi16(above, _mm512_srai_epi16(v, 15)), _mm512_maskz_set1_epi16(above, 1)));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(half(p)), half(p + 32), 1);
  }
  static I int2(F x, F s) {
    return _mm512_cvtps_epi32(
        _mm512_min_ps(_mm512_max_ps(_mm512_div_ps(x, s), _mm512_set1_ps(-2.0F)), _mm512_set1_ps(1.0F)));
  }
  static B narrow(I a, I b, I c, I d) {
    return _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(_mm512_cvtepi32_epi8(a)),
                                                                    _mm512_cvtepi32_epi8(b), 1),
                                                 _mm512_cvtepi32_epi8(c), 2),
                              _mm512_cvtepi32_epi8(d), 3);
  }
  static void store_i8(std::int8_t* p, B v) { _mm512_storeu_si512(p, v); }
  static void store_i2(std::uint8_t* p, B v) { store_quads(p, _mm512_add_epi8(v, _mm512_set1_epi8(1))); }
  static void store_s2(std::uint8_t* p, B v) { store_quads(p, _mm512_and_si512(v, _mm512_set1_epi8(3))); }
  static void store_u8(std::uint8_t* p, B v) { store_bytes(p, _mm512_xor_si512(v, _mm512_set1_epi8(-128))); }
  static void store_nibbles(std::uint8_t* p, B v) {
    const __m512i low = _mm512_and_si512(v, _mm512_set1_epi8(15));
    const __m512i pairs = _mm512_maddubs_epi16(low, _mm512_set1_epi16(0x1001));  // c0 + 16 c1
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi16_epi8(pairs));
  }

  static I widen(const std::int8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I widen_u8(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I invert(I v) { return _mm512_xor_si512(v, _mm512_set1_epi32(-1)); }
  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F table4(const float* values) { return _mm512_broadcast_f32x4(_mm_loadu_ps(values)); }
  static void decode4(const std::uint8_t* p, F table, F (&out)[4]) {
    const __m512i shifts = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    for (int i = 0; i < 4; ++i) {
      std::int32_t bits = 0;
      __builtin_memcpy(&bits, p + 4 * i, sizeof bits);
      out[i] = _mm512_permutevar_ps(table, _mm512_srlv_epi32(_mm512_set1_epi32(bits), shifts));
    }
  }

  static F load_f16(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16(const std::uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static void store_f16(std::uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bf16(std::uint16_t* p, F v) {
    const __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i even = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i half = _mm512_mask_or_epi32(_mm512_srli_epi32(even, 16), nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(half));
  }
  static I load_i32(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  static void store_i32(std::int32_t* p, I v) { _mm512_storeu_si512(p, v); }

  static F zero_f() { return _mm512_setzero_ps(); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  // vmaxps returns the second operand if one is NaN or both are 0.
  static F relu(F v) { return _mm512_max_ps(_mm512_setzero_ps(), v); }
  static F clamp(F v, F low, F high) { return _mm512_min_ps(_mm512_max_ps(v, low), high); }
  static I within(F v, F low, F high) {
    const __mmask16 above = _mm512_cmp_ps_mask(v, low, _CMP_GE_OQ);
    return _mm512_maskz_set1_epi32(_mm512_mask_cmp_ps_mask(above, v, high, _CMP_LE_OQ), 1);
  }
  static I round(F v) { return _mm512_cvtps_epi32(v); }
  static F mul_add(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static constexpr bool kFused = true;  // whether mul_add rounds once

  using U = __m512i;
  static constexpr std::size_t kBytes = 64;
  static U load_bytes(const void* p) { return _mm512_loadu_si512(p); }
  static void store_bytes(void* p, U v) { _mm512_storeu_si512(p, v); }
  template <int kShift>
  static U codes(U v, int mask) {
    return _mm512_and_si512(kShift == 0 ? v : _mm512_srli_epi16(v, kShift), _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static U broadcast4(const void* p) {
    U v;
    asm volatile("vpbroadcastd %1, %0" : "=v"(v) : "m"(*static_cast<const char(*)[4]>(p)));
    return v;
  }
  template <int kShift>
  static F trit_floats(U v) {
    const __m512 table = _mm512_broadcast_f32x4(_mm_setr_ps(-1.0F, 0.0F, 1.0F, 0.0F));
    return _mm512_permutevar_ps(table, _mm512_srli_epi32(v, kShift));  // uses the low two bits
  }

 private:
  static D low_half(F v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
  static D high_half(F v) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)); }
  // Packs 64 codes of 0..3 into 16 bytes, four codes a byte.
  static void store_quads(std::uint8_t* p, B codes) {
    const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x0401));    // c0 + 4 c1
    const __m512i quads = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0010'0001));  // + 16 (c2 + 4 c3)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(quads));
  }
};

}  // namespace
}  // namespace tern::simd
