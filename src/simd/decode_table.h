// For every byte (four 2-bit codes), the byte shuffle that picks their four floats from a table of four.
#pragma once

#include <cstdint>

namespace tern::simd {
namespace {

struct DecodeShuffles {
  alignas(64) std::uint8_t bytes[256][16];
};

constexpr DecodeShuffles make_decode_shuffles() {
  DecodeShuffles table{};
  for (int byte = 0; byte < 256; ++byte)
    for (int i = 0; i < 16; ++i)  // output byte i is byte i % 4 of the float that code i / 4 selects
      table.bytes[byte][i] = static_cast<std::uint8_t>(4 * ((byte >> (2 * (i / 4))) & 3) + i % 4);
  return table;
}

constexpr DecodeShuffles kDecodeShuffles = make_decode_shuffles();

static_assert(kDecodeShuffles.bytes[0b10'01'00'11][0] == 12 && kDecodeShuffles.bytes[0b10'01'00'11][15] == 11);

}  // namespace
}  // namespace tern::simd
