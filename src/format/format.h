// Properties of the formats: how many codes a byte holds, how long a row is, and which codes are valid.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "format/formats.h"

namespace tern {

struct CodeRange {
  int min = 0;
  int max = 0;
};

// The codes a scheme can produce.
constexpr CodeRange code_range(Scheme scheme) { return scheme == Scheme::int2 ? CodeRange{-2, 1} : CodeRange{-1, 1}; }

constexpr FormatFacts facts_of(Format format) {
  switch (format) {
#define TERN_FACTS_OF(word, codes, ...) \
  case Format::word: return {__VA_ARGS__};
    TERN_FORMAT_ROWS(TERN_FACTS_OF)
#undef TERN_FACTS_OF
  }
  return {};
}

#define TERN_ONE_OF(word, codes, ...) Format::word,
inline constexpr Format kFormats[] = {TERN_FORMAT_ROWS(TERN_ONE_OF)};
#undef TERN_ONE_OF

// Whether a format can hold a scheme's codes as the library stores them: trits in i2 and b3, -2..1 in s2, either in i8.
constexpr bool holds(Format format, Scheme scheme) {
  return scheme == Scheme::int2 ? facts_of(format).int2 : facts_of(format).trits;
}
// The formats that can hold a scheme, for error messages.
std::string holders_of(Scheme scheme);

// Whether affine quantization packs to a format, and whether its codes are then unsigned.
constexpr bool is_affine(Format format) { return facts_of(format).affine; }
constexpr bool is_unsigned(Format format) { return facts_of(format).is_unsigned; }

// The formats of affine quantization, wide codes first, signed ones before unsigned ones; and the same for error
// messages.
std::vector<Format> affine_formats();
std::string affine_holders();

constexpr int codes_per_byte(Format format) { return facts_of(format).codes_per_byte; }

// Bytes of a row of k codes. Rows never share a byte.
constexpr std::int64_t row_bytes(Format format, std::int64_t k) {
  const std::int64_t per_byte = codes_per_byte(format);
  return k / per_byte + (k % per_byte != 0 ? 1 : 0);
}

// Finite and above 0. Tests the bits, so that a caller's flush mode cannot make a small scale look like 0.
constexpr bool valid_scale(float scale) { return std::bit_cast<std::uint32_t>(scale) - 1U < 0x7F7FFFFFU; }
static_assert(valid_scale(1e-45F) && valid_scale(3.4e38F) && !valid_scale(0.0F) && !valid_scale(-1.0F));

constexpr DType code_dtype(Format format) { return facts_of(format).dtype; }

// All codes of an affine format.
constexpr CodeRange code_range(Format format) {
  const int bits = 8 / codes_per_byte(format);
  return is_unsigned(format) ? CodeRange{0, (1 << bits) - 1} : CodeRange{-(1 << (bits - 1)), (1 << (bits - 1)) - 1};
}
static_assert(code_range(Format::s8).min == -128 && code_range(Format::u4).max == 15 &&
              code_range(Format::s2).max == 1);

// Reads code `index` of a row in any format, without checking that it is valid. An i2 code 3 reads as 2, and so does
// every code of an invalid b3 byte.
int read_code(Format format, const std::uint8_t* row, std::int64_t index);

// Reads codes first .. first + n - 1 of a row as int8, with the values of read_code(). A u8 code above 127 keeps its
// byte.
void read_codes(Format format, const std::uint8_t* row, std::int64_t first, std::int64_t n, std::int8_t* codes);

// Writes a row of k codes from int8, including the padding. The codes must be valid; a u8 code above 127 is given as
// its byte.
void pack_row(Format format, const std::int8_t* codes, std::int64_t k, std::uint8_t* row);

// The index of the first code of a row that the scheme cannot produce; k if only the padding is wrong; -1 if all is
// valid.
std::int64_t first_invalid_code(Format format, Scheme scheme, const std::uint8_t* row, std::int64_t k);

}  // namespace tern
