// The words of the formats. Reads, writes and checks rows of codes, one code at a time: the slow truth that kernels are
// compared with.
#include "format/format.h"

#include <algorithm>
#include <cstring>

#include "base/words.h"

namespace tern {
namespace {

constexpr auto kFormatWords = std::to_array<std::pair<Format, std::string_view>>({
#define TERN_WORD(word, codes, ...) {Format::word, #word},
    TERN_FORMAT_ROWS(TERN_WORD)
#undef TERN_WORD
});

// The kCount codes from `at` on, which share a byte. After the last of k they are 0, the padding of every format.
template <std::size_t kCount>
std::array<int, kCount> codes_of_byte(const std::int8_t* codes, std::int64_t at, std::int64_t k) {
  std::array<int, kCount> of{};
  for (std::size_t j = 0; j < kCount && at + static_cast<std::int64_t>(j) < k; ++j)
    of[j] = codes[at + static_cast<std::int64_t>(j)];
  return of;
}

// A lower bound on how many codes at the start of a row are valid; checks many codes at once.
std::int64_t surely_valid(Format format, CodeRange range, const std::uint8_t* row, std::int64_t k) {
  std::int64_t at = 0;
  if (format == Format::i2) {
    for (std::uint64_t word = 0; at + 32 <= k; at += 32) {
      std::memcpy(&word, row + at / 4, sizeof word);
      if ((word & (word >> 1) & 0x5555'5555'5555'5555U) != 0) break;  // both bits of a pair, as i2::has_code3
    }
    while (at + 4 <= k && !i2::has_code3(row[at / 4])) at += 4;
  }
  if (format == Format::b3)
    while (at + 5 <= k && b3::valid(row[at / 5])) at += 5;
  if (format == Format::i8)
    for (; at + 64 <= k; at += 64) {
      int low = 0, high = 0;
      for (std::int64_t i = at; i < at + 64; ++i) {
        low = std::min<int>(low, static_cast<std::int8_t>(row[i]));
        high = std::max<int>(high, static_cast<std::int8_t>(row[i]));
      }
      if (low < range.min || high > range.max) break;
    }
  return at;
}

}  // namespace

std::string_view name(Format format) { return word_of(kFormatWords, format); }
Result<Format> parse_format(std::string_view word) { return parse_word(kFormatWords, "format", word); }

std::string holders_of(Scheme scheme) {
  std::vector<std::string_view> words;  // formats that pack come first
  for (const bool packs : {true, false})
    for (const Format format : kFormats)
      if (holds(format, scheme) && (codes_per_byte(format) > 1) == packs) words.push_back(name(format));
  return listed(words, " or ");
}

std::vector<Format> affine_formats() {
  std::vector<Format> formats;
  std::ranges::copy_if(kFormats, std::back_inserter(formats), is_affine);
  std::ranges::sort(formats, {}, [](Format f) { return 2 * codes_per_byte(f) + (is_unsigned(f) ? 1 : 0); });
  return formats;
}

std::string affine_holders() {
  std::vector<std::string_view> words;
  for (const Format format : affine_formats()) words.push_back(name(format));
  return listed(words, " or ");
}

int read_code(Format format, const std::uint8_t* row, std::int64_t index) {
  switch (format) {
#define TERN_READ(word, codes, ...)                                                \
  case Format::word: {                                                             \
    constexpr std::int64_t kPerByte = codes_per_byte(Format::word);                \
    return codes::read(row[index / kPerByte], static_cast<int>(index % kPerByte)); \
  }
    TERN_FORMAT_ROWS(TERN_READ)
#undef TERN_READ
  }
  return 0;
}

void read_codes(Format format, const std::uint8_t* row, std::int64_t first, std::int64_t n, std::int8_t* codes) {
  std::int64_t i = 0;
  if (format == Format::b3) {  // whole bytes; read_code() reads the codes before and after them
    for (; i < n && (first + i) % 5 != 0; ++i) codes[i] = static_cast<std::int8_t>(read_code(format, row, first + i));
    for (; i + 5 <= n; i += 5) std::memcpy(codes + i, b3::kCodes[row[(first + i) / 5]].data(), 5);
  }
  for (; i < n; ++i) codes[i] = static_cast<std::int8_t>(read_code(format, row, first + i));
}

void pack_row(Format format, const std::int8_t* codes, std::int64_t k, std::uint8_t* row) {
  switch (format) {
#define TERN_PACK(word, of, ...)                                                                            \
  case Format::word: {                                                                                      \
    constexpr std::size_t kPerByte = codes_per_byte(Format::word);                                          \
    for (std::int64_t i = 0; i < k; i += kPerByte) *row++ = of::pack(codes_of_byte<kPerByte>(codes, i, k)); \
    return;                                                                                                 \
  }
    TERN_FORMAT_ROWS(TERN_PACK)
#undef TERN_PACK
  }
}

std::int64_t first_invalid_code(Format format, Scheme scheme, const std::uint8_t* row, std::int64_t k) {
  const CodeRange range = code_range(scheme);
  const bool every_code_is_valid = format == Format::s2 && scheme == Scheme::int2;
  for (std::int64_t i = every_code_is_valid ? k : surely_valid(format, range, row, k); i < k; ++i) {
    const int code = read_code(format, row, i);
    if (code < range.min || code > range.max) return i;
  }
  for (std::int64_t i = k; i < codes_per_byte(format) * row_bytes(format, k); ++i)
    if (read_code(format, row, i) != 0) return k;
  return -1;
}

}  // namespace tern
