// Tables of (value, word) and the two look-ups every enum of the library shares.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/errors.h"

namespace tern {

// "a, b, c": the list of known words in an error message. What stands before the last may be " or ".
template <class Words>
std::string listed(const Words& words, std::string_view before_last = ", ") {
  std::string text;
  for (auto word = std::begin(words); word != std::end(words); ++word) {
    if (!text.empty()) text += std::next(word) == std::end(words) ? before_last : ", ";
    text += *word;
  }
  return text;
}

// All of `text` as a decimal number, or nothing.
inline std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Enum, std::size_t N>
using WordTable = std::array<std::pair<Enum, std::string_view>, N>;

template <class Enum, std::size_t N>
std::string_view word_of(const WordTable<Enum, N>& table, Enum value) {
  for (const auto& [v, word] : table)
    if (v == value) return word;
  return "unknown";
}

template <class Enum, std::size_t N>
Result<Enum> parse_word(const WordTable<Enum, N>& table, std::string_view kind, std::string_view text) {
  std::array<std::string_view, N> known;
  for (std::size_t i = 0; i < N; ++i) {
    if (table[i].second == text) return table[i].first;
    known[i] = table[i].second;
  }
  return error(Code::invalid_argument, kind, "'{}' is not one of {}", printable(text), listed(known));
}

}  // namespace tern
