// How a byte of tile16 holds five trits: two table look-ups with indices of six bits decode all of them. VPERMB does 64
// such look-ups at once.
//
//     byte     7 6 5 4 3 2 1 0        a = first[byte & 63]      b = second[byte >> 2]
//     a        a1  a2  a3  c4         codes c1 c2 c3 = a1^b1 a2^b2 a3^b3, c4 from a, c5 from b
//     b        b1  b2  b3  c5         two bits each, the first in the highest
//
// Both look-ups see bits 2..5, which choose one of sixteen rectangles of 4 x 4 combinations. In twelve of them, c3 is
// fixed and four values of (c1, c4) meet four of (c2, c5). The other four hold the combinations in which c1 and c4 are
// 2, or c2 and c5.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

struct Tile16B3 {
  alignas(64) std::uint8_t first[64] = {};
  alignas(64) std::uint8_t second[64] = {};
  std::uint8_t bytes[243] = {};  // by 81 c1 + 27 c2 + 9 c3 + 3 c4 + c5
  bool whole = true;             // every combination has a byte

  constexpr Tile16B3() {
    constexpr int kSets[2][4][2] = {{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, {{0, 2}, {1, 2}, {2, 0}, {2, 1}}};
    int rectangle = 0;
    const auto set_first = [&](int low, int a1, int a2, int a3, int c4) {
      first[low + 4 * rectangle] = fields(a1, a2, a3, c4);
    };
    const auto set_second = [&](int high, int b1, int b2, int b3, int c5) {
      second[rectangle + 16 * high] = fields(b1, b2, b3, c5);
    };
    for (const auto& of_first : kSets)
      for (const auto& of_second : kSets)
        for (int c3 = 0; c3 < 3; ++c3, ++rectangle)
          for (int i = 0; i < 4; ++i) {
            set_first(i, of_first[i][0], 0, c3, of_first[i][1]);
            set_second(i, 0, of_second[i][0], 0, of_second[i][1]);
          }
    for (int r = 0; r < 2; ++r, ++rectangle) {  // c2 = c5 = 2
      for (int c3 = 0; c3 < 3; ++c3) set_second(c3, 0, 2, c3, 2);
      set_second(3, 2 + r, 2, r, 2);
      set_first(0, r, 0, 0, 2);
      for (int c1 = 0; c1 < 3; ++c1) set_first(1 + c1, c1, 0, 0, r);
    }
    for (int r = 0; r < 2; ++r, ++rectangle) {  // c1 = c4 = 2
      for (int c3 = 0; c3 < 3; ++c3) set_first(c3, 2, 0, c3, 2);
      set_first(3, 2, 2, 2, 2);
      set_second(0, 0, r, 0, 2);
      for (int c2 = 0; c2 < 3; ++c2) set_second(1 + c2, 0, c2, 0, r);
    }
    bool found[243] = {};
    for (int byte = 0; byte < 256; ++byte) {
      std::size_t v = 0;
      bool trits = true;
      for (int i = 0; i < 5; ++i) {
        const int code = read(static_cast<std::uint8_t>(byte), i);
        trits = trits && code < 3;
        v = 3 * v + static_cast<std::size_t>(code);
      }
      if (!trits) continue;
      bytes[v] = static_cast<std::uint8_t>(byte);
      found[v] = true;
    }
    for (const bool one : found) whole = whole && one;
  }

  // Code i of a byte.
  [[nodiscard]] constexpr int read(std::uint8_t byte, int i) const {
    const int a = first[byte & 63U], b = second[byte >> 2U];
    return i == 4 ? b & 3 : i == 3 ? a & 3 : ((a ^ b) >> (6 - 2 * i)) & 3;
  }

 private:
  static constexpr std::uint8_t fields(int f1, int f2, int f3, int f4) {
    return static_cast<std::uint8_t>(f1 << 6 | f2 << 4 | f3 << 2 | f4);
  }
};

inline constexpr Tile16B3 kTile16B3;
static_assert(kTile16B3.whole);
static_assert(kTile16B3.read(kTile16B3.bytes[81 * 1 + 27 * 2 + 9 * 0 + 3 * 2 + 1], 3) == 2);

}  // namespace tern
