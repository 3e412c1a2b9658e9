// How conv2d's CPU driver cuts a problem: blocks of output pixels, the part of the image that a block needs, the lines
// of weights that are decoded at a time; and the workspace for all this.
//
// A block stages its part of the image in a slot's scratch memory: rows of pixels with all channels of a group, int8 or
// float, with zeros where the image is padded to the left and right. Rows above and below the image are left out: the
// taps that would meet them are skipped.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "format/tile16.h"
#include "memory/workspace.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dot/staging.h"

namespace tern::conv2d {

// The driver is written in the words of dot: tiles, lines, runs, blocks of the epilogue.
using namespace dot;  // NOLINT(google-build-using-namespace)

inline constexpr std::int64_t kBlockPixels = 256;  // most output pixels of a block
inline constexpr std::int64_t kStagedBytes =
    256 * 1024;  // about the most staged bytes of a block, unless one row has more
inline constexpr auto kTritsBytes = kMaxTiles * kTileRows * kFloatColumns * static_cast<std::int64_t>(sizeof(float));

struct Blocks {
  bool floats = false;  // activations stay float
  bool depthwise = false;
  std::int64_t channels = 0, groups = 0;  // of a group, and their number; depthwise filters are one group
  const TileLoops* loops = nullptr;
  std::int64_t lines = 0;              // of a filter
  std::int64_t pixel = 0;              // staged elements of an input pixel
  std::int64_t element = 1;            // bytes of each: int8, int16 for depthwise filters, or float
  std::int64_t height = 0, width = 0;  // output pixels of a block
  // Staged rows for the first output row, and for each further one. Rows of taps lie tap_rows apart.
  std::int64_t first_rows = 0, more_rows = 0, tap_rows = 0;
  std::int64_t staged_width = 0;  // input pixels
  std::int64_t window = 0;        // elements of a gathered window with its padding; 0: kernels read the staged rows
  std::int64_t chunk_lines = 0;   // decoded at a time
  std::int64_t chunks = 0;
  std::int64_t line_length = 0;  // the most elements that are quantized at a time

  static Blocks of(const SimdTable& table, const Conv2d::Problem& p, const FilterOrder& order, Conv2d::Size y) {
    const FilterShape& f = p.filters;
    Blocks b{.floats = p.math == LinearMath::w2_float, .loops = &loops_of(table, p.format)};
    const std::int64_t columns = Tile16::columns_of(p.format);
    b.depthwise = order.depthwise;
    b.element = b.floats ? 4 : b.depthwise ? 2 : 1;
    b.channels = b.depthwise ? f.groups : f.in_channels;
    b.groups = b.depthwise ? 1 : f.groups;
    b.lines = ceil_div(order.columns, columns);
    b.pixel = b.depthwise ? b.channels : order.pixel_columns;
    // Whole cache lines, and some bytes more: windows a page apart would compete for the same cache sets.
    if (order.dense && !b.depthwise) b.window = (ceil_div(b.lines * columns, 64) + 1) * 64;
    b.width = even_part(y.width, kBlockPixels);
    b.staged_width = (b.width - 1) * p.stride_w + (f.width - 1) * p.dilation_w + 1;
    // Rows of the image in their order, or the rows of each output row's taps, whatever are fewer.
    const bool in_order = p.stride_h + (f.height - 1) * p.dilation_h <= 2 * f.height;
    b.tap_rows = in_order ? p.dilation_h : 1;
    b.first_rows = in_order ? (f.height - 1) * p.dilation_h + 1 : f.height;
    b.more_rows = in_order ? p.stride_h : f.height;
    const std::int64_t row_bytes = b.staged_width * b.pixel * b.element, window_bytes = b.width * b.window * b.element;
    std::int64_t most = std::max<std::int64_t>(1, kBlockPixels / b.width);
    const std::int64_t room = (kStagedBytes - b.first_rows * row_bytes) / (b.more_rows * row_bytes + window_bytes);
    most = std::clamp<std::int64_t>(room, 1, most);
    b.height = even_part(y.height, most);
    const std::int64_t decoded = columns / kPlaneColumns * kLineBytes;
    const std::int64_t chunk =
        b.floats ? kFloatColumns / columns : b.loops->codes_bytes / (b.loops->max_tiles * decoded);
    b.chunks = std::max<std::int64_t>(1, ceil_div(b.lines, chunk));
    // Floats are summed in pieces of the same length whatever the kernel.
    b.chunk_lines = b.floats ? chunk : ceil_div(b.lines, b.chunks);
    b.chunks = ceil_div(b.lines, b.chunk_lines);
    b.line_length = p.x_order == ImageOrder::nchw ? b.staged_width : b.staged_width * b.pixel;
    return b;
  }
  [[nodiscard]] std::int64_t rows() const { return first_rows + (height - 1) * more_rows; }
  [[nodiscard]] std::int64_t pixels() const { return height * width; }
  [[nodiscard]] std::int64_t ld() const {
    return depthwise ? DepthwiseRow<float, float>::kChannels : loops->max_tiles * kTileRows;
  }
  // Pixels whose sums are kept at a time.
  [[nodiscard]] std::int64_t summed() const { return depthwise ? width : pixels(); }

 private:
  // The size of about equal parts of at most `most`.
  static std::int64_t even_part(std::int64_t n, std::int64_t most) { return ceil_div(n, ceil_div(n, most)); }
};

// A slot's scratch memory.
struct Scratch {
  std::byte* x = nullptr;               // staged rows
  bool* staged = nullptr;               // which rows are there already
  std::int32_t* pixel_sums = nullptr;   // of staged pixels
  std::int32_t* column_sums = nullptr;  // the same, summed over the taps of a column
  std::int8_t* windows = nullptr;       // gathered windows ...
  float* float_windows = nullptr;       // ... or the same as floats
  std::int32_t* x_sums = nullptr;       // of the pixels' windows, times the code of 0
  float* scales = nullptr;              // of the pixels: their image's
  std::uint8_t* codes = nullptr;        // decoded lines, as bytes or floats
  std::int32_t* sums = nullptr;         // [pixels][ld]; floats in float modes
  double* totals = nullptr;             // float modes: the same in f64
  std::byte* y = nullptr;               // results and residuals of a row, where y has its channels outside
  std::byte* residual = nullptr;
  std::int8_t* line = nullptr;  // a line of a channel, quantized ...
  float* float_line = nullptr;  // ... or widened
  float* clean = nullptr;       // a line, saturated
  RowOfTokens<std::int8_t, std::int32_t>* rows = nullptr;
  RowOfTokens<float, float>* float_rows = nullptr;

  Scratch(WorkspaceLedger& ledger, const Blocks& b, const Conv2d::Problem& p) {
    const auto book = [&ledger]<class T>(T*& part, std::int64_t count) {
      part = ledger.book<T>(static_cast<std::size_t>(count));
    };
    const std::int64_t elements = b.rows() * b.staged_width * b.pixel + 64, pixels = b.pixels();
    book(x, elements * b.element);
    if (b.floats) {
      book(float_windows, pixels * b.window);
      book(totals, b.depthwise ? 0 : pixels * b.ld());
      book(float_line, b.line_length);
      book(float_rows, b.height);
    } else {
      book(pixel_sums, b.rows() * b.staged_width);
      book(column_sums, b.staged_width);
      book(windows, pixels * b.window);
      book(x_sums, pixels);
      book(scales, pixels);
      book(line, b.line_length);
      book(rows, b.height);
    }
    book(staged, b.rows());
    book(codes, b.floats ? std::max(b.loops->codes_bytes, kTritsBytes) : b.loops->codes_bytes);
    book(sums, b.summed() * b.ld());
    const std::int64_t tile = p.y_order == ImageOrder::nchw && p.y_dtype != DType::i32 ? b.width * b.ld() * 4 : 0;
    book(y, tile);
    book(residual, p.residual ? tile : 0);
    book(clean, p.non_finite == NonFinite::saturate ? b.line_length : 0);
  }
};

// Books the same parts at plan time and at run time.
struct Memory {
  float* scales = nullptr;           // of the images
  std::uint32_t* largest = nullptr;  // of the images: the bits of their largest magnitude
  std::int64_t* offsets = nullptr;   // of the lines, or of the taps: elements from a window's first
  std::byte* slots = nullptr;
  std::size_t slot_bytes = 0;

  Memory(WorkspaceLedger& ledger, const Blocks& b, const Conv2d::Problem& p, std::int64_t images, int count) {
    const auto book = [&ledger]<class T>(T*& part, std::int64_t n) {
      part = ledger.book<T>(static_cast<std::size_t>(n));
    };
    book(scales, images);
    book(largest, images);
    book(offsets, b.depthwise ? p.filters.height * p.filters.width : b.lines);
    WorkspaceLedger one(nullptr);
    const Scratch scratch(one, b, p);
    slot_bytes = one.bytes();
    slots = ledger.book<std::byte>(slot_bytes * static_cast<std::size_t>(count));
  }
};

}  // namespace tern::conv2d
