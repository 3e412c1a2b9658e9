// The order of a filter's weights: pixels of the window row by row, each with its channels, so that a filter's row
// meets neighbouring bytes of an image that has its channels innermost.
//
//     by pixel   a pixel's channels are padded to whole lines: kernels read the image where it lies
//     dense      pixels follow each other, with padding at the end: kernels gather the window of an output pixel first.
//                For few channels, or where padding every pixel would cost too much.
//     depthwise  dense, and once more by tap: a weight of each channel, which kernels read instead
//
// Groups are packed one after the other, each from a whole tile on.
#pragma once

#include <vector>

#include "base/checked.h"
#include "ops/dot/packed_weights.h"
#include "ops/dot/simd_table.h"
#include "tern/conv2d.h"

namespace tern {
namespace conv2d {

// The most taps whose products with floats are added up in one chain.
inline constexpr std::int64_t kDepthwiseTaps = 128;

struct FilterOrder {
  FilterShape shape;
  bool dense = false;
  bool depthwise = false;
  std::int64_t pixel_columns = 0;  // of a pixel of the window, with padding
  std::int64_t columns = 0;        // of a filter; a line's padding may follow
  std::int64_t group_filters = 0;  // of a group, and ...
  std::int64_t group_rows = 0;     // ... rounded up to whole tiles

  static FilterOrder of(const FilterShape& shape, Format format) {
    const std::int64_t line = Tile16::columns_of(format), padded = ceil_div(shape.in_channels, line) * line;
    FilterOrder order{.shape = shape};
    // Gathering costs about as much as an eighth more columns.
    order.dense = shape.height * shape.width > 1 && padded - shape.in_channels > shape.in_channels / 8;
    order.depthwise = shape.in_channels == 1 && shape.groups > 1 && shape.out_channels == shape.groups &&
                      shape.height * shape.width <= kDepthwiseTaps;
    order.dense = order.dense || order.depthwise;
    order.pixel_columns = order.dense ? shape.in_channels : padded;
    order.columns = shape.height * shape.width * order.pixel_columns;
    order.group_filters = shape.groups > 0 ? shape.out_channels / shape.groups : 0;
    order.group_rows = order.depthwise ? 1 : ceil_div(order.group_filters, Tile16::kRows) * Tile16::kRows;
    return order;
  }
  [[nodiscard]] std::int64_t rows() const { return group_rows * shape.groups; }
  [[nodiscard]] std::int64_t row_of(std::int64_t filter) const {
    return filter / group_filters * group_rows + filter % group_filters;
  }
  [[nodiscard]] std::int64_t column_of(std::int64_t channel, std::int64_t ty, std::int64_t tx) const {
    return (ty * shape.width + tx) * pixel_columns + channel;
  }
};

// The columns of a filter as they are stored in rows of canonical codes.
constexpr std::int64_t canonical_columns(const FilterShape& shape) {
  return shape.in_channels * shape.height * shape.width;
}

// Checks that a shape has positive sizes, groups that divide, and a size that memory can have.
Status check_filters(std::string_view where, const FilterShape& shape, const Granularity& granularity, Format format);

// Writes rows first .. first + count - 1 of the packed order, as dense canonical codes of the format, from filters that
// lie as canonical rows. Rows and columns of padding become 0. Refuses codes that are no trits.
struct FilterRows {
  const FilterOrder& order;
  const std::uint8_t* codes = nullptr;
  std::int64_t stride_bytes = 0;
  Format format = Format::i2;
  Status write(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  // The weights of depthwise filters by tap, as State has them.
  [[nodiscard]] std::vector<std::int16_t> by_tap() const;
};
// Weights of a tap, with padding.
constexpr std::int64_t tap_stride(const FilterShape& shape) {
  constexpr std::int64_t kChannels = dot::DepthwiseRow<float, float>::kChannels;
  return ceil_div(shape.groups, kChannels) * kChannels;
}

}  // namespace conv2d

struct PackedFilters::State {
  conv2d::FilterOrder order;
  Granularity granularity;
  PackedWeights weights;  // order.rows() rows of order.columns
  // Depthwise: [taps][channels], channels padded for the loops. Other filters have none.
  std::vector<std::int16_t> by_tap;
  std::uint64_t checksum = 0;
};

}  // namespace tern
