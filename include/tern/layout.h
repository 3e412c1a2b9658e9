// Other projects' orders of packed ternary weights, exact both ways, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/export.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// docs/formats.md has the bit pictures.
enum class Layout : std::uint8_t {
  ms_gpu,        // Microsoft's BitNet GPU kernels: tiles of 16 rows by 32 columns
  i2,            // Tern's own rows, four trits a byte
  b3,            // Tern's own rows, five trits a byte
  hf_packed,     // Hugging Face checkpoints: quarters of the rows on top of each other
  i2_s_x86_128,  // "i2_s.x86_128": bitnet.cpp's, runs of 128 columns
  i2_s_arm_64,   // "i2_s.arm_64": bitnet.cpp's on ARM, runs of 64 columns
  i2_s_1x4,      // "i2_s.1x4": bitnet.cpp's built without ACT_PARALLEL, four rows side by side
  tl1,           // bitnet.cpp's for look-up tables on ARM: pairs
  tl2,           // bitnet.cpp's for look-up tables on x86: triples, and pairs at the end of a row
  tq1_0,         // ggml's, five trits a byte in blocks of 256
  tq2_0,         // ggml's, four trits a byte in blocks of 256
};

TERN_API std::string_view name(Layout);
TERN_API Result<Layout> parse_layout(std::string_view);

// The tiles of tl1 and tl2, which bitnet.cpp keeps in its kernel_config.ini and not in the files of weights.
struct LutTiles {
  std::int64_t tile_rows = 0;     // bm there: n is a multiple
  std::int64_t tile_columns = 0;  // bk: of tl1 k is a multiple
  std::int64_t block_rows = 0;    // bmm: 32, for tl1 also 64; tile_rows is a multiple
  friend bool operator==(const LutTiles&, const LutTiles&) = default;
};

// A layout with what its bytes do not say.
struct LayoutSpec {
  Layout layout = Layout::i2;
  LutTiles tiles = {};  // of tl1 and tl2
  // NOLINTNEXTLINE(google-explicit-constructor): most layouts need no more
  LayoutSpec(Layout layout_ = Layout::i2, LutTiles tiles_ = {}) : layout(layout_), tiles(tiles_) {}
};

// Who shares a scale in the layout's bytes: the tensor (i2_s, tl1, tl2) or blocks of 256 (tq1_0, tq2_0). None where
// scales are a tensor of their own (ms_gpu, i2, b3, hf_packed).
TERN_API std::optional<Granularity> scales_in(Layout);

// The bytes of [n, k] weights, scales and padding included. A shape that the layout cannot hold, or tiles that it
// cannot have, is an unsupported that says why.
TERN_API Result<std::size_t> layout_bytes(const LayoutSpec&, std::int64_t n, std::int64_t k);
// How many rows lie together: pieces of import_rows() and export_rows() begin and end at multiples of it (but any rows
// of hf_packed can be imported).
TERN_API Result<std::int64_t> layout_row_block(const LayoutSpec&, std::int64_t n, std::int64_t k);
// How many scales lie in the bytes.
TERN_API Result<std::int64_t> layout_scales(const LayoutSpec&, std::int64_t n, std::int64_t k);

// To canonical i2 codes, u8 [n, ceil(k/4)], whose rows may be strided, and layout_scales() scales, finite and above 0.
// Bits that no trit gives are an invalid_quantized_value with their element, a scale that is none an invalid_scale with
// its range; codes and scales are then unspecified. A scale of 0 makes zeros, and no scale of Tern's is 0: a block of
// tq1_0 or tq2_0 with it gets trits 0 and the scale 1; so does a tensor whose trits are all 0.
TERN_API Status import_weights(const LayoutSpec&, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                               const TensorView& codes, std::span<float> scales);

// Rows first .. first + count - 1.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// The same for some rows: codes are [rows.count, ceil(k/4)], scales those of the rows (of a tensor: the one). `bytes`
// are those of the whole matrix. Pieces may be imported by several threads at once.
TERN_API Status import_rows(const LayoutSpec&, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                            RowRange rows, const TensorView& codes, std::span<float> scales);

// What to do with scales that a layout cannot hold: f32 where it has f16, several where it has one.
enum class Lossy : std::uint8_t {
  refuse,  // an unsupported that names the first one
  allow,   // the nearest f16; the mean of those that share one
};
struct ScaleLoss {
  std::int64_t changed = 0;     // of the scales given
  double largest_relative = 0;  // change of one, as a share of it
  std::int64_t index = -1;      // of that scale
};
struct FittedScales {
  std::vector<float> scales;  // layout_scales() of them, which the layout holds exactly
  ScaleLoss loss;
};
// Scales as the layout has them. `scales` are as ternary_quantize writes them for the granularity, of n rows: all of
// them, or for layouts with scales by blocks those of a piece. A scale that meets no trit but 0 need not fit: it has no
// say, and where no other has one either, the first (or for a block 1) stands. Errors and the loss count from
// `first_scale` on: the place of a piece's first scale among all.
TERN_API Result<FittedScales> fit_scales(Layout, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                                         std::span<const float> scales, const Granularity& granularity,
                                         Lossy lossy = Lossy::refuse, std::int64_t first_scale = 0);

// From canonical i2 codes, with the same checks. Scales are none where the layout has none: they must be kept apart.
TERN_API Result<ScaleLoss> export_weights(const LayoutSpec&, const ConstTensorView& codes, std::int64_t n,
                                          std::int64_t k, std::span<const float> scales, const Granularity& granularity,
                                          std::span<std::uint8_t> bytes, Lossy lossy = Lossy::refuse);
// Some rows, with scales as fit_scales() gives them. The piece with the last row writes what lies behind the codes.
TERN_API Status export_rows(const LayoutSpec&, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                            RowRange rows, std::span<const float> scales, std::span<std::uint8_t> bytes);

// import_weights() and export_weights() of layouts without scales.
TERN_API Status import_codes(const LayoutSpec&, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                             const TensorView& codes);
TERN_API Status export_codes(const LayoutSpec&, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                             std::span<std::uint8_t> bytes);

// The tiles of every shape in the text of a kernel_config.ini.
struct KernelTiles {
  std::int64_t n = 0;  // m there
  std::int64_t k = 0;
  LutTiles tiles;
};
TERN_API Result<std::vector<KernelTiles>> parse_kernel_config(std::string_view text);
// Those of one shape; its absence is an unsupported that lists the shapes there are.
TERN_API Result<LutTiles> tiles_for(std::span<const KernelTiles> config, std::int64_t n, std::int64_t k);

// Which of the orders of i2_s bytes may be in, by what can be seen: size, shape, codes 3 and the scale. All orders are
// permutations of the same codes, so bytes alone never tell one from another: shape or the file's metadata must.
struct I2sReading {
  Layout layout = Layout::i2_s_x86_128;
  bool possible = false;
  std::string why;
};
struct I2sEvidence {
  std::vector<I2sReading> readings;  // one of each order
  float scale = 0;                   // as it lies behind the codes
};
TERN_API Result<I2sEvidence> weigh_i2_s(std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k);
// The only order that is possible. None is a corrupt_file; several are an invalid_argument that names the flag to give.
TERN_API Result<Layout> detect_i2_s(std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k);

// What the `weight_scale` beside hf_packed weights does: Tern's scales multiply.
enum class WeightScale : std::uint8_t { multiplies, divides };
TERN_API std::string_view name(WeightScale);
// By the class of layers that config.json names in quantization_config.linear_class: autobitlinear multiplies,
// bitlinear divides. Anything else, nothing included, is an unsupported that names the flag to give.
TERN_API Result<WeightScale> weight_scale_of(std::string_view linear_class);
// The same from the text of config.json.
TERN_API Result<WeightScale> weight_scale_of_config(std::string_view config_json);

}  // namespace tern
