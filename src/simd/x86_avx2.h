// Vector operations for AVX2: 8 floats, 4 doubles. See emulated.h for what each operation does.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tern::simd {
namespace {

struct X86Avx2 {
  using F = __m256;
  using D = __m256d;
  using I = __m256i;
  using B = __m256i;  // narrow() leaves the low halves of its four I's, then the high halves
  static constexpr std::size_t kF = 8, kD = 4;

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F set1(float v) { return _mm256_set1_ps(v); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static void stream(float* p, F v) { _mm256_stream_ps(p, v); }
  static void stream_fence() { _mm_sfence(); }
  static void prefetch_l1(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
  static void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

  static D zero_d() { return _mm256_setzero_pd(); }
  static D add(D a, D b) { return _mm256_add_pd(a, b); }
  static void store(double* p, D v) { _mm256_storeu_pd(p, v); }
  static D abs_quad(const float* p) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_cvtps_pd(_mm_loadu_ps(p))); }
  // a, b, c, d are one quad each: (a0 + a1) + (a2 + a3), and so on for the others
  static D sum_quads(D a, D b, D c, D d) {
    const D ab = _mm256_hadd_pd(a, b);  // a0+a1 b0+b1 | a2+a3 b2+b3
    const D cd = _mm256_hadd_pd(c, d);
    return _mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x20), _mm256_permute2f128_pd(ab, cd, 0x31));
  }
  static D abs_quad_sums(const float* p) {
    return sum_quads(abs_quad(p), abs_quad(p + 4), abs_quad(p + 8), abs_quad(p + 12));
  }
  static D abs_quad_sums_bf16(const std::uint16_t* p, I& top) {
    const __m256i v =
        _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_set1_epi16(0x7FFF));
    top = _mm256_max_epu16(top, v);
    const auto wide = [](__m256i q) {
      return _mm256_castsi256_pd(_mm256_and_si256(q, _mm256_set1_epi64x(std::int64_t{0x7FFF} << 45)));
    };
    return _mm256_add_pd(_mm256_add_pd(wide(_mm256_slli_epi64(v, 45)), wide(_mm256_slli_epi64(v, 29))),
                         _mm256_add_pd(wide(_mm256_slli_epi64(v, 13)), wide(_mm256_srli_epi64(v, 3))));
  }
  static bool finite_bf16(I top) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi16(top, _mm256_set1_epi16(0x7F7F))) == 0;
  }
  static D abs_quad_sums_above(const float* p, float h, I& count) {
    const D threshold = _mm256_set1_pd(static_cast<double>(h));
    const auto keep = [&](const float* q) {
      const D a = abs_quad(q);
      return _mm256_and_pd(a, _mm256_cmp_pd(a, threshold, _CMP_GT_OQ));
    };
    for (int i = 0; i < 2; ++i)
      count = _mm256_sub_epi32(count, _mm256_castps_si256(_mm256_cmp_ps(abs(load(p + 8 * i)), set1(h), _CMP_GT_OQ)));
    return sum_quads(keep(p), keep(p + 4), keep(p + 8), keep(p + 12));
  }
  static D square_quad_sums(F a, F b) {
    const auto squares = [](__m128 v) {
      const D wide = _mm256_cvtps_pd(v);
      return _mm256_mul_pd(wide, wide);
    };
    return sum_quads(squares(_mm256_castps256_ps128(a)), squares(_mm256_extractf128_ps(a, 1)),
                     squares(_mm256_castps256_ps128(b)), squares(_mm256_extractf128_ps(b, 1)));
  }
  static void add_pair_quads(const F (&x)[2], const F (&y)[2], D (&sums)[4]) {
    D a[4], b[4];
    for (int i = 0; i < 2; ++i) {
      a[2 * i] = _mm256_cvtps_pd(_mm256_castps256_ps128(x[i]));
      a[2 * i + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(x[i], 1));
      b[2 * i] = _mm256_cvtps_pd(_mm256_castps256_ps128(y[i]));
      b[2 * i + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(y[i], 1));
    }
    const auto add = [](D& sum, const D(&p)[4], const D(&q)[4]) {
      sum = _mm256_add_pd(sum, sum_quads(_mm256_mul_pd(p[0], q[0]), _mm256_mul_pd(p[1], q[1]),
                                         _mm256_mul_pd(p[2], q[2]), _mm256_mul_pd(p[3], q[3])));
    };
    const D error[4] = {_mm256_sub_pd(a[0], b[0]), _mm256_sub_pd(a[1], b[1]), _mm256_sub_pd(a[2], b[2]),
                        _mm256_sub_pd(a[3], b[3])};
    add(sums[0], a, a);
    add(sums[1], error, error);
    add(sums[2], a, b);
    add(sums[3], b, b);
  }

  static I zero_i() { return _mm256_setzero_si256(); }
  static F abs(F v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v); }
  static F negate(F v) { return _mm256_xor_ps(_mm256_set1_ps(-0.0F), v); }
  static F add_above(F sum, F a, F h) { return _mm256_add_ps(sum, _mm256_and_ps(a, _mm256_cmp_ps(a, h, _CMP_GT_OQ))); }
  static void magnitudes_bf16(const std::uint16_t* p, F& even, F& odd) {
    const __m256i v =
        _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_set1_epi16(0x7FFF));
    even = _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
    odd = _mm256_castsi256_ps(_mm256_blend_epi16(v, _mm256_setzero_si256(), 0x55));
  }
  static I max_bits(I m, F v) { return max(m, _mm256_castps_si256(v)); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static std::int32_t max_lane(I v) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0b01'00'11'10));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0b10'11'00'01)));
  }
  static std::int32_t sum_lanes(I v) {
    __m128i m = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0b01'00'11'10));
    return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0b10'11'00'01)));
  }

  static I trits(F x, F h) {
    const __m256i above = _mm256_castps_si256(_mm256_cmp_ps(x, h, _CMP_GT_OQ));
    const __m256i below = _mm256_castps_si256(_mm256_cmp_ps(x, negate(h), _CMP_LT_OQ));
    return _mm256_sub_epi32(below, above);  // a mask is -1
  }
  static B trits_half(const std::uint16_t* p, std::uint16_t most) {
    const auto sixteen = [&](const std::uint16_t* q) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
      const __m256i above = _mm256_cmpgt_epi16(_mm256_and_si256(v, _mm256_set1_epi16(0x7FFF)),
                                               _mm256_set1_epi16(static_cast<std::int16_t>(most)));
      return _mm256_and_si256(above, _mm256_or_si256(_mm256_srai_epi16(v, 15), _mm256_set1_epi16(1)));
    };
    const __m256i bytes = _mm256_packs_epi16(sixteen(p), sixteen(p + 16));  // quads in the order 0 1 4 5 | 2 3 6 7
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7));
  }
  static I int2(F x, F s) {
    const F q = _mm256_min_ps(_mm256_max_ps(_mm256_div_ps(x, s), _mm256_set1_ps(-2.0F)), _mm256_set1_ps(1.0F));
    return _mm256_cvtps_epi32(q);  // to nearest even: the caller has set the rounding mode
  }
  static B narrow(I a, I b, I c, I d) { return _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)); }
  static void store_i8(std::int8_t* p, B v) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(v, order));
  }
  static void store_i2(std::uint8_t* p, B v) { store_quads(p, _mm256_add_epi8(v, _mm256_set1_epi8(1))); }
  static void store_s2(std::uint8_t* p, B v) { store_quads(p, _mm256_and_si256(v, _mm256_set1_epi8(3))); }
  static void store_u8(std::uint8_t* p, B v) {
    store_i8(reinterpret_cast<std::int8_t*>(p), _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
  }
  static void store_nibbles(std::uint8_t* p, B v) {
    const __m256i low = _mm256_and_si256(v, _mm256_set1_epi8(15));
    const __m256i pairs = _mm256_maddubs_epi16(low, _mm256_set1_epi16(0x1001));  // c0 + 16 c1
    const __m256i bytes = _mm256_packus_epi16(pairs, pairs);  // low lane: codes 0-3 8-11 16-19 24-27, twice
    const __m128i row = _mm_unpacklo_epi16(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), row);
  }

  static I widen(const std::int8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I widen_u8(const std::uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I invert(I v) { return _mm256_xor_si256(v, _mm256_set1_epi32(-1)); }
  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F table4(const float* values) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(values)); }
  static void decode4(const std::uint8_t* p, F table, F (&out)[4]) {
    const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14),
                  high = _mm256_add_epi32(low, _mm256_set1_epi32(16));
    for (int i = 0; i < 2; ++i) {
      std::int32_t bits = 0;
      __builtin_memcpy(&bits, p + 4 * i, sizeof bits);
      const __m256i codes = _mm256_set1_epi32(bits);
      out[2 * i] = _mm256_permutevar_ps(table, _mm256_srlv_epi32(codes, low));  // uses the low two bits
      out[2 * i + 1] = _mm256_permutevar_ps(table, _mm256_srlv_epi32(codes, high));
    }
  }

  static F load_f16(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_bf16(const std::uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static void store_f16(std::uint16_t* p, F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bf16(std::uint16_t* p, F v) {
    const __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i even = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i half =
        _mm256_blendv_epi8(_mm256_srli_epi32(even, 16), _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0b00'00'10'00);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static I load_i32(const std::int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_i32(std::int32_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }

  static F zero_f() { return _mm256_setzero_ps(); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  // vmaxps returns the second operand if one is NaN or both are 0.
  static F relu(F v) { return _mm256_max_ps(_mm256_setzero_ps(), v); }
  static F clamp(F v, F low, F high) { return _mm256_min_ps(_mm256_max_ps(v, low), high); }
  static I within(F v, F low, F high) {
    const F both = _mm256_and_ps(_mm256_cmp_ps(v, low, _CMP_GE_OQ), _mm256_cmp_ps(v, high, _CMP_LE_OQ));
    return _mm256_srli_epi32(_mm256_castps_si256(both), 31);
  }
  static I round(F v) { return _mm256_cvtps_epi32(v); }
  static F mul_add(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static constexpr bool kFused = true;  // whether mul_add rounds once

  using U = __m256i;
  using A = __m256i;
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kFlushSteps = 64;
  static U load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store_bytes(void* p, U v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  template <int kShift>
  static U codes(U v, int mask) {
    return _mm256_and_si256(kShift == 0 ? v : _mm256_srli_epi16(v, kShift), _mm256_set1_epi8(static_cast<char>(mask)));
  }
  static A zero_a() { return _mm256_setzero_si256(); }
  static A dot(A sums, U codes, U x) {  // inline assembly, because GCC 12 moves sums until some spill
    U products;
    asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(sums), "=&x"(products) : "x"(codes), "x"(x));
    return sums;
  }
  template <int kShift>
  static I total(A sums) {
    const __m256i pairs = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    return kShift == 0 ? pairs : _mm256_srai_epi32(pairs, kShift);
  }
  static constexpr int kDotBytesLess = 0;
  static I dot_bytes(I sums, U codes, U x) {  // widened, because int16 may not hold two products of bytes
    const I even = _mm256_and_si256(codes, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(codes, 8);
    const I x_even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), x_odd = _mm256_srai_epi16(x, 8);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(even, x_even));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(odd, x_odd));
  }
  static U broadcast4(const void* p) {  // volatile: each use loads again, which saves a register
    U v;
    asm volatile("vpbroadcastd %1, %0" : "=x"(v) : "m"(*static_cast<const char(*)[4]>(p)));
    return v;
  }
  template <int kShift>
  static F trit_floats(U v) {
    const __m256 table = _mm256_setr_ps(-1.0F, 0.0F, 1.0F, 0.0F, -1.0F, 0.0F, 1.0F, 0.0F);
    return _mm256_permutevar_ps(table, _mm256_srli_epi32(v, kShift));  // uses the low two bits
  }

 private:
  // Packs 32 codes of 0..3 into 8 bytes, four codes a byte.
  static void store_quads(std::uint8_t* p, B codes) {
    const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401));        // c0 + 4 c1
    const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0010'0001));      // + 16 (c2 + 4 c3)
    const __m256i bytes = _mm256_shuffle_epi8(quads, _mm256_set1_epi32(0x0C'08'04'00));  // low byte of each
    // low half: quads 0 2 4 6, high half: quads 1 3 5 7
    const __m128i row = _mm_unpacklo_epi8(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), row);
  }
};

}  // namespace
}  // namespace tern::simd
