// Corrects the codes on which absmean and BitNet's own converter disagree.
#include "model/bitnet_match.h"

#include <cmath>
#include <cstring>

#include "base/elements.h"
#include "base/errors.h"
#include "base/fp_env.h"
#include "format/format.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "quantize_like_bitnet";

// A type of weights: converts its bits to a value, and rounds values to it.
struct Type {
  DType dtype;
  std::uint32_t sign_bit, infinity;
  [[nodiscard]] float value(std::uint32_t bits) const {
    if (dtype == DType::f32) return std::bit_cast<float>(bits);
    const auto half = static_cast<std::uint16_t>(bits);
    return dtype == DType::bf16 ? half::from_bf16(half) : half::from_f16(half);
  }
  [[nodiscard]] float rounded(float v) const {
    if (dtype == DType::bf16) return half::from_bf16(half::to_bf16(v));
    return dtype == DType::f16 ? half::from_f16(half::to_f16(v)) : v;
  }
};

// The bits of the smallest magnitude for which `is` holds (it holds for all larger ones); those of infinity if it holds
// for no finite value.
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

// Sets the codes of all elements whose magnitudes have bits in [low, high): to their sign if `on`, otherwise to 0.
template <class Bits>
void set_codes(const std::uint8_t* x, std::int64_t k, std::uint32_t sign_bit, std::uint32_t low, std::uint32_t high,
               bool on, std::uint8_t* codes) {
  constexpr std::int64_t kStep = 1024;  // elements searched at a time; nearly always none of them is in the range
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

Result<BitnetMatch> BitnetMatch::of(DType dtype, float scale) {
  const bool wide = dtype == DType::f32;
  if (!wide && dtype != DType::f16 && dtype != DType::bf16)
    return error(Code::unsupported, kWhere, "BitNet's converter computes in f32, f16 or bf16, not in {}", name(dtype));
  const Type type{dtype, wide ? 0x8000'0000U : 0x8000U, wide ? 0x7F80'0000U : dtype == DType::bf16 ? 0x7F80U : 0x7C00U};
  const FpEnvGuard guard;
  const float inverse = type.rounded(1.0F / type.rounded(scale));
  BitnetMatch match;
  match.stored_ = half::from_bf16(half::to_bf16(type.rounded(1.0F / inverse)));
  if (!std::isfinite(inverse) || !valid_scale(match.stored_))
    return error(Code::unsupported, kWhere, "the mean {} has no inverse in {}; take absmean", scale, name(dtype));
  const std::uint32_t ours = smallest(type, [&](float a) { return 2 * a > scale; });
  const std::uint32_t theirs = smallest(type, [&](float a) { return type.rounded(a * inverse) > 0.5F; });
  match.sign_bit_ = type.sign_bit;
  match.low_ = std::min(ours, theirs);
  match.high_ = std::max(ours, theirs);
  match.on_ = theirs < ours;
  match.threshold_ = theirs == 0 ? -1.0 : static_cast<double>(type.value(theirs - 1));
  return match;
}

void BitnetMatch::mend(const std::uint8_t* x, std::int64_t k, std::uint8_t* codes) const {
  if (low_ == high_) return;
  if (sign_bit_ == 0x8000U) {
    set_codes<std::uint16_t>(x, k, sign_bit_, low_, high_, on_, codes);
  } else {
    set_codes<std::uint32_t>(x, k, sign_bit_, low_, high_, on_, codes);
  }
}

}  // namespace tern
