// Instruction peaks in assembler: a compiler would see that the products never change and compute them once.
#include "lab/compute_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern::lab {
namespace {

#if defined(__x86_64__)

// Multiplies into temporary register t, then adds it to sum i. Four temporaries in turn give independent chains, as in
// a kernel's tile.
#define TERN_INT8(i, t)                                                       \
  asm volatile("vpmaddubsw %2, %1, %%ymm" #t "\n\tvpaddw %%ymm" #t ", %0, %0" \
               : "+x"(s##i)                                                   \
               : "x"(a), "x"(b)                                               \
               : "xm"                                                         \
                 "m" #t)
#define TERN_VNNI(i) asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s##i) : "x"(a), "x"(b));
#define TERN_VNNI512(i) asm volatile("vpdpbusd %2, %1, %0" : "+v"(s##i) : "v"(a), "v"(b));
#define TERN_FMA(i) asm volatile("vfmadd231ps %2, %1, %0" : "+x"(s##i) : "x"(a), "x"(b));
#define TERN_FMA512(i) asm volatile("vfmadd231ps %2, %1, %0" : "+v"(s##i) : "v"(a), "v"(b));
#define TERN_TWELVE(WORD) \
  WORD(0) WORD(1) WORD(2) WORD(3) WORD(4) WORD(5) WORD(6) WORD(7) WORD(8) WORD(9) WORD(10) WORD(11)

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
__attribute__((target("avx2,avxvnni"))) void vnni_256(std::int64_t steps) {
  const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(1);
  __m256i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_TWELVE(TERN_VNNI)
  }
}
__attribute__((target("avx512f"))) void vnni_512(std::int64_t steps) {
  const __m512i a = _mm512_set1_epi32(0x01010101), b = a;
  __m512i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_TWELVE(TERN_VNNI512)
  }
}

// Four tiles of sums from two tiles of activations and two of codes, as in a kernel.
void amx(std::int64_t steps) {
  struct {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  std::uint8_t data[16 * 64];
  for (std::size_t i = 0; i < sizeof data; ++i) data[i] = static_cast<std::uint8_t>(i * 7 % 3);
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  asm volatile(
      "tileloadd (%0,%1,1), %%tmm4\n\ttileloadd (%0,%1,1), %%tmm5\n\t"
      "tileloadd (%0,%1,1), %%tmm6\n\ttileloadd (%0,%1,1), %%tmm7"
      :
      : "r"(data), "r"(std::int64_t{64})
      : "memory");
  for (std::int64_t i = 0; i < steps; ++i)
    asm volatile(
        "tdpbsud %tmm6, %tmm4, %tmm0\n\ttdpbsud %tmm7, %tmm4, %tmm1\n\t"
        "tdpbsud %tmm6, %tmm5, %tmm2\n\ttdpbsud %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
}
__attribute__((target("avx2,fma"))) void fma_256(std::int64_t steps) {
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(0.25F);
  __m256 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_TWELVE(TERN_FMA)
  }
}
__attribute__((target("avx512f"))) void fma_512(std::int64_t steps) {
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(0.25F);
  __m512 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  for (std::int64_t i = 0; i < steps; ++i) {
    TERN_TWELVE(TERN_FMA512)
  }
}

#undef TERN_INT8
#undef TERN_VNNI
#undef TERN_VNNI512
#undef TERN_FMA
#undef TERN_FMA512
#undef TERN_TWELVE

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

std::vector<ComputeLoop> vnni_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<ComputeLoop> loops;
#if defined(__x86_64__)
  if (capabilities.has(Capability::x86_avx_vnni)) loops.push_back({"vpdpbusd.avx2.12_sums", 12 * 32 * 2, vnni_256});
  if (capabilities.has(Capability::x86_avx512vnni)) loops.push_back({"vpdpbusd.avx512.12_sums", 12 * 64 * 2, vnni_512});
#endif
  return loops;
}

std::vector<ComputeLoop> amx_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<ComputeLoop> loops;
#if defined(__x86_64__)
  if (capabilities.has(Capability::x86_amx_int8)) loops.push_back({"tdpbsud.4_sums", 4 * 16 * 16 * 64 * 2, amx});
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
