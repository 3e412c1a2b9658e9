// Packs weights from other projects' layouts, by way of canonical rows, in pieces.
#include <atomic>
#include <vector>

#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "plan/pack.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "pack";

// The weights as the caller gave them.
struct Given {
  const LayoutSpec& spec;
  std::span<const std::uint8_t> bytes;
  std::int64_t n, k;
  Granularity granularity;
  std::vector<float>& scales;  // filled from the bytes; empty if the caller gave the scales

  // Reads rows into dense `codes`, and their scales into their places in `scales`.
  Status read(std::int64_t first, std::int64_t count, std::uint8_t* codes) const {
    const TensorView view(codes, DType::u8, {count, row_bytes(Format::i2, k)});
    const RowRange rows{first, count};
    if (granularity.kind != Granularity::Kind::tensor || scales.empty()) {
      const auto per_row = static_cast<std::int64_t>(scales.size()) / n;
      return import_rows(spec, bytes, n, k, rows, view,
                         std::span(scales).subspan(static_cast<std::size_t>(first * per_row),
                                                   static_cast<std::size_t>(count * per_row)));
    }
    float scale = 0;
    TERN_RETURN_IF_ERROR(import_rows(spec, bytes, n, k, rows, view, {&scale, 1}));
    std::atomic_ref(scales[0]).store(scale, std::memory_order_relaxed);  // every piece reads the same value
    return {};
  }
};

}  // namespace

Result<PackedWeights> PackedWeights::pack(const Context& context, const LayoutSpec& spec,
                                          std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                                          std::span<const float> scales, const Granularity& given_granularity,
                                          std::span<std::byte> memory) {
  TERN_ASSIGN(needed, layout_bytes(spec, n, k));
  if (bytes.size() != needed)
    return error(Code::invalid_argument, kWhere, "{} x {} in {} are {} bytes, {} were given", n, k, name(spec.layout),
                 needed, bytes.size());
  if (bytes.data() == nullptr && needed > 0) return error(Code::invalid_argument, kWhere, "the bytes are null");
  const std::optional<Granularity> inside = scales_in(spec.layout);
  if (inside && !scales.empty())
    return error(Code::invalid_argument, kWhere, "{} has its scales in its bytes; {} more were given",
                 name(spec.layout), scales.size());
  const Granularity granularity = inside.value_or(given_granularity);
  TERN_ASSIGN(packed, packed_bytes(context, n, k, granularity));
  const std::int64_t count = make_ranges(n, k, granularity).total;
  if (!inside) {
    if (static_cast<std::int64_t>(scales.size()) != count)
      return error(Code::invalid_argument, kWhere, "{} x {} by {} have {} scales, {} were given", n, k,
                   name(granularity), count, scales.size());
    TERN_RETURN_IF_ERROR(check_scales(kWhere, "scales", scales.data(), count));
  }
  TERN_ASSIGN(place, PackedPlace::make(context, packed, memory));
  const auto reach = [](const auto& span) {
    const auto begin = reinterpret_cast<std::uintptr_t>(span.data());
    return ByteSpan{begin, begin + span.size_bytes()};
  };
  TERN_RETURN_IF_ERROR(check_apart(kWhere, "the bytes", reach(bytes), "the memory", place.reach()));
  TERN_RETURN_IF_ERROR(check_apart(kWhere, "scales", reach(scales), "the memory", place.reach()));

  std::vector<float> read_scales(inside ? static_cast<std::size_t>(count) : 0);
  const Given given{spec, bytes, n, k, granularity, read_scales};
  CanonicalWeights weights{.codes = nullptr,
                           .stride_bytes = row_bytes(Format::i2, k),
                           .scales = inside ? read_scales.data() : scales.data(),
                           .n = n,
                           .k = k,
                           .granularity = granularity};
  TERN_ASSIGN(row_block, layout_row_block(spec, n, k));
  RowReader reader{row_block, [&given](std::int64_t first, std::int64_t rows, std::uint8_t* codes) {
                     return given.read(first, rows, codes);
                   }};
  return tern::pack(context, {.weights = weights, .reader = std::move(reader)}, std::move(place));
}

}  // namespace tern
