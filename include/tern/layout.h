// Other projects' layouts of packed ternary weights: lossless conversion in both directions, on the host.
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
  std::int64_t block_rows = 0;    // bmm: 32, for tl1 also 64; tile_rows is a multiple of it
  friend bool operator==(const LutTiles&, const LutTiles&) = default;
};

// A layout, with the parameters that its bytes do not record.
struct LayoutSpec {
  Layout layout = Layout::i2;
  LutTiles tiles = {};  // of tl1 and tl2
  // NOLINTNEXTLINE(google-explicit-constructor): most layouts need no more
  LayoutSpec(Layout layout_ = Layout::i2, LutTiles tiles_ = {}) : layout(layout_), tiles(tiles_) {}
};

// Which weights share a scale that is stored inside the layout's bytes: the whole tensor (i2_s, tl1, tl2) or blocks of
// 256 (tq1_0, tq2_0). Empty where the scales are a tensor of their own (ms_gpu, i2, b3, hf_packed).
TERN_API std::optional<Granularity> scales_in(Layout);

// The bytes of [n, k] weights, scales and padding included. A shape that the layout cannot hold, or an invalid tile, is
// an `unsupported` error that says why.
TERN_API Result<std::size_t> layout_bytes(const LayoutSpec&, std::int64_t n, std::int64_t k);
// How many rows are stored interleaved. Pieces for import_rows() and export_rows() begin and end at multiples of it
// (exception: hf_packed can import any rows).
TERN_API Result<std::int64_t> layout_row_block(const LayoutSpec&, std::int64_t n, std::int64_t k);
// How many scales are stored inside the bytes.
TERN_API Result<std::int64_t> layout_scales(const LayoutSpec&, std::int64_t n, std::int64_t k);

// Converts to canonical i2 codes, u8 [n, ceil(k/4)] with rows that may be strided, and layout_scales() scales. Bits
// that encode no trit are an invalid_quantized_value whose index is the element; a scale that is not finite and
// positive is an invalid_scale whose index is its range; after either, codes and scales are unspecified. A scale of 0
// stands for zeros in these layouts, but Tern's scales are positive: a block of tq1_0 or tq2_0 with scale 0 becomes
// trits 0 with scale 1, and so does a tensor whose trits are all 0.
TERN_API Status import_weights(const LayoutSpec&, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                               const TensorView& codes, std::span<float> scales);

// Rows first to first + count - 1.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// The same for some rows. Codes are [rows.count, ceil(k/4)], scales those of these rows (or the tensor's one); `bytes`
// are those of the whole matrix. Several threads may import pieces at once.
TERN_API Status import_rows(const LayoutSpec&, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                            RowRange rows, const TensorView& codes, std::span<float> scales);

// What to do with scales that a layout cannot hold, such as f32 where it stores f16, or several where it stores one.
enum class Lossy : std::uint8_t {
  refuse,  // an `unsupported` error that names the first one
  allow,   // round to the nearest f16; where several must become one, take their mean
};
struct ScaleLoss {
  std::int64_t changed = 0;     // how many of the given scales changed
  double largest_relative = 0;  // the largest change, relative to the scale
  std::int64_t index = -1;      // the scale with the largest change
};
struct FittedScales {
  std::vector<float> scales;  // layout_scales() of them, all exact in the layout
  ScaleLoss loss;
};
// Converts scales to those that the layout stores. `scales` are as ternary_quantize writes them for this granularity
// and n rows: all of them, or, for layouts with scales by block, those of a piece. A group whose trits are all 0 may
// have any scale, because the scale does not affect its values; if that is true of all groups, the first scale is kept
// (1 for a block). In errors and in the loss, indices count from `first_scale`, the index of the piece's first scale in
// the matrix.
TERN_API Result<FittedScales> fit_scales(Layout, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                                         std::span<const float> scales, const Granularity& granularity,
                                         Lossy lossy = Lossy::refuse, std::int64_t first_scale = 0);

// Converts from canonical i2 codes, with the same checks. Pass no scales to a layout that does not store them; keep
// them separately.
TERN_API Result<ScaleLoss> export_weights(const LayoutSpec&, const ConstTensorView& codes, std::int64_t n,
                                          std::int64_t k, std::span<const float> scales, const Granularity& granularity,
                                          std::span<std::uint8_t> bytes, Lossy lossy = Lossy::refuse);
// Some rows, with scales as fit_scales() returns them. The piece with the last row also writes the bytes after the
// codes.
TERN_API Status export_rows(const LayoutSpec&, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                            RowRange rows, std::span<const float> scales, std::span<std::uint8_t> bytes);

// import_weights() and export_weights() for layouts that store no scales.
TERN_API Status import_codes(const LayoutSpec&, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                             const TensorView& codes);
TERN_API Status export_codes(const LayoutSpec&, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                             std::span<std::uint8_t> bytes);

// The tiles of each shape listed in a kernel_config.ini.
struct KernelTiles {
  std::int64_t n = 0;  // m there
  std::int64_t k = 0;
  LutTiles tiles;
};
TERN_API Result<std::vector<KernelTiles>> parse_kernel_config(std::string_view text);
// The tiles of one shape; if it is not listed, an `unsupported` error that lists the shapes that are.
TERN_API Result<LutTiles> tiles_for(std::span<const KernelTiles> config, std::int64_t n, std::int64_t k);

// Which of the i2_s layouts some bytes may have, judging by size, shape, invalid codes and the scale. All i2_s layouts
// permute the same codes, so the codes alone never decide: the shape or the file's metadata must.
struct I2sReading {
  Layout layout = Layout::i2_s_x86_128;
  bool possible = false;
  std::string why;
};
struct I2sEvidence {
  std::vector<I2sReading> readings;  // one for each layout
  float scale = 0;                   // the one stored after the codes
};
TERN_API Result<I2sEvidence> weigh_i2_s(std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k);
// The only possible one of them. If there is none, the bytes are a `corrupt_file`; if there are several, an
// invalid_argument lists them and names the option that decides.
TERN_API Result<Layout> detect_i2_s(std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k);

// What the `weight_scale` beside hf_packed weights does. Tern's own scales always multiply.
enum class WeightScale : std::uint8_t { multiplies, divides };
TERN_API std::string_view name(WeightScale);
// By quantization_config.linear_class of config.json: autobitlinear multiplies, bitlinear divides. Anything else, also
// an empty text, is an `unsupported` error that says which option to give.
TERN_API Result<WeightScale> weight_scale_of(std::string_view linear_class);
// The same from the text of config.json.
TERN_API Result<WeightScale> weight_scale_of_config(std::string_view config_json);

}  // namespace tern
