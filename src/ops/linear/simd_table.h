// What an instruction set gives to linear: staging of activations, inner products over tiles of four rows, epilogues.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/activation_quantize/simd_table.h"

namespace tern::linear {

using activation_quantize::kSources;

inline constexpr int kPanelTokens = 3;       // tokens that share a register tile with four rows
inline constexpr std::int64_t kLine = 64;    // columns of a line of codes or int8
inline constexpr std::int64_t kFloats = 16;  // columns of a line of staged floats

// The most lines a call of the float loops takes, whatever the instruction set.
inline constexpr std::int64_t kMaxFloatLines = 16;

enum Out : int { kOutF32, kOutF16, kOutBf16, kOuts };

// One token's results of some neighbouring rows. Null pointers are absent steps.
struct EpilogueRow {
  std::int64_t n = 0;
  float s = 0;  // divides, unless it is 0
  const float* w_scales = nullptr;
  bool one_w_scale = false;
  const float* bias = nullptr;
  bool squared_relu = false;
  const void* residual = nullptr;  // of y's type
  void* y = nullptr;
};

// Two streams of tiles, read side by side: memory answers two pages faster than one.
struct PackedTiles {
  const std::uint8_t* w[2];  // the second may be null
  std::int32_t* sums[2];
  std::int64_t count = 0;  // tiles of each stream
  std::int64_t tile_bytes = 0;
};

// Activations lie in panels of `tokens` tokens, a line of each token in turn. Sums go to sums[token * ld + row].
struct SimdTable {
  activation_quantize::SimdTable tokens;
  // Lines of int8, `line_step` bytes apart; returns their sum.
  std::int32_t (*copy)(const std::int8_t* x, std::int64_t n, std::int8_t* out, std::int64_t line_step);
  // Lines of floats, `line_step` floats apart.
  void (*widen[kSources])(const void* x, std::int64_t n, float* out, std::int64_t line_step);

  // sums += code * x over `lines` lines; codes are 0, 1, 2. By tokens.
  void (*packed[kPanelTokens + 1])(const PackedTiles& tiles, std::int64_t lines, const std::int8_t* x, std::int64_t ld);
  // The same for one tile, whose codes are left as bytes, a line of each row in turn; and the same from these. The next
  // panel lies `next` bytes further on, the next tile to decode `next_w`.
  void (*decode[kPanelTokens + 1])(const std::uint8_t* w, std::int64_t next_w, std::uint8_t* codes, std::int64_t lines,
                                   const std::int8_t* x, std::int64_t next, std::int32_t* sums, std::int64_t ld);
  void (*decoded[kPanelTokens + 1])(const std::uint8_t* codes, std::int64_t lines, const std::int8_t* x,
                                    std::int64_t next, std::int32_t* sums, std::int64_t ld);

  // The same with floats, of trits -1, 0, 1: at most float_lines lines a call, so that chains of additions stay short.
  std::int64_t float_lines;
  void (*float_packed[kPanelTokens + 1])(const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t tiles,
                                         std::int64_t lines, const float* x, float* sums, std::int64_t ld);
  void (*float_decode)(const std::uint8_t* w, std::int64_t lines, float* trits);
  void (*float_decoded[kPanelTokens + 1])(const float* trits, std::int64_t lines, const float* x, float* sums,
                                          std::int64_t ld);

  void (*epilogue[kOuts])(const std::int32_t* sums, const EpilogueRow& row);
  void (*float_epilogue[kOuts])(const float* sums, const EpilogueRow& row);
};

}  // namespace tern::linear
