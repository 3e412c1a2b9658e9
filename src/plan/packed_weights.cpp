// PackedWeights: checks the canonical weights, then has them packed on the context's device.
#include "ops/dot/packed_weights.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "plan/pack.h"
#include "tern/linear.h"

namespace tern {
namespace {

constexpr std::string_view kPack = "pack";

// The input of pack() must be on the context's device; a GPU also takes it from the host.
Status check_place(const Context& context, std::string_view argument, const ConstTensorView& view) {
  const DeviceId on = context.device().id;
  if (view.device == on || (on.kind == DeviceKind::cuda && view.device.kind == DeviceKind::cpu)) return {};
  return error(Code::invalid_argument, kPack, "{} lie on {}, the context is on {}; Tensor::to copies them", argument,
               name(view.device), name(on));
}

}  // namespace

Result<std::size_t> PackedWeights::packed_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity,
                                                Format format) {
  return packed_weights_bytes(n, k, granularity, format);
}

Result<std::size_t> PackedWeights::packed_bytes(const Context& context, std::int64_t n, std::int64_t k,
                                                const Granularity& granularity, Format format) {
  return packed_weights_bytes(n, k, granularity, format, context.device().id.kind);
}

Result<PackedWeights> PackedWeights::pack(const Context& context, const ConstTensorView& codes,
                                          const ConstTensorView& scales, std::int64_t n, std::int64_t k,
                                          const Granularity& granularity, std::span<std::byte> memory, Format format) {
  TERN_ASSIGN(bytes, packed_bytes(context, n, k, granularity, format));
  TERN_ASSIGN(rows, as_rows({kPack, codes.device}, "codes", codes, code_dtype(format), n, row_bytes(format, k)));
  const std::int64_t count = make_ranges(n, k, granularity).total;
  TERN_RETURN_IF_ERROR(check_dense({kPack, scales.device}, "scales", scales, DType::f32, count));
  TERN_RETURN_IF_ERROR(check_place(context, "codes", codes));
  TERN_RETURN_IF_ERROR(check_place(context, "scales", scales));
  const CanonicalWeights weights{.codes = static_cast<const std::uint8_t*>(codes.data),
                                 .stride_bytes = rows.stride,
                                 .scales = static_cast<const float*>(scales.data),
                                 .n = n,
                                 .k = k,
                                 .granularity = granularity,
                                 .format = format};
  if (scales.device.kind == DeviceKind::cpu) TERN_RETURN_IF_ERROR(check_weight_scales(weights));
  TERN_ASSIGN(place, PackedPlace::make(context, bytes, memory));
  TERN_RETURN_IF_ERROR(check_apart(kPack, "codes", bytes_of(codes), "the memory", place.reach()));
  TERN_RETURN_IF_ERROR(check_apart(kPack, "scales", bytes_of(scales), "the memory", place.reach()));
  return tern::pack(context, {.weights = weights, .codes_on = codes.device, .scales_on = scales.device},
                    std::move(place));
}

Result<PackedWeights> PackedWeights::pack(const Context& context, const QuantizedTensor& q,
                                          std::span<std::byte> memory) {
  if (q.format != Format::i2 && q.format != Format::b3)
    return error(Code::unsupported, kPack, "{} codes of scheme {} are not packed trits; quantize to i2 or b3",
                 name(q.format), name(q.scheme));
  return pack(context, q.codes.view(), q.scales.view(), q.rows(), q.k(), q.granularity, memory, q.format);
}

std::int64_t PackedWeights::n() const { return state_ ? state_->n : 0; }
std::int64_t PackedWeights::k() const { return state_ ? state_->k : 0; }
const Granularity& PackedWeights::granularity() const {
  static constexpr Granularity kNone;
  return state_ ? state_->granularity : kNone;
}
Format PackedWeights::format() const { return state_ ? state_->format : Format::i2; }
std::size_t PackedWeights::bytes() const { return state_ ? state_->bytes : 0; }
std::uint64_t PackedWeights::checksum() const { return state_ ? state_->checksum : 0; }
std::string_view PackedWeights::tile() const {
  return state_ && state_->device.kind == DeviceKind::cuda ? "tile_mma" : "tile16";
}

}  // namespace tern
