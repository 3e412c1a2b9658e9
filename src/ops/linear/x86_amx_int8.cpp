// linear for AMX: a tile of activations by two of decoded weights, for many tokens; the rest is AVX-512 with VNNI.
//
//     tmm0 tmm1     sums of 16 tokens with rows 0..15 and 16..31      tmm4 tmm5     the same of the last m % 16 tokens
//     tmm2          activations of the tokens                         tmm6
//     tmm3          codes of 16 rows: four decoded lines of tile16 are 16 times four columns of 16 rows
//
// A core gives each of its two threads few registers to rename tiles with: on a Xeon (model 207) with a busy neighbour
// a product takes 85 cycles in a loop with 2 x 2 sums and 8 tiles, 39 in this one with 4 tiles; alone 19 in both.
#include "simd/x86_amx_int8.h"
#include "ops/linear/generic.h"

namespace tern::linear {
namespace {

using Words = simd::X86AmxInt8;
using Vectors = Loops<Words>;
using Many = Vectors::Many;

constexpr std::int64_t kStepLines = kPanelColumns / kLineColumns;
constexpr std::int64_t kStepBytes = kStepLines * kDecodedBytes;
constexpr std::int64_t kCodesBytes = 20480;

void begin(std::int64_t m) {
  Words::Shapes shapes;
  const auto rest = static_cast<std::uint8_t>(m % kPanelTokens);
  const std::uint8_t rows[7] = {16, 16, 16, 16, rest, rest, rest};
  for (int i = 0; i < 7; ++i)
    if (rows[i] > 0) {
      shapes.row_bytes[i] = 64;
      shapes.rows[i] = rows[i];
    }
  Words::set_shapes(shapes);
}

void end() { Words::release_tiles(); }

// Some lines of a tile as bytes.
void decode(const std::uint8_t* w, std::int64_t lines, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < lines; ++i) {
    const auto packed = Words::load_bytes(w + i * kLineBytes);
    std::uint8_t* to = codes + i * kDecodedBytes;
    Words::store_bytes(to, Words::codes<0>(packed, 3));
    Words::store_bytes(to + kLineBytes, Words::codes<2>(packed, 3));
    Words::store_bytes(to + 2 * kLineBytes, Words::codes<4>(packed, 3));
    Words::store_bytes(to + 3 * kLineBytes, Words::codes<6>(packed, 3));
  }
}

// Where the codes of a tile begin: steps of whole tiles, of which the last may have fewer lines. What lies behind these
// meets activations that are zero.
std::int64_t tile_step(const Many& p) { return (p.lines + kStepLines - 1) / kStepLines * kStepBytes; }

void decode_step(const Many& p, std::int64_t step) {
  const std::int64_t line = step * kStepLines, left = p.lines - line;
  for (int i = 0; i < p.tiles; ++i)
    decode(p.w + i * p.tile_bytes + line * kLineBytes, left < kStepLines ? left : kStepLines,
           p.codes + i * tile_step(p) + step * kStepBytes);
}

// kFirst is 0 for whole panels and 4 for the rest. The first panel of a block decodes what the others find, a step
// ahead.
template <int kTilesNow, int kFirst, bool kDecode>
void panel(const Many& p, std::int64_t index) {
  const std::int64_t ld = p.ld * static_cast<std::int64_t>(sizeof *p.sums), second = tile_step(p);
  std::int32_t* sums = p.sums + index * kPanelTokens * p.ld;
  const std::int8_t* x = p.x.x + index * p.x.stride;
  const std::uint8_t* codes = p.codes;
  const std::int64_t steps = second / kStepBytes;
  if (p.fresh) {
    Words::zero_tile<kFirst>();
    if constexpr (kTilesNow == 2) Words::zero_tile<kFirst + 1>();
  } else {
    Words::load_tile<kFirst>(sums, ld);
    if constexpr (kTilesNow == 2) Words::load_tile<kFirst + 1>(sums + kTileRows, ld);
  }
  for (std::int64_t step = 0; step < steps; ++step, x += kPanelBytes, codes += kStepBytes) {
    if constexpr (kDecode)
      if (step + 1 < steps) decode_step(p, step + 1);
    Words::load_tile<kFirst + 2>(x, kPanelColumns);
    Words::load_tile<3>(codes, kLineBytes);
    Words::dot_tiles<kFirst, kFirst + 2, 3>();
    if constexpr (kTilesNow == 2) {
      Words::load_tile<3>(codes + second, kLineBytes);
      Words::dot_tiles<kFirst + 1, kFirst + 2, 3>();
    }
  }
  Words::store_tile<kFirst>(sums, ld);
  if constexpr (kTilesNow == 2) Words::store_tile<kFirst + 1>(sums + kTileRows, ld);
}

template <int kTilesNow>
void tiles(const Many& p) {
  const std::int64_t panels = p.tokens / kPanelTokens;
  decode_step(p, 0);
  if (panels > 0) panel<kTilesNow, 0, true>(p, 0);
  for (std::int64_t i = 1; i < panels; ++i) panel<kTilesNow, 0, false>(p, i);
  if (p.tokens % kPanelTokens == 0) return;
  if (panels == 0)
    panel<kTilesNow, 4, true>(p, 0);
  else
    panel<kTilesNow, 4, false>(p, panels);
}

void many(const Many& p) {
  if (p.tiles == 1)
    tiles<1>(p);
  else
    tiles<2>(p);
}

constexpr SimdTable table() {
  SimdTable t = Vectors::table();
  t.codes_bytes = kCodesBytes;
  t.begin = begin;
  t.end = end;
  t.many = many;
  return t;
}

}  // namespace

extern const SimdTable x86_amx_int8;
constinit const SimdTable x86_amx_int8 = table();

}  // namespace tern::linear
