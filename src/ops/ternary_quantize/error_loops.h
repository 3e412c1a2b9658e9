// SourceLoops::error_sums for any set of vector operations: the sums that tell what n values lose by becoming trits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::ternary_quantize {
namespace {

// Elements go to 32 f32 lanes in turn. After sixteen additions each quad of lanes is added to one of eight f64 lanes,
// which are folded at the end. So the order, and the bits, are the same for every vector width.
template <class S>
struct ErrorLoops {
  using F = typename S::F;
  using D = typename S::D;

  static constexpr std::size_t kLanes = 32, kWideLanes = kLanes / 4;
  static constexpr std::size_t kVectors = kLanes / S::kF, kWide = kWideLanes / S::kD;
  static constexpr std::size_t kBlock = 16 * kLanes;

  struct Wide {
    D part[kWide];
    Wide() {
      for (D& d : part) d = S::zero_d();
    }
    // The lanes must not be negative.
    void add(const F (&lanes)[kVectors]) {
      float v[kLanes];
      for (std::size_t i = 0; i < kVectors; ++i) S::store(v + i * S::kF, lanes[i]);
      for (std::size_t i = 0; i < kWide; ++i) part[i] = S::add(part[i], S::abs_quad_sums(v + i * 4 * S::kD));
    }
    [[nodiscard]] double total() const {
      double lane[kWideLanes];
      for (std::size_t i = 0; i < kWide; ++i) S::store(lane + i * S::kD, part[i]);
      for (std::size_t half = kWideLanes / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
      return lane[0];
    }
  };

  using Lanes = F[kVectors];

  // load(p, a) gives the magnitudes of 32 elements as f32, always in the same order.
  template <class T, class Load>
  static void sums(const T* x, std::size_t n, float threshold, double* of, Load load) {
    const F h = S::set1(threshold);
    Wide squares, above;
    for (std::size_t at = 0; at < n;) {
      F xx[kVectors], big[kVectors];
      for (std::size_t i = 0; i < kVectors; ++i) xx[i] = big[i] = S::zero_f();
      const auto step = [&](const T* p) {
        Lanes a;
        load(p, a);
        for (std::size_t i = 0; i < kVectors; ++i) {
          xx[i] = S::add(xx[i], S::mul(a[i], a[i]));
          big[i] = S::add_above(big[i], a[i], h);
        }
      };
      const std::size_t end = n - at < kBlock ? n : at + kBlock;
      for (; at + kLanes <= end; at += kLanes) step(x + at);
      if (at < end) {  // padding with zeros adds nothing
        T rest[kLanes] = {};
        __builtin_memcpy(rest, x + at, (end - at) * sizeof(T));
        step(rest);
        at = end;
      }
      squares.add(xx);
      above.add(big);
    }
    of[0] = squares.total();
    of[1] = above.total();
  }
};

}  // namespace
}  // namespace tern::ternary_quantize
