// Tables of (value, word) and the two look-ups every enum of the library shares.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "base/errors.h"

namespace tern {

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
  std::string known;
  for (const auto& [value, word] : table) {
    if (word == text) return value;
    known += known.empty() ? "" : ", ";
    known += word;
  }
  return error(Code::invalid_argument, kind, "'{}' is not one of {}", text, known);
}

}  // namespace tern
