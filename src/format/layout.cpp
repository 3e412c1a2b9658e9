// Which shapes a layout holds, in how many bytes, and its conversion, as its row of the table says.
#include "format/layout.h"

#include <cstring>

#include "base/errors.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "layout";

}  // namespace

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

Result<LayoutShape> shape_of(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  const LayoutRow& row = row_of(spec.layout);
  if (row.shape == nullptr)
    return error(Code::invalid_argument, kWhere, "{} is no layout", static_cast<int>(spec.layout));
  TERN_RETURN_IF_ERROR(row.check(spec, n, k));
  return row.shape(spec.tiles, n, k);
}

void layout_to_i2(const LayoutSpec& spec, const RowPiece& p, const std::uint8_t* bytes, const CodesOut& codes) {
  row_of(spec.layout).to_i2(p, spec.tiles, bytes, codes);
}

void layout_from_i2(const LayoutSpec& spec, const RowPiece& p, const CodesIn& codes, std::uint8_t* bytes) {
  row_of(spec.layout).from_i2(p, spec.tiles, codes, bytes);
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
