// Weights for tests: random ones as checkpoints have them, and the awkward ones that kernels get wrong.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace tern::lab {

// A small generator whose numbers are the same everywhere (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }
  // Nearly Gaussian, standard deviation 1: the sum of four uniforms.
  float gaussian() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(next() >> 11) * 0x1p-53;
    return static_cast<float>((sum - 2.0) * 1.7320508);
  }

 private:
  std::uint64_t state_;
};

enum class Pattern { gaussian, denormal, equal, outlier, zeros, threshold, order };
inline constexpr std::array kPatterns = {Pattern::gaussian, Pattern::denormal,  Pattern::equal, Pattern::outlier,
                                         Pattern::zeros,    Pattern::threshold, Pattern::order};

constexpr std::string_view name(Pattern pattern) {
  constexpr std::array<std::string_view, 7> kNames = {"gaussian", "denormal",  "equal", "outlier",
                                                      "zeros",    "threshold", "order"};
  return kNames[static_cast<std::size_t>(pattern)];
}

inline void fill_weights(Pattern pattern, Random& random, float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) switch (pattern) {
      case Pattern::gaussian: x[i] = 0.02F * random.gaussian(); break;
      case Pattern::denormal: x[i] = std::ldexp(random.gaussian(), -140); break;  // and the lower bounds of scales
      case Pattern::equal: x[i] = -0.75F; break;
      case Pattern::outlier: x[i] = i == n / 2 ? 3e38F : random.gaussian(); break;
      case Pattern::zeros: x[i] = random.below(2) == 0 ? 0.0F : -0.0F; break;
      // Neighbours of 1/2, with a few 1s: for absmax the threshold itself and one step on either side of it.
      case Pattern::threshold:
        x[i] = i % 64 == 0 ? 1.0F : std::nextafter(0.5F, random.below(2) == 0 ? 0.0F : 1.0F);
        if (random.below(3) == 0) x[i] = 0.5F;
        if (random.below(2) == 0) x[i] = -x[i];
        break;
      // Sums that differ when their order is wrong (random data hardly ever shows it).
      case Pattern::order: x[i] = i % 1024 == 0 ? 1024.0F : i % 1024 == 1 ? 0x1p-14F : 0x1p-45F; break;
    }
  if (pattern == Pattern::order)  // permuted, so that large values reach every lane
    for (std::int64_t i = n - 1; i > 0; --i) std::swap(x[i], x[random.below(i + 1)]);
}

}  // namespace tern::lab
