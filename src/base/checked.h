// Integer arithmetic that reports overflow, and rounding up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tern {

inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
constexpr std::size_t round_up(std::size_t a, std::size_t multiple) { return (a + multiple - 1) / multiple * multiple; }

}  // namespace tern
