// Instantiates the bandwidth loops for every vector width the compiler knows, and picks those the processor has.
#include "lab/limits_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern::lab {
namespace {

constexpr std::size_t kLineBytes = 64;

// Computes the address as an integer, because it may be after the end of the buffer: a prefetch may go there, pointer
// arithmetic may not.
inline void prefetch(const std::byte* from, std::size_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + ahead));  // NOLINT
}

#if defined(__x86_64__)

// Non-temporal stores are weakly ordered, so a pass ends when they have left the core.
inline void finish_stores() { _mm_sfence(); }

namespace sse2 {
#define TERN_LOOP_TARGET
#define TERN_LOOP_BYTES 16
#define TERN_LOOP_NAME "sse2"
#define TERN_LOOP_STORE(pointer, vector) _mm_stream_si128(reinterpret_cast<__m128i*>(pointer), (__m128i)(vector))
#include "lab/limits_loops.inc"
}  // namespace sse2

namespace avx2 {
#define TERN_LOOP_TARGET __attribute__((target("avx2")))
#define TERN_LOOP_BYTES 32
#define TERN_LOOP_NAME "avx2"
#define TERN_LOOP_STORE(pointer, vector) _mm256_stream_si256(reinterpret_cast<__m256i*>(pointer), (__m256i)(vector))
#include "lab/limits_loops.inc"
}  // namespace avx2

namespace avx512 {
#define TERN_LOOP_TARGET __attribute__((target("avx512f")))
#define TERN_LOOP_BYTES 64
#define TERN_LOOP_NAME "avx512"
#define TERN_LOOP_STORE(pointer, vector) _mm512_stream_si512(reinterpret_cast<__m512i*>(pointer), (__m512i)(vector))
#include "lab/limits_loops.inc"
}  // namespace avx512

#else

inline void finish_stores() {}

namespace portable {
#define TERN_LOOP_TARGET
#define TERN_LOOP_BYTES 16
#define TERN_LOOP_NAME "vector16"
#define TERN_LOOP_STORE(pointer, vector) (*(pointer) = (vector))
#include "lab/limits_loops.inc"
}  // namespace portable

#endif

}  // namespace

std::vector<ReadLoop> read_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<ReadLoop> loops;
  const auto add = [&loops](const auto& more) { loops.insert(loops.end(), std::begin(more), std::end(more)); };
#if defined(__x86_64__)
  add(sse2::kReadLoops);
  if (capabilities.has(Capability::x86_avx2)) add(avx2::kReadLoops);
  if (capabilities.has(Capability::x86_avx512)) add(avx512::kReadLoops);
#else
  add(portable::kReadLoops);
#endif
  return loops;
}

std::vector<WriteLoop> write_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<WriteLoop> loops;
  const auto add = [&loops](const auto& more) { loops.insert(loops.end(), std::begin(more), std::end(more)); };
#if defined(__x86_64__)
  add(sse2::kWriteLoops);
  if (capabilities.has(Capability::x86_avx2)) add(avx2::kWriteLoops);
  if (capabilities.has(Capability::x86_avx512)) add(avx512::kWriteLoops);
#else
  add(portable::kWriteLoops);
#endif
  return loops;
}

std::vector<CopyLoop> copy_loops([[maybe_unused]] Capabilities capabilities) {
  std::vector<CopyLoop> loops;
  const auto add = [&loops](const auto& more) { loops.insert(loops.end(), std::begin(more), std::end(more)); };
#if defined(__x86_64__)
  add(sse2::kCopyLoops);
  if (capabilities.has(Capability::x86_avx2)) add(avx2::kCopyLoops);
  if (capabilities.has(Capability::x86_avx512)) add(avx512::kCopyLoops);
#else
  add(portable::kCopyLoops);
#endif
  return loops;
}

}  // namespace tern::lab
