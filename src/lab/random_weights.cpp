// Weights from a counter-based hash: the sum of four 16-bit uniforms is close enough to a Gaussian for a bench.
#include "lab/random_weights.h"

#include "base/elements.h"
#include "base/errors.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

// Mixes a counter into 64 well-spread bits: multiply and shift by the constants of Steele, Lea and Flood's SplitMix.
inline std::uint64_t mix(std::uint64_t z) {
  z *= 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

inline float weight_of(std::uint64_t bits) {
  const auto sum =
      static_cast<std::int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48)) -
      2 * 0xFFFF;
  // Four uniforms of width 65536 have the standard deviation 65536/sqrt(3).
  return static_cast<float>(sum) * (0.02F * 1.7320508F / 65536.0F);
}

}  // namespace

float random_weight(std::uint64_t seed, std::int64_t index) {
  return weight_of(mix(mix(seed + 1) + static_cast<std::uint64_t>(index)));
}

void fill_random_weights(const Threads& threads, std::uint64_t seed, DType dtype, void* data, std::int64_t count) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  const std::uint64_t start = mix(seed + 1);
  WorkQueue pieces(count, kPiece);
  threads.run(threads.count(), [&](int) {
    for (std::int64_t begin = 0, end = 0; pieces.next(begin, end);)
      for (std::int64_t i = begin; i < end; ++i)
        write_element(data, dtype, i, weight_of(mix(start + static_cast<std::uint64_t>(i))));
  });
}

Status fill_random_weights(const Context& context, std::uint64_t seed, DType dtype, void* data, std::int64_t count) {
  const Threads& threads = context.state().threads;
  if (context.device().id.kind == DeviceKind::cpu) {
    fill_random_weights(threads, seed, dtype, data, count);
    return {};
  }
  TERN_ASSIGN(host, Tensor::allocate(host_memory(), dtype, {count}, "random weights"));
  fill_random_weights(threads, seed, dtype, host.data(), count);
  TERN_RETURN_IF_ERROR(context.copy({data, dtype, {count}, context.device().id}, host.view(), context.stream()));
  return context.stream().synchronize();
}

}  // namespace tern::lab
