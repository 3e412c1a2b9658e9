// Copies from the first-level cache to memory with non-temporal stores, for any SIMD instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::affine {
namespace {

template <class S>
struct Streaming {
  static void copy(const void* from, std::int64_t bytes, void* to) {
    constexpr std::size_t kBytes = S::kF * sizeof(float);
    const auto* x = static_cast<const std::uint8_t*>(from);
    auto* y = static_cast<std::uint8_t*>(to);
    const auto n = static_cast<std::size_t>(bytes);
    std::size_t at = (kBytes - reinterpret_cast<std::uintptr_t>(y) % kBytes) % kBytes;  // S::stream() must be aligned
    if (at > n) at = n;
    __builtin_memcpy(y, x, at);
    for (; at + kBytes <= n; at += kBytes)
      S::stream(reinterpret_cast<float*>(y + at), S::load(reinterpret_cast<const float*>(x + at)));
    __builtin_memcpy(y + at, x + at, n - at);
  }
};

}  // namespace
}  // namespace tern::affine
