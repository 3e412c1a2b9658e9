// Packs filters: puts their weights in the order of the window's pixels, then into tiles like linear's.
#include "ops/conv2d/filters.h"

#include <algorithm>
#include <vector>

#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/dot/row_pieces.h"

namespace tern::conv2d {

Status check_filters(std::string_view where, const FilterShape& s, const Granularity& granularity, Format format) {
  const auto refuse = [&](std::string_view what) {
    return error(Code::invalid_argument, where, "filters of [{}, {}, {}, {}] in {} groups: {}", s.out_channels,
                 s.in_channels, s.height, s.width, s.groups, what);
  };
  if (s.out_channels < 1 || s.in_channels < 1 || s.height < 1 || s.width < 1 || s.groups < 1)
    return refuse("every size must be 1 or more");
  if (s.out_channels % s.groups != 0) return refuse("the groups do not divide the output channels");
  if (!is_weights(format)) return error(Code::unsupported, where, "filters are i2, b3, s8 or s4, not {}", name(format));
  if (granularity.kind == Granularity::Kind::group)
    return error(Code::unsupported, where, "filters have one scale for all or one each, not scales by {}",
                 name(granularity));
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  auto weights = checked_mul(s.height, s.width);
  if (weights) weights = checked_mul(*weights, s.in_channels);
  if (weights) weights = checked_mul(*weights, s.out_channels);
  if (!weights || *weights > (std::int64_t{1} << 50) || s.out_channels > kMost || s.groups > kMost ||
      s.in_channels > kMost || s.height > kMost || s.width > kMost)
    return refuse("that is more than 2^30 along an axis, or 2^50 weights");
  return {};
}

Status FilterRows::write(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  const FilterShape& shape = order.shape;
  const std::int64_t k = canonical_columns(shape), taps = shape.height * shape.width;
  std::vector<std::int8_t> canonical(static_cast<std::size_t>(k)), row(static_cast<std::size_t>(order.columns));
  for (std::int64_t r = first; r < first + count; ++r, out += row_bytes(format, order.columns)) {
    std::ranges::fill(row, std::int8_t{0});
    const std::int64_t in_group = r % order.group_rows;
    if (in_group < order.group_filters) {
      const std::int64_t filter = r / order.group_rows * order.group_filters + in_group;
      const std::uint8_t* from = codes + filter * stride_bytes;
      if (is_trits(format))
        if (const std::int64_t wrong = first_invalid_code(format, Scheme::absmean, from, k); wrong >= 0 && wrong < k)
          return invalid_code_at(format, from, k, {filter, wrong});
      read_codes(format, from, 0, k, canonical.data());
      for (std::int64_t c = 0; c < shape.in_channels; ++c)
        for (std::int64_t tap = 0; tap < taps; ++tap)
          row[static_cast<std::size_t>(tap * order.pixel_columns + c)] =
              canonical[static_cast<std::size_t>(c * taps + tap)];
    }
    pack_row(format, row.data(), order.columns, out);
  }
  return {};
}

std::vector<std::int16_t> FilterRows::by_tap() const {
  const FilterShape& shape = order.shape;
  const std::int64_t taps = shape.height * shape.width;
  std::vector<std::int16_t> weights(static_cast<std::size_t>(taps * tap_stride(shape)));
  for (std::int64_t channel = 0; channel < shape.groups; ++channel)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      weights[static_cast<std::size_t>(tap * tap_stride(shape) + channel)] =
          static_cast<std::int16_t>(read_code(format, codes + channel * stride_bytes, tap));
  return weights;
}

}  // namespace tern::conv2d
