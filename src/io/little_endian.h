// Little-endian integers in byte strings, at any alignment; texts and floats as bytes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

// The caller has checked that the bytes are there.
template <std::unsigned_integral T>
T read_le(std::span<const std::uint8_t> bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>((std::uint64_t{value} << 8) | bytes[offset + i]);
  return value;
}

template <std::unsigned_integral T>
void append_le(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes += static_cast<char>(static_cast<std::uint8_t>(std::uint64_t{value} >> (8 * i)));
}

// A text as the bytes it is made of, and back.
inline std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Floats as the bytes they are made of.
inline std::span<const std::uint8_t> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}
inline void append_bytes(std::vector<std::uint8_t>& to, std::span<const float> values) {
  const auto bytes = bytes_of(values);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace tern
