// Instruction peaks in assembler: a compiler would see that the products never change and compute them once.
#include "lab/compute_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern::lab {
namespace {

#if defined(__x86_64__)

// A product into one of four registers in turn, then added to sum i: independent chains, as in a kernel's tile.
#define TERN_INT8(i, t)                                                       \
  asm volatile("vpmaddubsw %2, %1, %%ymm" #t "\n\tvpaddw %%ymm" #t ", %0, %0" \
               : "+x"(s##i)                                                   \
               : "x"(a), "x"(b)                                               \
               : "xm"                                                         \
                 "m" #t)
#define TERN_FMA(i) asm volatile("vfmadd231ps %2, %1, %0" : "+x"(s##i) : "x"(a), "x"(b))
#define TERN_FMA512(i) asm volatile("vfmadd231ps %2, %1, %0" : "+v"(s##i) : "v"(a), "v"(b))

__attribute__((target("avx2"))) void int8_eight_sums(std::int64_t steps) {
  const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(1);
  __m256i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_INT8(0, 12);
    TERN_INT8(1, 13);
    TERN_INT8(2, 14);
    TERN_INT8(3, 15);
    TERN_INT8(4, 12);
    TERN_INT8(5, 13);
    TERN_INT8(6, 14);
    TERN_INT8(7, 15);
  }
}
__attribute__((target("avx2"))) void int8_four_sums(std::int64_t steps) {
  const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(1);
  __m256i s0 = a, s1 = a, s2 = a, s3 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_INT8(0, 8);
    TERN_INT8(1, 9);
    TERN_INT8(2, 10);
    TERN_INT8(3, 11);
    TERN_INT8(0, 12);
    TERN_INT8(1, 13);
    TERN_INT8(2, 14);
    TERN_INT8(3, 15);
  }
}
__attribute__((target("avx2,fma"))) void fma_256(std::int64_t steps) {
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(0.25F);
  __m256 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_FMA(0);
    TERN_FMA(1);
    TERN_FMA(2);
    TERN_FMA(3);
    TERN_FMA(4);
    TERN_FMA(5);
    TERN_FMA(6);
    TERN_FMA(7);
    TERN_FMA(8);
    TERN_FMA(9);
    TERN_FMA(10);
    TERN_FMA(11);
  }
}
__attribute__((target("avx512f"))) void fma_512(std::int64_t steps) {
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(0.25F);
  __m512 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_FMA512(0);
    TERN_FMA512(1);
    TERN_FMA512(2);
    TERN_FMA512(3);
    TERN_FMA512(4);
    TERN_FMA512(5);
    TERN_FMA512(6);
    TERN_FMA512(7);
    TERN_FMA512(8);
    TERN_FMA512(9);
    TERN_FMA512(10);
    TERN_FMA512(11);
  }
}

#undef TERN_INT8
#undef TERN_FMA
#undef TERN_FMA512

#endif

}  // namespace

std::vector<ComputeLoop> int8_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<ComputeLoop> loops;
#if defined(__x86_64__)
  if (capabilities.has(Capability::x86_avx2)) {
    loops.push_back({"maddubs_add.avx2.8_sums", 8 * 32 * 2, int8_eight_sums});
    loops.push_back({"maddubs_add.avx2.4_sums", 8 * 32 * 2, int8_four_sums});
  }
#endif
  return loops;
}

std::vector<ComputeLoop> f32_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<ComputeLoop> loops;
#if defined(__x86_64__)
  if (capabilities.has(Capability::x86_avx2)) loops.push_back({"fma.avx2.12_sums", 12 * 8 * 2, fma_256});
  if (capabilities.has(Capability::x86_avx512)) loops.push_back({"fma.avx512.12_sums", 12 * 16 * 2, fma_512});
#endif
  return loops;
}

}  // namespace tern::lab
