// How many of each trit, eight bytes of codes at a time.
#include "runtime/count_trits.h"

#include <algorithm>
#include <cstring>

#include "format/format.h"

namespace tern {
namespace {

struct Count {
  std::int64_t minus = 0, plus = 0;
};

constexpr std::uint64_t kLow = 0x5555'5555'5555'5555U;

// Fields of two bits added up within each byte: at most 12.
std::uint64_t to_bytes(std::uint64_t fields) {
  constexpr std::uint64_t kPairs = 0x3333'3333'3333'3333U, kBytes = 0x0F0F'0F0F'0F0F'0F0FU;
  fields = (fields & kPairs) + (fields >> 2 & kPairs);
  return (fields & kBytes) + (fields >> 4 & kBytes);
}

// Code 0 is -1 and code 2 is +1, so with code 3 never there the high bits are the +1, and neither bit is a -1.
std::uint64_t pluses(std::uint64_t word) { return word >> 1 & kLow; }
std::uint64_t minuses(std::uint64_t word) { return ~(word | word >> 1) & kLow; }

std::uint64_t load_word(const std::uint8_t* codes, std::int64_t bytes) {
  std::uint64_t word = kLow;  // what is missing counts as zeros
  std::memcpy(&word, codes, static_cast<std::size_t>(bytes));
  return word;
}

// The sum of eight bytes, up to 255 of all.
std::int64_t sum_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kHalves = 0x00FF'00FF'00FF'00FFU;
  bytes = (bytes & kHalves) + (bytes >> 8 & kHalves);
  return static_cast<std::int64_t>(bytes * 0x0001'0001'0001'0001U >> 48);
}

Count count_bytes(const std::uint8_t* codes, std::int64_t bytes) {
  Count count;
  std::int64_t i = 0;
  // Four words side by side, which compilers make vectors of. Three of them fill a field of two bits, and a byte has
  // room for the twelve that three words may have in it 21 times.
  constexpr std::int64_t kWords = 4, kRounds = 21, kStep = 3 * 8 * kWords;
  while (i + kStep <= bytes) {
    std::uint64_t plus[kWords] = {}, minus[kWords] = {};
    for (std::int64_t round = 0; round < kRounds && i + kStep <= bytes; ++round, i += kStep) {
      std::uint64_t word[3][kWords];
      std::memcpy(word, codes + i, sizeof word);
      for (std::int64_t j = 0; j < kWords; ++j) {
        plus[j] += to_bytes(pluses(word[0][j]) + pluses(word[1][j]) + pluses(word[2][j]));
        minus[j] += to_bytes(minuses(word[0][j]) + minuses(word[1][j]) + minuses(word[2][j]));
      }
    }
    for (std::int64_t j = 0; j < kWords; ++j) {
      count.plus += sum_bytes(plus[j]);
      count.minus += sum_bytes(minus[j]);
    }
  }
  for (; i < bytes; i += 8) {
    const std::uint64_t word = load_word(codes + i, std::min<std::int64_t>(8, bytes - i));
    count.plus += sum_bytes(to_bytes(pluses(word)));
    count.minus += sum_bytes(to_bytes(minuses(word)));
  }
  return count;
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
