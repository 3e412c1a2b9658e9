// PackedFilters: checks the canonical filters, puts them in the order of the window, and packs them like linear's rows.
#include <vector>

#include "base/errors.h"
#include "base/views.h"
#include "format/checksum.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/conv2d/filters.h"
#include "plan/pack.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "PackedFilters";

// Scales in the packed order of rows; 1 for rows of padding.
std::vector<float> packed_scales(const conv2d::FilterOrder& order, const Granularity& granularity,
                                 const float* scales) {
  if (granularity.kind == Granularity::Kind::tensor) return {*scales};
  std::vector<float> packed(static_cast<std::size_t>(order.rows()), 1.0F);
  for (std::int64_t filter = 0; filter < order.shape.out_channels; ++filter)
    packed[static_cast<std::size_t>(order.row_of(filter))] = scales[filter];
  return packed;
}

}  // namespace

Result<std::size_t> PackedFilters::packed_bytes(const FilterShape& shape, const Granularity& granularity,
                                                Format format) {
  TERN_RETURN_IF_ERROR(conv2d::check_filters(kWhere, shape, granularity, format));
  const auto order = conv2d::FilterOrder::of(shape, format);
  return packed_weights_bytes(order.rows(), order.columns, granularity, format);
}

Result<PackedFilters> PackedFilters::pack(const Context& context, const ConstTensorView& codes,
                                          const ConstTensorView& scales, const FilterShape& shape,
                                          const Granularity& granularity, Format format) {
  if (context.device().id.kind != DeviceKind::cpu)
    return error(Code::unsupported, kWhere, "conv2d has no kernels for GPUs yet; use a context of the CPU");
  TERN_ASSIGN(bytes, packed_bytes(shape, granularity, format));
  const std::int64_t k = conv2d::canonical_columns(shape);
  TERN_ASSIGN(rows, as_rows({kWhere}, "codes", codes, code_dtype(format), shape.out_channels, row_bytes(format, k)));
  const std::int64_t count = make_ranges(shape.out_channels, k, granularity).total;
  TERN_RETURN_IF_ERROR(check_dense({kWhere}, "scales", scales, DType::f32, count));
  const auto order = conv2d::FilterOrder::of(shape, format);
  const conv2d::FilterRows filters{.order = order,
                                   .codes = static_cast<const std::uint8_t*>(codes.data),
                                   .stride_bytes = rows.stride,
                                   .format = format};
  const std::vector<float> given(static_cast<const float*>(scales.data),
                                 static_cast<const float*>(scales.data) + count);
  const CanonicalWeights canonical{.codes = filters.codes,
                                   .stride_bytes = rows.stride,
                                   .scales = given.data(),
                                   .n = shape.out_channels,
                                   .k = k,
                                   .granularity = granularity,
                                   .format = format};
  TERN_RETURN_IF_ERROR(check_weight_scales(canonical));
  const std::vector<float> arranged = packed_scales(order, granularity, given.data());
  TERN_ASSIGN(place, PackedPlace::make(context, bytes, {}));
  RowReader reader{1, [&filters](std::int64_t first, std::int64_t some, std::uint8_t* out) {
                     return filters.write(first, some, out);
                   }};
  const CanonicalWeights in_order{.stride_bytes = row_bytes(format, order.columns),
                                  .scales = arranged.data(),
                                  .n = order.rows(),
                                  .k = order.columns,
                                  .granularity = granularity,
                                  .format = format};
  TERN_ASSIGN(packed, tern::pack(context, {.weights = in_order, .reader = std::move(reader)}, std::move(place)));
  const std::uint64_t sum =
      checksum_rows({filters.codes, shape.out_channels, row_bytes(format, k), rows.stride}, scale_bytes(canonical));
  return PackedFilters(
      std::make_shared<const State>(State{.order = order,
                                          .granularity = granularity,
                                          .weights = std::move(packed),
                                          .by_tap = order.depthwise ? filters.by_tap() : std::vector<std::int16_t>(),
                                          .checksum = sum}));
}

Result<PackedFilters> PackedFilters::pack(const Context& context, const QuantizedTensor& q, const FilterShape& shape) {
  if (!is_trits(q.format))
    return error(Code::unsupported, kWhere, "{} codes of scheme {} are not packed trits; quantize to i2 or b3",
                 name(q.format), name(q.scheme));
  return pack(context, q.codes.view(), q.scales.view(), shape, q.granularity, q.format);
}

Result<PackedFilters> PackedFilters::pack(const Context& context, const LayoutSpec& spec,
                                          std::span<const std::uint8_t> bytes, const FilterShape& shape,
                                          std::span<const float> scales, const Granularity& given_granularity) {
  const std::optional<Granularity> inside = scales_in(spec.layout);
  if (inside && !scales.empty())
    return error(Code::invalid_argument, kWhere, "{} has its scales in its bytes; {} more were given",
                 name(spec.layout), scales.size());
  const Granularity granularity = inside.value_or(given_granularity);
  TERN_RETURN_IF_ERROR(conv2d::check_filters(kWhere, shape, granularity, Format::i2));
  const std::int64_t n = shape.out_channels, k = conv2d::canonical_columns(shape);
  const std::int64_t count = make_ranges(n, k, granularity).total;
  std::vector<float> all(scales.begin(), scales.end());
  if (inside) all.resize(static_cast<std::size_t>(count));
  if (static_cast<std::int64_t>(all.size()) != count)
    return error(Code::invalid_argument, kWhere, "{} filters by {} have {} scales, {} were given", n, name(granularity),
                 count, all.size());
  TERN_ASSIGN(codes, Tensor::allocate(host_memory(), DType::u8, {n, row_bytes(Format::i2, k)}, "filters"));
  TERN_RETURN_IF_ERROR(import_weights(spec, bytes, n, k, codes.view(), inside ? std::span(all) : std::span<float>()));
  return pack(context, std::as_const(codes).view(), {all.data(), DType::f32, {count}}, shape, granularity);
}

const FilterShape& PackedFilters::shape() const {
  static constexpr FilterShape kNone;
  return state_ ? state_->order.shape : kNone;
}
const Granularity& PackedFilters::granularity() const {
  static constexpr Granularity kNone;
  return state_ ? state_->granularity : kNone;
}
Format PackedFilters::format() const { return state_ ? state_->weights.format() : Format::i2; }
std::size_t PackedFilters::bytes() const { return state_ ? state_->weights.bytes() : 0; }
std::uint64_t PackedFilters::checksum() const { return state_ ? state_->checksum : 0; }

}  // namespace tern
