// Converts between i2 and layouts whose bytes hold four codes that are far apart in the matrix. A word of four such
// bytes is dealt to four streams of i2 bytes, one byte each, and gathered again.
//
//     word i     byte 3  byte 2  byte 1  byte 0        four columns, side by side
//     bits 2j on of each byte become byte i of stream j, byte 0 in the low bits
//
// This is a 4 x 4 transposition of codes, written so that compilers vectorize it. Where the four streams are parts of
// one i2 row, they go through a buffer and are copied in pieces of eight (or four) bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "format/i2.h"
#include "format/tile16.h"

namespace tern::deal {

using Streams = std::array<std::uint8_t*, 4>;
using ConstStreams = std::array<const std::uint8_t*, 4>;

inline std::uint32_t load(const std::uint8_t* at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}
inline void store(std::uint8_t* at, std::uint32_t word) { std::memcpy(at, &word, sizeof word); }

inline void words(const std::uint8_t* __restrict from, std::int64_t count, const Streams& to) {
  std::uint8_t* __restrict s0 = to[0];
  std::uint8_t* __restrict s1 = to[1];
  std::uint8_t* __restrict s2 = to[2];
  std::uint8_t* __restrict s3 = to[3];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word = Tile16::transpose(load(from + 4 * i));
    s0[i] = static_cast<std::uint8_t>(word);
    s1[i] = static_cast<std::uint8_t>(word >> 8);
    s2[i] = static_cast<std::uint8_t>(word >> 16);
    s3[i] = static_cast<std::uint8_t>(word >> 24);
  }
}

inline void gather_words(const ConstStreams& from, std::int64_t count, std::uint8_t* __restrict to) {
  const std::uint8_t* __restrict s0 = from[0];
  const std::uint8_t* __restrict s1 = from[1];
  const std::uint8_t* __restrict s2 = from[2];
  const std::uint8_t* __restrict s3 = from[3];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word =
        s0[i] | std::uint32_t{s1[i]} << 8 | std::uint32_t{s2[i]} << 16 | std::uint32_t{s3[i]} << 24;
    store(to + 4 * i, Tile16::transpose(word));
  }
}

// Deals a line of k bytes to the starts of four rows of k codes, and back. The last byte of each row is filled with
// padding.
inline void line(const std::uint8_t* from, std::int64_t k, const Streams& rows) {
  words(from, k / 4, rows);
  if (k % 4 == 0) return;
  std::array<std::uint8_t, 4> last{i2::kPadding, i2::kPadding, i2::kPadding, i2::kPadding};
  std::memcpy(last.data(), from + k / 4 * 4, static_cast<std::size_t>(k % 4));
  words(last.data(), 1, {rows[0] + k / 4, rows[1] + k / 4, rows[2] + k / 4, rows[3] + k / 4});
}
inline void gather_line(const ConstStreams& rows, std::int64_t k, std::uint8_t* to) {
  gather_words(rows, k / 4, to);
  if (k % 4 == 0) return;
  std::array<std::uint8_t, 4> last{};
  gather_words({rows[0] + k / 4, rows[1] + k / 4, rows[2] + k / 4, rows[3] + k / 4}, 1, last.data());
  std::memcpy(to + k / 4 * 4, last.data(), static_cast<std::size_t>(k % 4));
}

// Converts `runs` runs of 4 * kPart bytes. The four streams of a run are the four parts of its i2 bytes, kPart bytes
// each. kFirstHigh: the first part is in the top bits.
template <int kPart, bool kFirstHigh>
struct Runs {
  static constexpr std::int64_t kBytes = 4 * kPart;
  static constexpr std::int64_t kAtOnce = 128 / kPart;

  static void to_i2(const std::uint8_t* from, std::int64_t runs, std::uint8_t* i2) {
    std::uint8_t parts[4][128];
    for (std::int64_t run = 0; run < runs; run += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, runs - run);
      words(from + run * kBytes, count * kPart, {parts[0], parts[1], parts[2], parts[3]});
      for (std::int64_t i = 0; i < count; ++i)
        for (int part = 0; part < 4; ++part)
          std::memcpy(i2 + (run + i) * kBytes + part * kPart, parts[stream_of(part)] + i * kPart, kPart);
    }
  }
  static void from_i2(const std::uint8_t* i2, std::int64_t runs, std::uint8_t* to) {
    std::uint8_t parts[4][128];
    for (std::int64_t run = 0; run < runs; run += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, runs - run);
      for (std::int64_t i = 0; i < count; ++i)
        for (int part = 0; part < 4; ++part)
          std::memcpy(parts[stream_of(part)] + i * kPart, i2 + (run + i) * kBytes + part * kPart, kPart);
      gather_words({parts[0], parts[1], parts[2], parts[3]}, count * kPart, to + run * kBytes);
    }
  }

 private:
  static constexpr int stream_of(int part) { return kFirstHigh ? 3 - part : part; }
};

}  // namespace tern::deal
