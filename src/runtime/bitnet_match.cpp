// absmean first, then the codes between its threshold and BitNet's set right.
#include "runtime/bitnet_match.h"

#include <cmath>

#include "base/errors.h"
#include "base/fp_env.h"
#include "format/format.h"
#include "ops/elements.h"
#include "plan/context_state.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "quantize_like_bitnet";

// One type of weights: its bits, and rounding to it.
struct Type {
  DType dtype;
  std::uint32_t sign_bit, infinity;
  [[nodiscard]] float value(std::uint32_t bits) const {
    if (dtype == DType::f32) return std::bit_cast<float>(bits);
    const auto half = static_cast<std::uint16_t>(bits);
    return dtype == DType::bf16 ? simd::from_bf16(half) : simd::from_f16(half);
  }
  [[nodiscard]] float rounded(float v) const {
    if (dtype == DType::bf16) return simd::from_bf16(simd::to_bf16(v));
    return dtype == DType::f16 ? simd::from_f16(simd::to_f16(v)) : v;
  }
};

// The bits of the smallest magnitude for which `is` holds; it holds for all larger ones. Infinity: for none.
template <class Is>
std::uint32_t smallest(const Type& type, Is is) {
  std::uint32_t low = 0, high = type.infinity;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (is(type.value(middle))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Codes of a row whose magnitudes are low .. high - 1 become a sign, or 0.
template <class Bits>
void set_codes(const std::uint8_t* x, std::int64_t k, std::uint32_t sign_bit, std::uint32_t low, std::uint32_t high,
               bool on, std::uint8_t* codes) {
  constexpr std::int64_t kStep = 1024;  // looked through at a time: nearly never is there one
  for (std::int64_t at = 0; at < k; at += kStep) {
    const std::int64_t n = std::min(kStep, k - at);
    Bits bits[kStep];
    std::memcpy(bits, x + at * static_cast<std::int64_t>(sizeof(Bits)), static_cast<std::size_t>(n) * sizeof(Bits));
    const auto mask = static_cast<Bits>(~sign_bit), first = static_cast<Bits>(low),
               width = static_cast<Bits>(high - low);
    Bits any = 0;
    for (std::int64_t i = 0; i < n; ++i)
      any |= static_cast<Bits>(static_cast<Bits>((bits[i] & mask) - first) < width ? 1 : 0);
    if (any == 0) continue;
    for (std::int64_t i = 0; i < n; ++i) {
      if (static_cast<Bits>((bits[i] & mask) - first) >= width) continue;
      const unsigned code = !on ? 1U : (bits[i] & sign_bit) != 0 ? 0U : 2U;
      const std::int64_t column = at + i;
      const unsigned shift = 2U * static_cast<unsigned>(column % 4);
      codes[column / 4] = static_cast<std::uint8_t>((codes[column / 4] & ~(3U << shift)) | code << shift);
    }
  }
}

}  // namespace

Result<BitnetMatch> quantize_like_bitnet(const Context& context, const ConstTensorView& x,
                                         const QuantizeOptions& options) {
  const bool wide = x.dtype == DType::f32;
  if (!wide && x.dtype != DType::f16 && x.dtype != DType::bf16)
    return error(Code::unsupported, kWhere, "BitNet's converter computes in f32, f16 or bf16, not in {}",
                 name(x.dtype));
  const Type type{x.dtype, wide ? 0x8000'0000U : 0x8000U,
                  wide                     ? 0x7F80'0000U
                  : x.dtype == DType::bf16 ? 0x7F80U
                                           : 0x7C00U};
  QuantizeOptions absmean = options;
  absmean.scheme = Scheme::absmean;
  absmean.granularity = Granularity::tensor();
  absmean.format = Format::i2;
  TERN_ASSIGN(q, quantize(context, x, absmean));

  const FpEnvGuard guard;
  const float scale = q.scale_values()[0];
  const float inverse = type.rounded(1.0F / type.rounded(scale));
  const float stored = simd::from_bf16(simd::to_bf16(type.rounded(1.0F / inverse)));
  if (!std::isfinite(inverse) || !valid_scale(stored))
    return error(Code::unsupported, kWhere, "the mean {} has no inverse in {}; take absmean", scale, name(x.dtype));
  const std::uint32_t ours = smallest(type, [&](float a) { return 2 * a > scale; });
  const std::uint32_t theirs = smallest(type, [&](float a) { return type.rounded(a * inverse) > 0.5F; });
  const std::uint32_t low = std::min(ours, theirs), high = std::max(ours, theirs);
  const bool on = theirs < ours;
  if (low < high) {
    const std::int64_t n = q.rows(), k = q.k(), line = row_bytes(Format::i2, k);
    const auto* data = static_cast<const std::uint8_t*>(x.data);
    const auto row_step = k * static_cast<std::int64_t>(size_of(x.dtype));
    WorkQueue queue(n, 16);
    const Threads& threads = context.state().threads;
    threads.run(threads.count(), [&](int) {
      for (std::int64_t row = 0, end = 0; queue.next(row, end);)
        for (; row < end; ++row) {
          std::uint8_t* codes = q.codes.as<std::uint8_t>().data() + row * line;
          if (wide) {
            set_codes<std::uint32_t>(data + row * row_step, k, type.sign_bit, low, high, on, codes);
          } else {
            set_codes<std::uint16_t>(data + row * row_step, k, type.sign_bit, low, high, on, codes);
          }
        }
    });
  }
  q.scales.as<float>()[0] = stored;
  return BitnetMatch{std::move(q), theirs == 0 ? -1.0 : static_cast<double>(type.value(theirs - 1))};
}

}  // namespace tern
