// Counts trits, sixteen bytes of codes at a time.
#include "plan/count_trits.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "format/format.h"

namespace tern {
namespace {

struct Count {
  std::int64_t minus = 0, plus = 0;
};

using Words = std::uint64_t __attribute__((vector_size(16)));  // every machine has these vectors
constexpr std::uint64_t kLow = 0x5555'5555'5555'5555U;

// Adds up the four 2-bit fields of each byte: at most 12.
template <class W>
W to_bytes(W fields) {
  constexpr std::uint64_t kPairs = 0x3333'3333'3333'3333U, kBytes = 0x0F0F'0F0F'0F0F'0F0FU;
  fields = (fields & kPairs) + (fields >> 2 & kPairs);
  return (fields & kBytes) + (fields >> 4 & kBytes);
}

// The sum of eight bytes.
std::int64_t sum_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kHalves = 0x00FF'00FF'00FF'00FFU;
  bytes = (bytes & kHalves) + (bytes >> 8 & kHalves);
  return static_cast<std::int64_t>(bytes * 0x0001'0001'0001'0001U >> 48);
}

// Code 1 is trit 0 and code 2 is +1. There is no code 3, so a set low bit is a zero (padding included) and a set high
// bit is a +1.
Count count_bytes(const std::uint8_t* codes, std::int64_t bytes) {
  std::int64_t i = 0, zeros = 0, pluses = 0;
  // A 2-bit field holds the sum of three words (at most 3). Each round adds the four fields of a byte, at most 12, to
  // its counter: at most 252 after 21 rounds.
  constexpr std::int64_t kRounds = 21, kRoundBytes = 3 * sizeof(Words);
  while (i + kRoundBytes <= bytes) {
    Words zero = {}, plus = {};
    for (std::int64_t round = 0; round < kRounds && i + kRoundBytes <= bytes; ++round, i += kRoundBytes) {
      Words word[3];
      std::memcpy(word, codes + i, sizeof word);
      zero += to_bytes((word[0] & kLow) + (word[1] & kLow) + (word[2] & kLow));
      plus += to_bytes((word[0] >> 1 & kLow) + (word[1] >> 1 & kLow) + (word[2] >> 1 & kLow));
    }
    zeros += sum_bytes(zero[0]) + sum_bytes(zero[1]);
    pluses += sum_bytes(plus[0]) + sum_bytes(plus[1]);
  }
  std::int64_t counted = 4 * i;
  for (; i < bytes; i += 8, counted += 32) {
    std::uint64_t word = kLow;  // missing bytes count as zeros
    std::memcpy(&word, codes + i, static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - i)));
    zeros += sum_bytes(to_bytes(word & kLow));
    pluses += sum_bytes(to_bytes(word >> 1 & kLow));
  }
  return {.minus = counted - zeros - pluses, .plus = pluses};
}

}  // namespace

std::array<std::int64_t, 3> count_trits(const std::uint8_t* codes, std::int64_t rows, std::int64_t k) {
  const Count count = count_bytes(codes, rows * row_bytes(Format::i2, k));
  return {count.minus, rows * k - count.minus - count.plus, count.plus};
}

std::int64_t count_signs(const std::uint8_t* row, std::int64_t first, std::int64_t n) {
  std::int64_t count = 0;
  for (; n > 0 && first % 4 != 0; ++first, --n) count += read_code(Format::i2, row, first) != 0 ? 1 : 0;
  const Count whole = count_bytes(row + first / 4, n / 4);
  count += whole.minus + whole.plus;
  for (std::int64_t i = first + n / 4 * 4; i < first + n; ++i) count += read_code(Format::i2, row, i) != 0 ? 1 : 0;
  return count;
}

}  // namespace tern
