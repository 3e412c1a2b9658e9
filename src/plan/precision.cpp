// Precisions: their names, and which ones a device has.
#include "tern/precision.h"

#include "base/errors.h"
#include "base/words.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "precision";
constexpr WordTable<Precision, 4> kPrecisions = {
    {{Precision::automatic, "auto"}, {Precision::f32, "f32"}, {Precision::f16, "f16"}, {Precision::bf16, "bf16"}}};

}  // namespace

std::string_view name(Precision precision) { return word_of(kPrecisions, precision); }
Result<Precision> parse_precision(std::string_view word) { return parse_word(kPrecisions, "precision", word); }

Result<PrecisionChoice> resolve_precision(const Context& context, Precision asked, bool strict) {
  const Device& device = context.device();
  const bool gpu = device.id.kind == DeviceKind::cuda;
  const bool has_bf16 = !gpu || device.capabilities.has(Capability::sm_80);
  const std::string where = name(device.id);
  const auto chosen = [&](DType used, std::string because) {
    return PrecisionChoice{.asked = asked, .used = used, .because = std::move(because)};
  };
  switch (asked) {
    case Precision::f32: return chosen(DType::f32, "asked for");
    case Precision::f16: return chosen(DType::f16, "asked for");
    case Precision::automatic:
      if (!gpu) return chosen(DType::f32, fmt::format("{} computes in f32", where));
      return has_bf16 ? chosen(DType::bf16, fmt::format("{} multiplies matrices of bf16", where))
                      : chosen(DType::f16, fmt::format("{} multiplies matrices of f16, not of bf16", where));
    case Precision::bf16: break;
  }
  if (has_bf16) return chosen(DType::bf16, "asked for");
  if (strict)
    return error(Code::unsupported, kWhere, "{} has no bf16 (compute capability 8.0); ask for f16, f32 or auto", where);
  PrecisionChoice choice = chosen(DType::f32, fmt::format("{} has no bf16 (compute capability 8.0)", where));
  choice.fell_back = true;
  return choice;
}

}  // namespace tern
