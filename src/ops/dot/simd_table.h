// What an instruction set provides for ops that multiply packed weights (linear, conv2d): staging of activations, inner
// products over tiles of rows, epilogues.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/activation_quantize/simd_table.h"

namespace tern::dot {

using activation_quantize::kSources;

// Repeated from format/tile16.h, because its inline functions must not be compiled for an instruction set.
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kLineBytes = 64;
inline constexpr std::int64_t kPlaneColumns = 4;  // columns of a line that one vector of codes has, of each row

inline constexpr int kFewTokens = 3;   // up to this many tokens use codes as they are decoded and store none
inline constexpr int kMaxStreams = 4;  // the most streams of weights that one token reads
inline constexpr int kMaxTiles = 2;    // the most tiles handled at a time, with many tokens

// A tile of staged activations: kPanelTokens tokens by kPanelColumns columns. A panel is all tiles of the same tokens.
inline constexpr std::int64_t kPanelTokens = 16;
inline constexpr std::int64_t kPanelColumns = 64;
inline constexpr std::int64_t kPanelBytes = kPanelTokens * kPanelColumns;

// Groups whose scaled sums are added up in one chain of fused multiply-adds; the sums of chains are added up in order.
inline constexpr std::int64_t kChainGroups = 128;

// Columns whose products with floats are added up in one chain, in order; the sums of chains are added up in f64.
inline constexpr std::int64_t kFloatColumns = 128;

enum Out : int { kOutF32, kOutF16, kOutBf16, kOuts };

namespace {  // a copy for each instruction set
// Sums of codes may exceed int32 although the result fits; they wrap around.
inline std::int32_t take_off(std::int32_t sum, std::int32_t x_sum) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) - static_cast<std::uint32_t>(x_sum));
}
inline std::int32_t times(std::int32_t sum, std::int32_t by) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) * static_cast<std::uint32_t>(by));
}
}  // namespace

// Results of some neighbouring rows with some tokens. A step whose pointer is null is absent; strides are between
// tokens.
struct EpilogueBlock {
  std::int64_t n = 0, tokens = 0;
  std::int64_t ld = 0;                   // stride of sums
  const std::int32_t* x_sums = nullptr;  // subtracted from int32 sums, because codes are unsigned (weight + code of 0)
  std::int64_t x_sums_stride = 0;
  const float* s = nullptr;  // divides, unless it is 0
  const float* w_scales = nullptr;
  bool one_w_scale = false;
  const float* bias = nullptr;
  bool relu = false, squared_relu = false;
  const std::byte* residual = nullptr;  // of y's type
  std::byte* y = nullptr;
  std::int64_t residual_stride = 0, y_stride = 0;  // in bytes
};

// Streams of tiles, read side by side, because memory serves several pages faster than one.
struct PackedTiles {
  const std::uint8_t* w[kMaxStreams] = {};
  std::int32_t* sums[kMaxStreams] = {};
  int streams = 1;
  std::int64_t ahead = 0;  // prefetch distance, in bytes of each stream
  std::int64_t count = 0;  // tiles of each stream
  std::int64_t tile_bytes = 0;
};

// The same with group scales: all groups of columns of a tile, a scale per row and group.
struct GroupedTiles {
  const std::uint8_t* w[kMaxStreams] = {};
  const float* scales[kMaxStreams] = {};  // [tile][segment][row of the tile]
  float* totals[kMaxStreams] = {};
  int streams = 1;
  std::int64_t ahead = 0;
  std::int64_t count = 0;
  std::int64_t tile_bytes = 0;
  std::int64_t segments = 0, segment_lines = 0, last_lines = 0;
  const std::int32_t* x_sums = nullptr;  // [tokens][segments], subtracted from each sum
  std::int64_t ld = 0;                   // of totals
};

// Tokens `stride` elements apart; where activations are staged as tiles, panels are `stride` apart.
template <class T>
struct Tokens {
  const T* x = nullptr;
  std::int64_t stride = 0;
};

// Many tokens with some lines of a few consecutive tiles.
template <class T, class Sum>
struct ManyTokens {
  const std::uint8_t* w = nullptr;
  std::int64_t tile_bytes = 0;
  int tiles = 0;  // up to max_tiles
  std::int64_t lines = 0;
  Tokens<T> x;
  std::int64_t tokens = 0;
  std::uint8_t* codes = nullptr;  // scratch for decoded codes: kLineBytes per plane; four times that for floats
  Sum* sums = nullptr;
  std::int64_t ld = 0;
  bool fresh = false;  // whether int32 sums are set instead of added to; float sums always are
};

// Tokens at equal distances that meet the same lines of weights: output pixels of a row.
template <class T, class Sum>
struct RowOfTokens {
  Tokens<T> x;
  std::int64_t tokens = 0;
  std::int64_t first = 0, last = 0;  // lines
  Sum* sums = nullptr;
};
// Rows of tokens with some lines of a few consecutive tiles. The activations that a line meets lie together, those of
// different lines may lie apart: taps of a convolution.
template <class T, class Sum>
struct ManyRows {
  const std::uint8_t* w = nullptr;
  std::int64_t tile_bytes = 0;
  int tiles = 0;  // up to max_tiles
  std::int64_t lines = 0;
  const std::int64_t* offsets = nullptr;  // of each line: elements from a token's first to the line's
  const RowOfTokens<T, Sum>* rows = nullptr;
  std::int64_t row_count = 0;
  std::uint8_t* codes = nullptr;  // as in ManyTokens
  std::int64_t ld = 0;
  bool fresh = false;  // as in ManyTokens
};

// Output pixels of a row with a filter for each channel, up to kChannels of them.
template <class T, class Sum>
struct DepthwiseRow {
  static constexpr std::int64_t kChannels = 64;
  const T* x = nullptr;  // of the first pixel; kChannels of each may be read
  std::int64_t stride = 0, pixels = 0;
  std::int64_t channels = kChannels;
  const std::int64_t* offsets = nullptr;  // of each tap
  std::int64_t first = 0, last = 0;       // taps
  const std::int16_t* w = nullptr;        // [taps], w_stride apart
  std::int64_t w_stride = 0;
  bool narrow = false;  // whether sums fit int16
  Sum* sums = nullptr;  // [pixels][kChannels]
};

// The loops over tiles of one format. Sums go to sums[token * ld + row].
struct TileLoops {
  std::int32_t zero;  // the code of a weight of 0; code = weight + zero
  // sums += code * x over `lines` lines, by number of tokens. One token can read up to max_streams streams.
  int max_streams;
  void (*packed[kFewTokens + 1])(const PackedTiles& tiles, std::int64_t lines, Tokens<std::int8_t> x, std::int64_t ld);
  // totals = chains of fma(float(sum - x_sum), scale, total), group after group, by number of tokens.
  void (*grouped[kFewTokens + 1])(const GroupedTiles& tiles, Tokens<std::int8_t> x);
  // Sums for many tokens, of up to `max_tiles` tiles at a time, best with `codes_bytes` of decoded codes. If `begin` is
  // set, activations are staged as tiles, and a thread calls `begin` before and `end` after its calls of `many`.
  int max_tiles;
  std::int64_t codes_bytes;
  void (*begin)(std::int64_t m);
  void (*end)();
  void (*many)(const ManyTokens<std::int8_t, std::int32_t>& p);

  // sums = trit * x, added up in f32 in the order of the columns, at most kFloatColumns. For trits only.
  void (*float_packed[kFewTokens + 1])(const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t tiles,
                                       std::int64_t lines, Tokens<float> x, float* sums, std::int64_t ld);
  void (*float_many)(const ManyTokens<float, float>& p);

  // The same for rows of tokens.
  void (*rows)(const ManyRows<std::int8_t, std::int32_t>& p);
  void (*float_rows)(const ManyRows<float, float>& p);
};

struct SimdTable {
  activation_quantize::SimdTable tokens;
  std::int32_t (*copy)(const std::int8_t* x, std::int64_t n, std::int8_t* out);  // returns the sum
  void (*widen[kSources])(const void* x, std::int64_t n, float* out);
  // Sums of n elements each, `stride` apart.
  void (*sums)(const std::int8_t* x, std::int64_t stride, std::int64_t n, std::int64_t count, std::int32_t* sums);
  TileLoops i2, b3, s8, s4;  // b3 is empty where the list has no kernel for it
  // chain = fma(float(sum - less), scale, chain) for the rows of some tiles, whose scales lie scale_step apart.
  void (*add_group)(const std::int32_t* sums, std::int32_t less, const float* scales, std::int64_t scale_step,
                    std::int64_t tiles, float* chain);
  void (*epilogue[kOuts])(const std::int32_t* sums, const EpilogueBlock& block);
  void (*float_epilogue[kOuts])(const float* sums, const EpilogueBlock& block);
};

}  // namespace tern::dot
