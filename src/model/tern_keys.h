// The metadata keys by which a file that Tern wrote describes itself; docs/formats.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fmt.h"
#include "tern/layout.h"
#include "tern/metadata.h"

namespace tern::keys {

inline constexpr std::string_view kPrefix = "tern.";
inline constexpr std::string_view kVersion = "tern.version";
inline constexpr std::string_view kFormat = "tern.format";             // name(Layout)
inline constexpr std::string_view kScheme = "tern.scheme";             // name(Scheme)
inline constexpr std::string_view kGranularity = "tern.granularity";   // name(Granularity)
inline constexpr std::string_view kMatch = "tern.match";               // "bitnet"
inline constexpr std::string_view kWeightScale = "tern.weight_scale";  // name(WeightScale), with hf_packed

inline std::string shape_of(std::string_view tensor) { return fmt::format("tern.shape.{}", tensor); }  // "NxK"
inline std::string codes_of(std::string_view tensor) { return fmt::format("tern.codes.{}", tensor); }  // "s8", "s4"
inline std::string checksum_of(std::string_view tensor) { return fmt::format("tern.checksum.{}", tensor); }
inline std::string granularity_of(std::string_view tensor) { return fmt::format("tern.granularity.{}", tensor); }
inline std::string tiles_of(std::int64_t n, std::int64_t k) { return fmt::format("tern.tiles.{}x{}", n, k); }

inline std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

// The text of a key, or null.
inline const std::string* text(const Metadata& metadata, std::string_view key) {
  const MetaValue* value = find_key(metadata, key);
  return value == nullptr ? nullptr : value->text();
}

// "8960x2560", "160,96,32": exactly as many numbers as requested, with `between` between them.
inline bool parse_numbers(std::string_view text, char between, std::int64_t* numbers, int count) {
  for (int i = 0; i < count; ++i) {
    std::size_t digits = 0;
    std::int64_t value = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 18)
      value = value * 10 + (text[digits++] - '0');
    if (digits == 0) return false;
    numbers[i] = value;
    text.remove_prefix(digits);
    if (i + 1 == count) return text.empty();
    if (text.empty() || text.front() != between) return false;
    text.remove_prefix(1);
  }
  return false;
}

}  // namespace tern::keys
