// Inner products for AMX, for many tokens: a tile of activations by two of decoded weights. The rest is AVX-512 with
// VNNI and VBMI.
//
//     tmm0 tmm1     sums of 16 tokens with rows 0..15 and 16..31      tmm4 tmm5     the same of the last m % 16 tokens
//     tmm2          activations of the tokens                         tmm6
//     tmm3          codes of 16 rows: sixteen decoded planes of tile16, four columns each
//
// The two threads of a core share few registers to rename tiles with. On a Xeon (model 207) whose other thread is busy,
// a product takes 85 cycles in a loop with 2 x 2 sums and 8 tiles, but 39 in this one with 4 tiles; if it is idle, 19
// in both.
#include "simd/x86_amx_int8.h"
#include "ops/dot/generic.h"

namespace tern::dot {
namespace {

using Words = simd::X86AmxInt8;
using Many = ManyTokens<std::int8_t, std::int32_t>;

constexpr std::int64_t kStepPlanes = kPanelColumns / kPlaneColumns;
constexpr std::int64_t kStepBytes = kStepPlanes * kLineBytes;
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

template <class Planes>
struct Tmm {
  static std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

  // Steps of whole tiles. The last may have fewer planes: what is beyond them is multiplied with activations of 0.
  static std::int64_t steps(const Many& p) { return (p.lines * Planes::kPlanes + kStepPlanes - 1) / kStepPlanes; }
  // The number of lines that hold the planes of the first `steps` steps.
  static std::int64_t lines_of(const Many& p, std::int64_t steps) {
    return smaller(p.lines, (steps * kStepPlanes + Planes::kPlanes - 1) / Planes::kPlanes);
  }

  template <int kPlane>
  static void decode_planes(typename Planes::Line line, std::uint8_t* codes) {
    Words::store_bytes(codes + kPlane * kLineBytes, Planes::template codes<kPlane>(line));
    if constexpr (kPlane + 1 < Planes::kPlanes) decode_planes<kPlane + 1>(line, codes);
  }
  template <int kTilesNow>
  static void decode(const Many& p, std::int64_t from, std::int64_t to) {
    for (int i = 0; i < kTilesNow; ++i)
      for (std::int64_t line = from; line < to; ++line)
        decode_planes<0>(Planes::line(Words::load_bytes(p.w + i * p.tile_bytes + line * kLineBytes)),
                         p.codes + i * steps(p) * kStepBytes + line * Planes::kPlanes * kLineBytes);
  }

  // kFirst is 0 for whole panels and 4 for the rest. The first panel of a block decodes the codes, one step ahead; the
  // other panels read them.
  template <int kTilesNow, int kFirst, bool kDecode>
  static void panel(const Many& p, std::int64_t index) {
    const std::int64_t ld = p.ld * static_cast<std::int64_t>(sizeof *p.sums), count = steps(p);
    const std::int64_t second = count * kStepBytes;
    std::int32_t* sums = p.sums + index * kPanelTokens * p.ld;
    const std::int8_t* x = p.x.x + index * p.x.stride;
    const std::uint8_t* codes = p.codes;
    if (p.fresh) {
      Words::zero_tile<kFirst>();
      if constexpr (kTilesNow == 2) Words::zero_tile<kFirst + 1>();
    } else {
      Words::load_tile<kFirst>(sums, ld);
      if constexpr (kTilesNow == 2) Words::load_tile<kFirst + 1>(sums + kTileRows, ld);
    }
    if constexpr (kDecode) decode<kTilesNow>(p, 0, lines_of(p, 1));
    for (std::int64_t step = 0; step < count; ++step, x += kPanelBytes, codes += kStepBytes) {
      if constexpr (kDecode) decode<kTilesNow>(p, lines_of(p, step + 1), lines_of(p, step + 2));
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
  static void tiles(const Many& p) {
    const std::int64_t panels = p.tokens / kPanelTokens;
    if (panels > 0) panel<kTilesNow, 0, true>(p, 0);
    for (std::int64_t i = 1; i < panels; ++i) panel<kTilesNow, 0, false>(p, i);
    if (p.tokens % kPanelTokens == 0) return;
    if (panels == 0)
      panel<kTilesNow, 4, true>(p, 0);
    else
      panel<kTilesNow, 4, false>(p, panels);
  }
  static void many(const Many& p) {
    if (p.tiles == 1)
      tiles<1>(p);
    else
      tiles<2>(p);
  }

  static constexpr TileLoops loops(TileLoops vectors) {
    vectors.codes_bytes = kCodesBytes;
    vectors.begin = begin;
    vectors.end = end;
    vectors.many = many;
    return vectors;
  }
};

constexpr SimdTable table() {
  SimdTable t = Loops<Words>::table();
  t.i2 = Tmm<I2Planes<Words>>::loops(t.i2);
  t.b3 = Tmm<B3Planes<Words>>::loops(t.b3);
  // s8 bytes are codes already, but they are copied as well: the tiles of the last step may go beyond the weights.
  t.s8 = Tmm<S8Planes<Words>>::loops(t.s8);
  t.s4 = Tmm<S4Planes<Words>>::loops(t.s4);
  return t;
}

}  // namespace

extern const SimdTable x86_amx_int8;
constinit const SimdTable x86_amx_int8 = table();

}  // namespace tern::dot
