// The table of layouts: which shapes they hold, in how many bytes, and which loops read and write them.
#include "format/layout.h"

#include <cstring>

#include "base/checked.h"
#include "base/errors.h"
#include "base/words.h"
#include "format/format.h"
#include "format/hf_packed.h"
#include "format/i2_s.h"
#include "format/ms_gpu.h"
#include "format/own_rows.h"
#include "format/tl1.h"
#include "format/tl2.h"
#include "format/tq1_0.h"
#include "format/tq2_0.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "layout";
constexpr WordTable<Layout, 11> kLayouts = {{{Layout::ms_gpu, "ms_gpu"},
                                             {Layout::i2, "i2"},
                                             {Layout::b3, "b3"},
                                             {Layout::hf_packed, "hf_packed"},
                                             {Layout::i2_s_x86_128, "i2_s.x86_128"},
                                             {Layout::i2_s_arm_64, "i2_s.arm_64"},
                                             {Layout::i2_s_1x4, "i2_s.1x4"},
                                             {Layout::tl1, "tl1"},
                                             {Layout::tl2, "tl2"},
                                             {Layout::tq1_0, "tq1_0"},
                                             {Layout::tq2_0, "tq2_0"}}};

// Checks that n is a multiple of `rows` and k of `columns`.
Status check_multiples(const LayoutSpec& spec, std::int64_t n, std::int64_t rows, std::int64_t k, std::int64_t columns,
                       std::string_view because) {
  if (n % rows != 0)
    return error(Code::unsupported, kWhere, "{} holds n a multiple of {}, not {} x {}: {}", name(spec.layout), rows, n,
                 k, because);
  if (k % columns != 0)
    return error(Code::unsupported, kWhere, "{} holds k a multiple of {}, not {} x {}: {}", name(spec.layout), columns,
                 n, k, because);
  return {};
}

Error bad_tiles(const LayoutSpec& spec, std::string_view what) {
  const LutTiles& t = spec.tiles;
  return error(Code::unsupported, kWhere,
               "{} has no tiles of bm {}, bk {}, bmm {}: {}; give those of bitnet.cpp's kernel_config.ini",
               name(spec.layout), t.tile_rows, t.tile_columns, t.block_rows, what);
}

// Small enough that no product of tile sizes overflows.
constexpr std::int64_t kMaxTileSize = std::int64_t{1} << 24;

Status check_tl1(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  const LutTiles& t = spec.tiles;
  if (t.block_rows != 32 && t.block_rows != 64) return bad_tiles(spec, "bmm is 32 or 64");
  if (t.tile_rows < 1 || t.tile_rows > kMaxTileSize || t.tile_rows % t.block_rows != 0)
    return bad_tiles(spec, "bm is a multiple of bmm");
  if (t.tile_columns < 1 || t.tile_columns > kMaxTileSize || t.tile_columns % (tl1::kBlockElems / t.block_rows) != 0)
    return bad_tiles(spec, "bk is a multiple of 256/bmm");
  return check_multiples(spec, n, t.tile_rows, k, t.tile_columns, "its tiles are bm x bk");
}

Status check_tl2(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  const LutTiles& t = spec.tiles;
  if (t.block_rows != tl2::kRows) return bad_tiles(spec, "bmm is 32");
  if (t.tile_rows < 1 || t.tile_rows > kMaxTileSize || t.tile_rows % tl2::kRows != 0)
    return bad_tiles(spec, "bm is a multiple of 32");
  if (t.tile_columns < 1 || t.tile_columns > kMaxTileSize || t.tile_columns % tl2::kSignColumns != 0)
    return bad_tiles(spec, "bk is a multiple of 24");
  TERN_RETURN_IF_ERROR(check_multiples(spec, n, t.tile_rows, k, 1, "its tiles have bm rows"));
  if (k < tl2::kMinK)
    return error(Code::unsupported, kWhere, "tl2 holds k of {} and more, not {} x {}", tl2::kMinK, n, k);
  const std::int64_t rest = k % t.tile_columns;
  if (rest % tl2::kPairColumns != 0)
    return error(Code::unsupported, kWhere, "tl2 holds k if k modulo {} is a multiple of {}, not {} x {}",
                 t.tile_columns, tl2::kPairColumns, n, k);
  if (tl2::used_bytes(t, n, k) > tl2::code_bytes(n, k))
    return error(Code::unsupported, kWhere,
                 "tl2 has too few bytes for the last {} of {} columns, which remain after whole tiles of {}", rest, k,
                 t.tile_columns);
  return {};
}

LayoutShape rows_alone(std::int64_t n, std::int64_t row_bytes, std::int64_t row_block) {
  return {.row_block = row_block, .code_bytes = n * row_bytes, .used_bytes = n * row_bytes, .bytes = n * row_bytes};
}

LayoutShape with_trailer(std::int64_t code_bytes, std::int64_t used_bytes, std::int64_t row_block) {
  return {.row_block = row_block,
          .code_bytes = code_bytes,
          .used_bytes = used_bytes,
          .bytes = code_bytes + i2_s::kTrailerBytes,
          .scales = ScalesIn::trailer};
}

LayoutShape in_blocks(std::int64_t n, std::int64_t blocks, std::int64_t block_bytes, std::int64_t scale_bytes) {
  const std::int64_t bytes = n * blocks * block_bytes;
  return {.row_block = 1,
          .code_bytes = bytes,
          .used_bytes = bytes,
          .bytes = bytes,
          .scales = ScalesIn::blocks,
          .blocks_per_row = blocks,
          .block_bytes = block_bytes,
          .block_scale_bytes = scale_bytes};
}

constexpr std::string_view kRunsOfRows = "its kernels read rows in whole runs";
constexpr std::string_view kFourRows = "a byte has codes of four rows";
constexpr std::string_view kBlocks = "rows are in blocks of 256";

}  // namespace

std::string_view name(Layout layout) { return word_of(kLayouts, layout); }
Result<Layout> parse_layout(std::string_view word) { return parse_word(kLayouts, "layout", word); }

ScalesIn scales_in_bytes(Layout layout) {
  switch (layout) {
    case Layout::ms_gpu:
    case Layout::i2:
    case Layout::b3:
    case Layout::hf_packed: break;
    case Layout::i2_s_x86_128:
    case Layout::i2_s_arm_64:
    case Layout::i2_s_1x4:
    case Layout::tl1:
    case Layout::tl2: return ScalesIn::trailer;
    case Layout::tq1_0:
    case Layout::tq2_0: return ScalesIn::blocks;
  }
  return ScalesIn::none;
}

Result<LayoutShape> shape_of(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  switch (spec.layout) {
    case Layout::ms_gpu:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, MsGpu::kRows, k, MsGpu::kColumns, "its tiles are 16 x 32"));
      return rows_alone(n, k / 4, MsGpu::kRows);
    case Layout::i2: return rows_alone(n, row_bytes(Format::i2, k), 1);
    case Layout::b3: return rows_alone(n, row_bytes(Format::b3, k), 1);
    case Layout::hf_packed:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, 4, k, 1, kFourRows));
      return rows_alone(n / 4, k, n > 0 ? n : 1);
    case Layout::i2_s_x86_128:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, 1, k, i2_s::X86::kRun, kRunsOfRows));
      return with_trailer(n * (k / 4), n * (k / 4), 1);
    case Layout::i2_s_arm_64:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, 1, k, i2_s::Arm::kRun, kRunsOfRows));
      return with_trailer(n * (k / 4), n * (k / 4), 1);
    case Layout::i2_s_1x4:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, i2_s::FourRows::kRows, k, 1, kFourRows));
      return with_trailer(n / 4 * k, n / 4 * k, i2_s::FourRows::kRows);
    case Layout::tl1:
      TERN_RETURN_IF_ERROR(check_tl1(spec, n, k));
      return with_trailer(n * (k / 4), n * (k / 4), spec.tiles.block_rows);
    case Layout::tl2:
      TERN_RETURN_IF_ERROR(check_tl2(spec, n, k));
      return with_trailer(tl2::code_bytes(n, k), tl2::used_bytes(spec.tiles, n, k), tl2::kRows);
    case Layout::tq1_0:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, 1, k, tq1_0::kBlock, kBlocks));
      return in_blocks(n, k / tq1_0::kBlock, tq1_0::kBlockBytes, tq1_0::kCodeBytes);
    case Layout::tq2_0:
      TERN_RETURN_IF_ERROR(check_multiples(spec, n, 1, k, tq2_0::kBlock, kBlocks));
      return in_blocks(n, k / tq2_0::kBlock, tq2_0::kBlockBytes, tq2_0::kCodeBytes);
  }
  return error(Code::invalid_argument, kWhere, "{} is no layout", static_cast<int>(spec.layout));
}

void layout_to_i2(const LayoutSpec& spec, const RowPiece& p, const std::uint8_t* bytes, const CodesOut& codes) {
  switch (spec.layout) {
    case Layout::ms_gpu: return MsGpu::to_i2(p, bytes, codes);
    case Layout::i2: return own_rows::I2::to_i2(p, bytes, codes);
    case Layout::b3: return own_rows::B3::to_i2(p, bytes, codes);
    case Layout::hf_packed: return hf_packed::to_i2(p, bytes, codes);
    case Layout::i2_s_x86_128: return i2_s::X86::to_i2(p, bytes, codes);
    case Layout::i2_s_arm_64: return i2_s::Arm::to_i2(p, bytes, codes);
    case Layout::i2_s_1x4: return i2_s::FourRows::to_i2(p, bytes, codes);
    case Layout::tl1: return tl1::to_i2(p, spec.tiles, bytes, codes);
    case Layout::tl2: return tl2::to_i2(p, spec.tiles, bytes, codes);
    case Layout::tq1_0: return tq1_0::to_i2(p, bytes, codes);
    case Layout::tq2_0: return tq2_0::to_i2(p, bytes, codes);
  }
}

void layout_from_i2(const LayoutSpec& spec, const RowPiece& p, const CodesIn& codes, std::uint8_t* bytes) {
  switch (spec.layout) {
    case Layout::ms_gpu: return MsGpu::from_i2(p, codes, bytes);
    case Layout::i2: return own_rows::I2::from_i2(p, codes, bytes);
    case Layout::b3: return own_rows::B3::from_i2(p, codes, bytes);
    case Layout::hf_packed: return hf_packed::from_i2(p, codes, bytes);
    case Layout::i2_s_x86_128: return i2_s::X86::from_i2(p, codes, bytes);
    case Layout::i2_s_arm_64: return i2_s::Arm::from_i2(p, codes, bytes);
    case Layout::i2_s_1x4: return i2_s::FourRows::from_i2(p, codes, bytes);
    case Layout::tl1: return tl1::from_i2(p, spec.tiles, codes, bytes);
    case Layout::tl2: return tl2::from_i2(p, spec.tiles, codes, bytes);
    case Layout::tq1_0: return tq1_0::from_i2(p, codes, bytes);
    case Layout::tq2_0: return tq2_0::from_i2(p, codes, bytes);
  }
}

bool all_trits(const std::uint8_t* row, std::int64_t k) {
  constexpr std::int64_t kWords = 4;  // of 8 bytes: independent accumulators, so that no OR waits for the last
  std::uint64_t words[kWords] = {};
  std::int64_t i = 0;
  for (; i + 8 * kWords <= k / 4; i += 8 * kWords)
    for (std::int64_t j = 0; j < kWords; ++j) {
      std::uint64_t word = 0;
      std::memcpy(&word, row + i + 8 * j, sizeof word);
      words[j] |= word & word >> 1;
    }
  std::uint64_t all = words[0] | words[1] | words[2] | words[3];
  all |= all >> 32;
  all |= all >> 16;
  auto both = static_cast<unsigned>((all | all >> 8) & 0x55);
  for (; i < k / 4; ++i) both |= row[i] & row[i] >> 1;
  if (k % 4 != 0) both |= row[k / 4] & row[k / 4] >> 1 & ((1U << (2 * (k % 4))) - 1);
  return (both & 0x55) == 0;
}

}  // namespace tern
